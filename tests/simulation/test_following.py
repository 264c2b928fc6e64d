"""What followers and leaders make of each other's words: each rule broken once, and kept once."""

import asyncio
import copy
from collections.abc import Collection
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.config import Listener
from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import (
    Fetched,
    FetchFrom,
    FollowerFetch,
    LeaderAndIsr,
    Produce,
    Tick,
)
from ackproof.broker.replication.follower import Follower
from ackproof.broker.replication.leader import Leader
from ackproof.broker.replication.replica import LogState, Replica
from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.server.replication.fetch_session_handler import FetchAsk, FetchSessionHandler
from ackproof.broker.types import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Millis,
    NamedPartition,
    Offset,
    TopicPartition,
    ZkVersion,
)
from ackproof.broker.wire.batch import RecordBatch, parse_batches
from ackproof.broker.wire.messages.fetch import FetchResponse
from simulation.clients.batches import encoded
from simulation.mutations.swap import Swap
from simulation.observer.following import (
    counted,
    keeping_up,
    known_anew,
    named,
    parting,
    sought,
    taking_in,
)
from simulation.observer.following.named import Named
from simulation.observer.moments import repeated
from simulation.partition.shadow import Extent, Shadow
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
LOG = Shadow(0, [Extent(0, 4, 1, 1), Extent(4, 9, 2, 3)])
LAG_MS = 1_000


def told(leader: BrokerId, epoch: int = 5) -> LeaderAndIsr:
    return LeaderAndIsr(
        controller_epoch=ControllerEpoch(1),
        leader=leader,
        leader_epoch=LeaderEpoch(epoch),
        isr=(ONE, TWO, THREE),
        replicas=(ONE, TWO, THREE),
        zk_version=ZkVersion(0),
        now=Millis(0),
    )


def replica(leader: BrokerId) -> Replica:
    """Of broker 1, whose log is ``LOG``."""
    log = LogState(
        log_start_offset=Offset(0),
        log_end_offset=Offset(9),
        high_watermark=Offset(4),
        epochs=((LeaderEpoch(1), Offset(0)), (LeaderEpoch(3), Offset(4))),
    )
    made = Replica(ONE, ReplicaConfig(replica_lag_time_max_ms=LAG_MS), log)
    made.step(told(leader))
    return made


# --- where logs part ------------------------------------------------------------------------------


def keeps_its_tail(self: Follower, event: Any) -> Any:
    known, end = self._log.epochs.end_offset_for(event.leader_epoch, self._log.log_end_offset)
    return (event.end_offset, True) if known == event.leader_epoch else (end, False)


def asks_once(self: Follower, event: Any) -> Any:
    known, end = self._log.epochs.end_offset_for(event.leader_epoch, self._log.log_end_offset)
    return min(end, event.end_offset) if known == event.leader_epoch else end, True


def gives_all_up(_self: Follower, _event: Any) -> Any:
    return Offset(0), True


@pytest.mark.parametrize(
    ("name", "wrong", "how"),
    [
        ("_truncation_state", keeps_its_tail, "ends up otherwise"),
        ("_truncation_state", asks_once, "ends up otherwise"),
        ("_truncation_state", gives_all_up, "gives up what lies below"),
        ("_ends_inside_a_batch", lambda *_: False, "refuses it"),
    ],
)
def test_whoever_leads_a_follower_ends_up_with_that_log(name: str, wrong: Any, how: str) -> None:
    parting.stepped("t-0", replica(TWO), LOG, told(TWO))
    with ExitStack() as undo:
        Swap(Follower, name, wrong).put(undo)
        with pytest.raises(Violation, match=f"LogsMeet: t-0: .*{how}"):
            parting.stepped("t-0", replica(TWO), LOG, told(TWO))


def forgets_what_was_served(only_if_empty: bool) -> Any:
    take = Follower.fetched

    def fetched(self: Follower, event: Fetched) -> Any:
        effects = take(self, event)
        self._is_prefix = bool(event.batches) is only_if_empty
        return effects

    return fetched


@pytest.mark.parametrize("only_if_empty", [True, False])
def test_a_follower_that_was_served_raises_the_alarm(*, only_if_empty: bool) -> None:
    with ExitStack() as undo:
        Swap(Follower, "fetched", forgets_what_was_served(only_if_empty)).put(undo)
        with pytest.raises(Violation, match=r"LossIsAlarming: t-0: .* up to 11, .* ends at 10"):
            parting.stepped("t-0", replica(TWO), LOG, told(TWO))


# --- what is told once ----------------------------------------------------------------------------


def answer(committed: int, start: int) -> Fetched:
    return Fetched(
        leader_epoch=LeaderEpoch(5),
        fetch_offset=Offset(9),
        batches=(),
        high_watermark=Offset(committed),
        log_start_offset=Offset(start),
    )


@pytest.mark.parametrize(
    ("taken", "said", "breaks"),
    [
        (answer(9, 9), answer(9, 9), False),
        (answer(4, 2), answer(4, 2), False),
        (answer(12, 11), answer(12, 11), False),  # as far as its own log reaches
        (answer(9, 4), answer(9, 9), True),
        (answer(4, 0), answer(9, 0), True),
    ],
)
def test_what_is_told_is_gone_by(taken: Fetched, said: Fetched, *, breaks: bool) -> None:
    follower = replica(TWO)
    follower._follower._truncating = False  # type: ignore[union-attr]
    effects = follower.step(taken)
    with pytest.raises(Violation, match="ToldIsTakenIn") if breaks else nullcontext():
        taking_in.stepped("t-0", follower, 9, said, effects)


# --- who lags -------------------------------------------------------------------------------------


def fetch(broker: BrokerId, offset: int) -> FollowerFetch:
    return FollowerFetch(
        replica=broker, offset=Offset(offset), log_start_offset=Offset(0), now=Millis(10)
    )


def leading(second: int, third: int) -> Replica:
    """Broker 1 leads what ends at 9, and the others have this much of it."""
    leader = replica(ONE)
    leader.step(fetch(TWO, second))
    leader.step(fetch(THREE, third))
    return leader


def forgets_the_watermark(self: Leader, event: Tick) -> Any:
    self._pass_time(event.now)
    return self._retry_or_shrink_isr()


def test_who_lags_too_many_messages_would_leave() -> None:
    keeping_up.stepped("t-0", leading(9, 7), Tick(now=Millis(20)))
    with ExitStack() as undo:
        Swap(Leader, "_is_too_far_behind", lambda *_: False).put(undo)
        keeping_up.stepped("t-0", leading(9, 9), Tick(now=Millis(20)))
        with pytest.raises(Violation, match=r"LaggardsWouldLeave: t-0: brokers \[3\] lag 2"):
            keeping_up.stepped("t-0", leading(9, 7), Tick(now=Millis(20)))


def test_the_watermark_would_follow_when_the_slowest_is_silent() -> None:
    keeping_up.stepped("t-0", leader := leading(8, 5), fetch(THREE, 5))
    assert leader.high_watermark == 5, "the leader itself hears of nothing"
    with ExitStack() as undo:
        Swap(Leader, "tick", forgets_the_watermark).put(undo)
        keeping_up.stepped("t-0", leading(5, 5), fetch(THREE, 5))
        with pytest.raises(Violation, match=r"WatermarkWouldFollow: t-0: \[1, 2\] .* below 8,"):
            keeping_up.stepped("t-0", leading(8, 5), fetch(THREE, 5))


# --- sessions -------------------------------------------------------------------------------------

TODO = FetchFrom(
    leader=TWO, leader_epoch=LeaderEpoch(5), offset=Offset(9), log_start_offset=Offset(0)
)
PARTS: list[NamedPartition] = [TopicPartition("t", number) for number in range(3)]


def forgets_by_number(self: FetchSessionHandler, wanted: Any) -> FetchAsk:
    """Looks for what is given up when there is less than before."""
    fewer = len(wanted) < len(self._requested)
    said = FetchSessionHandler.ask(self, wanted)
    return said if fewer else said._replace(forgotten=())


def in_session(ask: Any) -> tuple[Named, FetchSessionHandler]:
    """It wants the first two partitions, and has a session."""
    known, session = Named(ask), FetchSessionHandler()
    first = dict.fromkeys(PARTS[:2], TODO)
    known.asked(session, first, ask(session, first))
    session.answered(FetchResponse(session_id=7, responses=()))
    return known, session


@pytest.mark.parametrize("wanted", [PARTS[:2], PARTS[:1], PARTS, PARTS[1:]])
def test_a_session_says_all_that_is_wanted_and_no_more(wanted: list[NamedPartition]) -> None:
    known, session = in_session(FetchSessionHandler.ask)
    now = dict.fromkeys(wanted, TODO)
    known.asked(session, now, FetchSessionHandler.ask(session, now))


def test_a_partition_that_takes_anothers_place_is_looked_for() -> None:
    known, session = in_session(forgets_by_number)
    now = dict.fromkeys(PARTS[:2], TODO)
    with pytest.raises(Violation, match="NamedAreFollowed: by a fetch session"):
        known.asked(session, now, forgets_by_number(session, now))


def test_what_had_records_is_behind_what_had_none() -> None:
    one, two, three = PARTS
    named.answered(PARTS, ())
    named.answered(PARTS, PARTS)
    named.answered(PARTS, {two, three})
    with pytest.raises(Violation, match="BusyGoBehind: t-2 had no records"):
        named.answered(PARTS, {one, two})


# --- where leaders are ----------------------------------------------------------------------------

HERE = Listener("broker-2-0", 9092)


class Fetching:
    """A fetcher of broker 1, connected to where 2 is."""

    def __init__(self) -> None:
        self._config, self._leader = SimpleNamespace(id=ONE), TWO
        self._connection: Any = BrokerConnection(*HERE, "tests")
        self._locate: Any = lambda _: HERE

    async def looks_again(self, _request: Any) -> None:
        self._connection = BrokerConnection(*self._locate(self._leader), "tests")

    async def stays(self, _request: Any) -> None:
        raise Disconnected("nobody is there")


def test_a_leader_is_looked_for_where_it_is() -> None:
    fetching: Any = Fetching()
    sought.check(fetching, HERE)
    with pytest.raises(Violation, match=r"LeadersAreSought: broker 1 .* at broker-2-0:9092, and"):
        sought.check(fetching, HERE._replace(host="broker-2-1"))


def test_a_leader_would_be_looked_for_elsewhere() -> None:
    looks: Any = Fetching()
    asyncio.run(sought.Sought().elsewhere(looks, Fetching.looks_again, None))  # type: ignore[arg-type]
    assert looks._connection.name == "broker-2-0:9092", "the fetcher itself hears of nothing"
    stays: Any = Fetching()
    with pytest.raises(Violation, match="LeadersAreSought: broker 1 looks for leader 2"):
        asyncio.run(sought.Sought().elsewhere(stays, Fetching.stays, None))  # type: ignore[arg-type]


# --- what is counted ------------------------------------------------------------------------------


class Reader:
    """A fetch of two partitions: one has 30 bytes, the other none."""

    has_enough = False

    def __init__(self, *, again: int) -> None:
        self._reads = {number: SimpleNamespace(records=bytes(30 * number)) for number in range(2)}
        self._size, self._again = 30, again

    def look_again(self, _woken: Collection[TopicPartition]) -> bool:
        self._size = self._again
        return False


def test_all_that_would_be_answered_is_counted() -> None:
    sound: Any = Reader(again=30)
    counted.begun(copy.copy(sound))
    broken: Any = Reader(again=0)
    with pytest.raises(Violation, match=r"SizesAreCounted: .* counts 0 bytes, .* with 30"):
        counted.begun(broken)
    assert broken._size == 30, "the fetch itself hears of nothing"


# --- repetitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "breaks"),
    [((4, 6), False), ((4, 5), True), ((3, 6), True), (None, False), ((1, 3), True)],
)
def test_a_repetition_is_where_it_stands(where: Any, *, breaks: bool) -> None:
    (batch,) = parse_batches(encoded([b"a", b"b"], times_ms=[1, 1]))
    assert isinstance(batch, RecordBatch)
    numbers = {
        "producer": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "sequence": batch.base_sequence,
    }
    log = Shadow(0, [Extent(0, 4, 1, 1), Extent(4, 6, 2, 1)._replace(**numbers)])
    event = Produce(
        request=1, batches=(batch,), acks=-1, deadline=Millis(9), now=Millis(1), appended=where
    )
    with pytest.raises(Violation, match="RepetitionsAreWhole") if breaks else nullcontext():
        repeated.stepped("t-0", log, event)


def test_of_a_repetition_that_was_deleted_nothing_is_said() -> None:
    (batch,) = parse_batches(encoded([b"a", b"b"], times_ms=[1, 1]))
    event = Produce(
        request=1,
        batches=(batch,),
        acks=-1,
        deadline=Millis(9),
        now=Millis(1),
        appended=(2, 4),  # type: ignore[arg-type]
    )
    repeated.stepped("t-0", Shadow(4, [Extent(4, 6, 2, 1)]), event)


# --- what is known when an epoch begins -----------------------------------------------------------


def test_of_followers_nothing_is_known_when_an_epoch_begins() -> None:
    leader = replica(ONE)
    known_anew.begun(leader, "t-0")
    leader.step(fetch(TWO, 9))
    leader.step(told(ONE, epoch=6))
    known_anew.begun(leader, "t-0")
    leader.step(fetch(THREE, 7))
    with pytest.raises(Violation, match=r"KnownAnew: t-0: .* 6, .* broker 3 has all below 7"):
        known_anew.begun(leader, "t-0")
    leader.step(told(TWO, epoch=7))
    known_anew.begun(leader, "t-0")
