"""Reading from a replica that is near (KIP-392), where ``replica.selector.class`` is
``RackAwareReplicaSelector``; brokers are in two racks then.

* **NearestIsNamed**: a consumer that asks the leader from another one's rack is told of that one,
  and gets no records; of the leader's own rack, of none, or of one in which nobody is, it is served
  (``ReplicaManager.findPreferredReadReplica``, ``RackAwareReplicaSelector``).
* **FollowersServe**: a follower serves what its leader would, as far as it knows that it is
  committed; a consumer with another leader epoch is refused, one that asks beyond the end, too, and
  one whose version is older than KIP-392.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.replica_selector import RACK_AWARE
from ackproof.broker.types import NO_EPOCH, LeaderEpoch, Offset, TopicPartition
from ackproof.broker.wire.messages.fetch import FetchRequest, PartitionData
from simulation.clients.client import Client
from simulation.clients.fetch_requests import fetch_request
from simulation.plans.plan import rack_of
from simulation.verdict import patience
from simulation.verdict.led import Led, led
from simulation.verdict.refused.words import Word, answered, is_refused, of_fetch
from simulation.verdict.settling import Cluster
from simulation.violation import Violation

NAMED: Final = "NearestIsNamed"
SERVES: Final = "FollowersServe"
NOBODY: Final = -1
PATIENCE_S: Final = 3.0
BEYOND: Final = 7
TOO_OLD: Final = 10
"""The version of Fetch before the one that has racks."""


async def check(client: Client, world: Cluster, settings: Mapping[str, str]) -> None:
    """Of the partition with the longest log that has a follower; raises Violation."""
    followed = [
        each for each in led(world.observer, world.hosted) if each.leader.replica.follower_ends
    ]
    if settings.get("replica.selector.class") != RACK_AWARE or not followed:
        return
    most = max(followed, key=lambda each: each.end - each.start)
    follower = max(most.leader.replica.follower_ends)
    if follower in most.leader.replica.isr and _kept_by_all(most) < most.end:
        await _is_named(client, most)
        await _serves(client, world, most, follower)


# --- the leader -----------------------------------------------------------------------------------


async def _is_named(client: Client, led: Led) -> None:
    """Once its followers have fetched: it may have been elected just now."""
    for rack in (*sorted(map(rack_of, led.leader.replica.replicas)), "elsewhere", ""):
        await patience.wait(NAMED, PATIENCE_S, partial(sent_elsewhere, client, led, rack))


async def sent_elsewhere(client: Client, led: Led, rack: str) -> str | None:
    """What is wrong with whom the leader sends a consumer of that rack to, going by its ISR."""
    isr, here = led.leader.replica.isr, rack_of(led.broker)
    near = {id_ for id_ in isr if rack_of(id_) == rack and id_ != led.broker}
    expected = near if near and rack != here else {NOBODY}
    part = _part(await answered(client, led.broker, _request(led.tp, _kept_by_all(led), rack)))
    told, records = part.preferred_read_replica, bool(part.records)
    served = expected == {NOBODY}
    if part.error_code is ErrorCode.none and told in expected and records == served:
        return None
    what = f"{part.error_code.name}, {told} and {'some' if records else 'no'} records"
    return f"{led.tp}: leader {led.broker} in rack {here} tells {what} to one in rack {rack!r}"


def _kept_by_all(led: Led) -> Offset:
    """From where on each replica has what it had: a leader that was away while records were deleted
    may be elected before it has heard of that, and its followers begin further up."""
    remotes = led.leader.replica._remotes.values()
    return Offset(max([led.start, *(remote.log_start_offset for remote in remotes)]))


# --- a follower -----------------------------------------------------------------------------------


async def _serves(client: Client, world: Cluster, led: Led, follower: int) -> None:
    request, local = (
        _request(led.tp, _kept_by_all(led), rack_of(broker)) for broker in (follower, led.broker)
    )
    told = _part(await answered(client, follower, request))
    expected = _part(await answered(client, led.broker, local))
    hosted = world.hosted(follower, led.tp)
    assert hosted is not None
    offsets = (told.high_watermark, told.log_start_offset)
    own = (hosted.replica.high_watermark, hosted.replica.log_start_offset)
    same = bytes(told.records or b"") == bytes(expected.records or b"")
    if told.error_code is not ErrorCode.none or not same or offsets != own:
        what = f"{told.error_code.name}, offsets {offsets}, which are {own}"
        more = "" if same else ", and other records than its leader"
        raise Violation(SERVES, f"{led.tp}: follower {follower} tells {what}{more}")
    for word in _refused(led, follower, request):
        await is_refused(client, word, SERVES)


def _refused(led: Led, follower: int, request: FetchRequest) -> Iterator[Word]:
    epoch, beyond = led.leader.replica.leader_epoch, led.end + BEYOND
    ahead = _request(led.tp, led.start, "", LeaderEpoch(epoch + 1))
    cases: list[tuple[str, FetchRequest, ErrorCode]] = [
        (f"in leader epoch {epoch + 1}", ahead, ErrorCode.unknown_leader_epoch),
        (f"from {beyond} on", _request(led.tp, beyond, ""), ErrorCode.offset_out_of_range),
        (
            f"of version {TOO_OLD}",
            replace(request, version=TOO_OLD),
            ErrorCode.not_leader_or_follower,
        ),
    ]
    if epoch > 0:
        behind = _request(led.tp, led.start, "", LeaderEpoch(epoch - 1))
        cases.append((f"in leader epoch {epoch - 1}", behind, ErrorCode.fenced_leader_epoch))
    for what, asked, expected in cases:
        said = f"a consumer's Fetch {what} of {led.tp}, which it follows"
        yield Word(said, follower, asked, of_fetch, expected)


def _request(
    tp: TopicPartition, offset: int, rack: str, epoch: LeaderEpoch = NO_EPOCH
) -> FetchRequest:
    return replace(fetch_request([(tp, offset)], epoch=epoch), rack_id=rack)


def _part(answer: Any) -> PartitionData:
    ((part,),) = [topic.partitions for topic in answer.responses]
    assert isinstance(part, PartitionData)
    return part
