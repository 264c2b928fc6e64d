"""**UnheardHaveAll**: a leader tells nobody that records are deleted everywhere while a follower of
which it has not heard since its election has them (KIP-107: the low watermark is -1 until then).

A follower fetches a few ms after an election, and hardly anybody deletes records in between. What
the leader would say is judged after each of its steps.
"""

from collections.abc import Callable

from broker.server.replication import partition as server
from broker.types import Offset, TopicPartition
from simulation.violation import Violation

Hosted = Callable[[int, TopicPartition], server.Partition | None]
"""A broker's replica."""


def check(broker: int, hosted: server.Partition, hosted_by: Hosted) -> None:
    """Raises Violation."""
    ends = hosted.replica.follower_ends
    told = hosted.replica.low_watermark_among(ends)
    for follower, end in ends.items():
        other = hosted_by(follower, hosted.tp) if end < 0 else None
        start = Offset(0) if other is None else other.log.log_start_offset
        if other is not None and start < told:
            has = f"{follower}, not heard of yet, has what begins at {start}"
            would = f"leader {broker} would say that all is deleted below {told}"
            raise Violation("UnheardHaveAll", f"{hosted.tp}: {would}, and {has}")
