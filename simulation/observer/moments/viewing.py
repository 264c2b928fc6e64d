"""What a replica believes of its log, looked at whenever something has followed from a step.

It says nothing of records, and holds in all generations and configurations.
"""

from ackproof.broker.server.replication import partition as server
from simulation.violation import Violation


def check(broker: int, hosted: server.Partition) -> None:
    """Raises Violation.

    * **ViewIsLog**: where a replica believes its log to begin and to end, it does.
    * **ValidHighWatermark**: its high watermark is in between: above its end it would call
      committed, as a leader, what it appends next.
    """
    log, replica = hosted.log, hosted.replica
    there = (log.log_start_offset, log.log_end_offset)
    if there != (replica.log_start_offset, replica.log_end_offset):
        raise Violation(
            "ViewIsLog",
            f"{hosted.tp}, broker {broker}: the replica believes in {replica.log_start_offset} "
            f"to {replica.log_end_offset}, the log is {log.log_start_offset} to "
            f"{log.log_end_offset}",
        )
    start, end = there
    if not start <= replica.high_watermark <= end:
        raise Violation(
            "ValidHighWatermark",
            f"{hosted.tp}: {replica.high_watermark} on broker {broker}, whose log is {start} to "
            f"{end}",
        )
