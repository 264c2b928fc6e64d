"""**LowWatermarkIsHeard**: a leader tells nobody that records are deleted everywhere before each
follower has said so since its election (KIP-107: the low watermark is -1 until all have fetched).

A follower fetches a few ms after an election, and hardly anybody deletes records in between. What
the leader would say is judged after each of its steps, and by what it was told, not by what it made
of that.
"""

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from ackproof.broker.replication.epochs import UNKNOWN_OFFSET
from ackproof.broker.replication.events import Event, FollowerFetch
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.replication import partition as server
from simulation.violation import Violation


@dataclass(slots=True)
class _Heard:
    """In one leader epoch, of each follower the largest log start."""

    epoch: int
    starts: dict[int, int] = field(default_factory=dict)


class LowWatermarks:
    """What the leaders of one world have heard."""

    def __init__(self) -> None:
        self._heard: WeakKeyDictionary[server.Partition, _Heard] = WeakKeyDictionary()

    def stepped(
        self, broker: int, hosted: server.Partition, event: Event, *, changed: bool
    ) -> None:
        """``changed``: something followed from the ``event``; raises Violation."""
        replica = hosted.replica
        if replica.role is not Role.LEADER:
            return
        heard = self._heard.get(hosted)
        if heard is None or heard.epoch != replica.leader_epoch:
            heard = self._heard[hosted] = _Heard(replica.leader_epoch)
        if type(event) is FollowerFetch:
            known = heard.starts.get(event.replica, UNKNOWN_OFFSET)
            heard.starts[event.replica] = max(known, event.log_start_offset)
        if not changed:
            return
        followers = replica.follower_ends
        told = replica.low_watermark_among(followers)
        for follower in followers:
            start = heard.starts.get(follower, UNKNOWN_OFFSET)
            if start < told:
                would = f"leader {broker} would say that all is deleted below {told}"
                said = f"{follower} has said in this epoch to begin at {start}"
                raise Violation("LowWatermarkIsHeard", f"{hosted.tp}: {would}, and {said}")
