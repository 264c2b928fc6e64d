"""**ToldIsTakenIn**: what a leader's answer says of its watermark and of where its log starts, its
follower goes by as soon as it has taken the answer in, as far as its own log reaches.

In a session it is told once. 2 had committed up to 10, and is told at once that 12 are committed,
and deleted: who looks at the deletion first deletes 10, and hears of the rest when the next record
comes. Whoever asked for the deletion waits for that.
"""

from collections.abc import Iterable

from ackproof.broker.replication.events import Append, Effect, Event, Fetched, FetchFrom
from ackproof.broker.replication.replica import Replica
from simulation.violation import Violation


def stepped(
    name: str, replica: Replica, log_end: int, event: Event, effects: Iterable[Effect]
) -> None:
    """A replica whose log ended at ``log_end`` has taken ``event`` in; raises Violation."""
    if type(event) is not Fetched or not _is_taken(replica, log_end, event, effects):
        return
    committed = min(event.high_watermark, replica.log_end_offset)
    start = min(event.log_start_offset, committed)
    if replica.high_watermark < committed or replica.log_start_offset < start:
        told = f"that its log starts at {event.log_start_offset}, committed is"
        knows = f"starts at {replica.log_start_offset}, committed is {replica.high_watermark}"
        raise Violation(
            "ToldIsTakenIn",
            f"{name}: broker {replica.broker} is told {told} {event.high_watermark}, and its own "
            f"{knows}, of what ends at {replica.log_end_offset}",
        )


def _is_taken(replica: Replica, log_end: int, event: Fetched, effects: Iterable[Effect]) -> bool:
    """It asked for that, and did not cut its log instead."""
    asks = replica.fetching()
    if not isinstance(asks, FetchFrom) or asks.leader_epoch != event.leader_epoch:
        return False
    appended = any(isinstance(effect, Append) for effect in effects)
    return event.fetch_offset == log_end and (appended or not event.batches)
