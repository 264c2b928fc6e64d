"""**ViewIsLog**: where a replica believes its log to begin and to end, it does, whenever something
has followed from a step."""

from broker.server.replication import partition as server
from simulation.violation import Violation


def check(broker: int, hosted: server.Partition) -> None:
    """Raises Violation."""
    log, replica = hosted.log, hosted.replica
    there = (log.log_start_offset, log.log_end_offset)
    if there != (replica.log_start_offset, replica.log_end_offset):
        raise Violation(
            "ViewIsLog",
            f"{hosted.tp}, broker {broker}: the replica believes in {replica.log_start_offset} "
            f"to {replica.log_end_offset}, the log is {log.log_start_offset} to "
            f"{log.log_end_offset}",
        )
