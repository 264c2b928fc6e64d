"""Generated timelines: a sound cluster's is clean, however late it was seen and whatever the clocks
show; what is planted is found and nothing else, and not a nanosecond before it can be known."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackproof.checkers.context.broker_logs import Role
from ackproof.checkers.context.observed import OBSERVATION_LAG_NS
from tests.support.builders.examples import examples
from tests.support.builders.histories import (
    ACKS_1,
    ALL,
    SECOND,
    Made,
    a_fault,
    at,
    connection,
    entry,
    send,
    state,
)
from tests.support.builders.timelines import SETTLE_NS, Found, Told, acked, sound

ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""However slow it is."""

FEW = settings(ANY_MACHINE, max_examples=examples(20))
"""Of each of many plants."""

GAP = 1_000 * SECOND
"""Between what is planted, and before: everything has settled."""

Plant = Callable[["Scene", int], tuple["Scene", set[Found]]]


class Scene:
    """A timeline that is added to. ``time``: now, when all have heard that one leads and three are
    in sync; ``leader``, ``epoch``: who, and since when."""

    def __init__(self, told: Told, number: int = 1) -> None:
        last = told.rows[-1]
        self.number = number
        self.leader, self.epoch = last["leader"], max(row["leader_epoch"] for row in told.rows)
        self.time = max([last["time"], *(one.time for one in told.made.sends)]) + GAP
        self.version = max(row["version"] for row in told.rows if row["version"] is not None)
        self.told = told
        if last["leader_epoch"] < self.epoch or len(last["isr"]) < 3:
            self.epoch += last["leader_epoch"] < self.epoch
            self.see(self.time - GAP // 2, self.leader, self.epoch)

    @property
    def end(self) -> int:
        """Return the end offset of the log."""
        return self.told.made.end

    @property
    def bound(self) -> int:
        assert self.told.bound is not None
        return self.told.bound

    def who(self, place: int) -> int:
        """A producer of this scene's own."""
        return 100 * self.number + place

    def other(self) -> int:
        return self.leader % 3 + 1

    def see(
        self,
        time: int,
        leader: int,
        epoch: int,
        isr: tuple[int, ...] = (1, 2, 3),
        controller_epoch: int | None = 1,
    ) -> None:
        self.version += 1
        row = state(
            0, leader, epoch, isr, version=self.version, controller_epoch=controller_epoch
        ) | {"time": time}
        self.told = self.told.but(rows=[*self.told.rows, row])

    def say(self, *words: Role) -> None:
        self.told = self.told.but(words=[*self.told.words, *words])

    def append(self, place: int, epoch: int, sequence: int = 0, asked: int | None = None) -> None:
        """A record that was sent and stands in the log; acked or not is for another line."""
        made = self.told.made
        log = [*made.log, entry(made.end, self.who(place), sequence, epoch)]
        sends = list(made.sends)
        if asked is not None:
            sends.append(send("invoke", self.who(place), sequence, asked))
        self.told = self.told.but(made=made.but(log=log, sends=sends, end=made.end + 1))

    def ack(self, place: int, asked: int, answered: int, offset: int) -> None:
        made = self.told.made
        events = acked(self.who(place), 0, asked, answered, offset)
        self.told = self.told.but(made=made.but(sends=[*made.sends, *events]))


def undercut(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    """After an ack, a record is sent and acked at a lower offset, by a leader that was not
    observed: it is not in the log."""
    t, low, high = context.time, context.end, context.end + 1
    context.append(1, context.epoch, asked=t)
    context.append(2, context.epoch)
    context.ack(2, t, t + SECOND, high)
    context.ack(3, t + SECOND + 2 * context.bound + beyond, t + 2 * SECOND + 2 * context.bound, low)
    found: set[Found] = {("lost", low, context.who(3), 0)}
    if beyond:
        found.add(("watermark-regressed", high, context.who(2), 0))
        found.add(("stale-leader-ack", low, context.who(3), 0))
    return context, found


def undercut_before_an_election(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    """Plant the same, with or without the election of the next leader before the second
    acknowledgement."""
    t, low, high = context.time, context.end, context.end + 1
    elected = t + 60 * SECOND
    context.append(1, context.epoch, asked=t)
    context.append(2, context.epoch)
    context.ack(2, t, t + SECOND, high)
    answered = elected - OBSERVATION_LAG_NS - context.bound - beyond
    context.ack(3, t + 30 * SECOND, answered, low)
    context.see(elected, context.other(), context.epoch + 1)
    found: set[Found] = {
        ("lost", low, context.who(3), 0),
        ("watermark-regressed", high, context.who(2), 0),
    }
    if beyond:
        found.add(("stale-leader-ack", low, context.who(3), 0))
    return Scene(context.told, context.number), found


def begun_too_low(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    """A leader says that its log ended before what was acked before it was elected."""
    t, offset = context.time, context.end
    elected = t + 60 * SECOND
    context.append(1, context.epoch)
    context.ack(1, t, elected - OBSERVATION_LAG_NS - context.bound - beyond, offset)
    leader = context.other()
    context.see(elected, leader, context.epoch + 1)
    context.say(
        Role(broker=leader, life=0, leader=leader, leader_epoch=context.epoch + 1, log_end=offset)
    )
    found: set[Found] = {("watermark-regressed", offset, context.who(1), 0)}
    return Scene(context.told, context.number), found if beyond else set()


def acked_by_the_deposed(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    """A record that stands in the log was sent when all had heard that another one leads."""
    elected, offset = context.time, context.end
    heard = elected + SETTLE_NS + context.bound
    context.see(elected, context.other(), context.epoch + 1)
    context.append(1, context.epoch)
    context.ack(1, heard + beyond, heard + SECOND, offset)
    found: set[Found] = {("stale-leader-ack", offset, context.who(1), 0)}
    return Scene(context.told, context.number), found if beyond else set()


def acked_by_too_few(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    """One alone was in sync, and all had heard it, as long as it may have been under way."""
    t, offset = context.time, context.end
    heard, grown = t + SETTLE_NS + context.bound, t + 60 * SECOND
    context.see(t, context.leader, context.epoch, (context.leader,))
    context.append(1, context.epoch)
    ends = grown - OBSERVATION_LAG_NS - context.bound
    context.ack(1, heard + beyond, ends - 1, offset)
    context.see(grown, context.leader, context.epoch)
    found: set[Found] = {("acked-below-min-isr", offset, context.who(1), 0)}
    return Scene(context.told, context.number), found if beyond else set()


def appended_in_an_epoch_of_too_few(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    """One alone was in sync when its epoch began, and was until the ISR may have grown. It was
    perhaps the last to hear of it; but it has appended in that epoch."""
    t, offset, leader, epoch = context.time, context.end, context.other(), context.epoch + 1
    grown = t + 60 * SECOND
    context.see(t, leader, epoch, (leader,))
    context.append(1, epoch)
    ends = grown - OBSERVATION_LAG_NS - context.bound
    context.ack(1, t - SECOND, ends - beyond, offset)
    context.see(grown, leader, epoch)
    found: set[Found] = {("acked-below-min-isr", offset, context.who(1), 0)}
    return Scene(context.told, context.number), found if beyond else set()


def acked_until_enough(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    """Plant the same, up to the time when the ISR may have grown."""
    t, offset = context.time, context.end
    grown = t + 60 * SECOND
    context.see(t, context.leader, context.epoch, (context.leader,))
    context.append(1, context.epoch)
    ends = grown - OBSERVATION_LAG_NS - context.bound
    context.ack(1, t + 30 * SECOND, ends - beyond, offset)
    context.see(grown, context.leader, context.epoch)
    found: set[Found] = {("acked-below-min-isr", offset, context.who(1), 0)}
    return Scene(context.told, context.number), found if beyond else set()


def epoch_back_in_zookeeper(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    """Between the two states the connection was there, or not."""
    context.see(context.time, context.leader, context.epoch + 1)
    if not beyond:
        lost = connection(0, "zookeeper-lost") | {"time": context.time + 1}
        back = connection(0, "zookeeper-back") | {"time": context.time + 2}
        rows = [*context.told.rows, lost | _NO_VERSION, back | _NO_VERSION]
        context.told = context.told.but(rows=rows)
    context.see(context.time + 3, context.leader, context.epoch)
    return Scene(context.told, context.number), {_OF_EPOCHS} if beyond else set()


_OF_EPOCHS: Found = ("epoch-regressed", None, None, None)
_NO_VERSION = {"version": None, "controller_epoch": None, "leader": None, "leader_epoch": -2}


def epoch_back_at_a_broker(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    """In one life of its, or in the next."""
    far = 1_000 * context.number
    context.say(
        Role(broker=9, life=far, leader=8, leader_epoch=far + 1),
        Role(broker=9, life=far + 1 - beyond, leader=8, leader_epoch=far),
    )
    return context, {_OF_EPOCHS} if beyond else set()


def epoch_back_in_the_log(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    offset = context.end
    context.see(context.time, context.leader, context.epoch + 1)
    context.append(1, context.epoch + 1, 0, context.time)
    context.append(1, context.epoch + 1 - beyond, 1, context.time + 1)
    found: set[Found] = {("epoch-regressed", offset + 1, context.who(1), 1)}
    return Scene(context.told, context.number), found if beyond else set()


def two_in_zookeeper(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    """Plant two leaders in one znode. States in two znodes may be of two moments."""
    epoch = context.epoch + 1
    context.see(context.time, context.leader, epoch, controller_epoch=1 if beyond else -1)
    context.see(context.time + 1, context.other(), epoch)
    return Scene(context.told, context.number), {_OF_LEADERS} if beyond else set()


_OF_LEADERS: Found = ("two-leaders", None, None, None)


def two_by_their_own_word(context: Scene, beyond: int) -> tuple[Scene, set[Found]]:
    epoch = context.epoch + 1
    leaders = (context.leader, context.other() if beyond else context.leader)
    context.see(context.time, context.leader, epoch)
    context.say(*(Role(broker=one, life=0, leader=one, leader_epoch=epoch) for one in leaders))
    return Scene(context.told, context.number), {_OF_LEADERS} if beyond else set()


PLANTS: tuple[Plant, ...] = (
    undercut,
    undercut_before_an_election,
    begun_too_low,
    acked_by_the_deposed,
    acked_by_too_few,
    acked_until_enough,
    appended_in_an_epoch_of_too_few,
    epoch_back_in_zookeeper,
    epoch_back_at_a_broker,
    epoch_back_in_the_log,
    two_in_zookeeper,
    two_by_their_own_word,
)


@ANY_MACHINE
@given(sound())
def test_sound_cluster_has_no_timeline_anomalies(told: Told) -> None:
    assert told.found() == set()


@pytest.mark.parametrize("plant", PLANTS)
@FEW
@given(told=sound())
def test_planted_timeline_anomalies_are_found_beyond_their_bound_and_no_others(
    plant: Plant, told: Told
) -> None:
    for beyond in (0, 1):
        context, expected = plant(Scene(told), beyond)
        assert context.told.found() == expected


@FEW
@given(
    told=sound(),
    plants=st.lists(st.tuples(st.sampled_from(PLANTS), st.integers(0, 1)), min_size=2, max_size=5),
)
def test_whatever_is_planted_together_is_found(told: Told, plants: list[tuple[Plant, int]]) -> None:
    context, everything = Scene(told), set()
    for number, (plant, beyond) in enumerate(plants, start=1):
        context, found = plant(Scene(context.told, number), beyond)
        everything |= found
    assert context.told.found() == everything


@FEW
@given(told=sound(), plant=st.sampled_from(PLANTS))
def test_without_clocks_nothing_is_concluded_from_times(told: Told, plant: Plant) -> None:
    context, _ = plant(Scene(told), 1)
    names = {found[0] for found in context.told.but(bound=None).found()}
    assert names <= {"lost", "epoch-regressed", "two-leaders"}


@FEW
@given(told=sound(), plant=st.sampled_from([undercut, acked_by_the_deposed, acked_by_too_few]))
def test_acks_of_one_say_nothing_of_those_in_sync(told: Told, plant: Plant) -> None:
    context, _ = plant(Scene(told), 1)
    assert {found[0] for found in context.told.but(settings=ACKS_1).found()} <= {"lost"}


def alone(*versions: int | None, needed: int = 2) -> Told:
    """Broker 1 was alone in sync from 10 to 100 seconds, and a record was acked from 48 to 52."""
    times, isrs = (0, 10, 50, 100), ((1, 2, 3), (1,), (1,), (1, 2))
    rows = [
        state(time, 1, 0, isr, version=version)
        for time, isr, version in zip(times, isrs, versions, strict=True)
    ]
    made = Made(sends=acked(1, 0, at(48), at(52), 0), log=[entry(0, 1, 0, 0)], end=1)
    return Told(made=made, rows=rows, settings={**ALL, "min.insync.replicas": needed})


BELOW: Found = ("acked-below-min-isr", 0, 1, 0)


def test_an_isr_that_changed_and_changed_back_unseen_shows_in_its_version() -> None:
    assert alone(0, 1, 2, 3).found() == {BELOW}
    assert alone(0, 1, 3, 4).found() == set()


def test_without_versions_an_isr_may_always_have_been_another() -> None:
    told = alone(None, None, None, None)
    assert told.found() == set()
    assert (told.timeline.watched, told.timeline.versioned) == (True, False)


def led_alone(*versions: int, controller_epoch: int | None = 1, needed: int = 2) -> Told:
    """Broker 2 was alone in sync from 10 seconds on, when its epoch began, to 100, and a record was
    acked from 48 to 52. A fault was on all the time: no broker must have heard of anything."""
    isrs, epochs = ((1, 2, 3), (2,), (2,), (1, 2)), (0, 1, 1, 1)
    rows = [
        state(time, 2, epoch, isr, version=version, controller_epoch=controller_epoch)
        for time, epoch, isr, version in zip((0, 10, 50, 100), epochs, isrs, versions, strict=True)
    ]
    made = Made(sends=acked(1, 0, at(48), at(52), 0), log=[entry(0, 1, 0, 1)], end=1)
    settings = {**ALL, "min.insync.replicas": needed}
    return Told(made=made, rows=rows, faults=a_fault(5, 200), settings=settings)


def shrunk_alone(*versions: int, needed: int = 2) -> Told:
    """Broker 2 led all the time, and was alone in sync from 10 seconds on, to 100; a record was
    acked from 48 to 52. The others were away all that time."""
    isrs = ((1, 2, 3), (2,), (2,), (1, 2))
    rows = [
        state(time, 2, 0, isr, version=version)
        for time, isr, version in zip((0, 10, 50, 100), isrs, versions, strict=True)
    ]
    away = a_fault(5, 200, servers=["broker-1", "broker-3"])
    settings = {**ALL, "min.insync.replicas": needed}
    return Told(made=led_before(), rows=rows, faults=away, settings=settings)


def test_continuing_leader_knows_the_isr_that_it_wrote() -> None:
    assert shrunk_alone(0, 1, 2, 3).found() == {BELOW}
    assert shrunk_alone(0, 2, 3, 4).found() == {BELOW}, "alone for long when it was seen again"
    assert shrunk_alone(0, 1, 3, 4).found() == set(), "who came in between went unseen"
    late = a_fault(40, 60, fault_id=2, servers=["broker-2"])
    told = shrunk_alone(0, 1, 2, 3)
    assert told.but(faults=[*told.faults, *late]).found() == {BELOW}, "it knew by then"
    deaf = a_fault(9, 46, fault_id=2, servers=["broker-2"])
    assert told.but(faults=[*told.faults, *deaf]).found() == set(), "it could not hear"


def test_continuing_leader_learns_of_a_setting_change() -> None:
    """Raised from 1 to 2 at 12 seconds, and back at 60."""
    told = shrunk_alone(0, 1, 2, 3, needed=1).but(min_isr=2)
    order = a_fault(12, 60, fault_id=2, servers=["broker-1", "broker-2", "broker-3"])
    late = a_fault(45, 60, fault_id=2, servers=["broker-1", "broker-2", "broker-3"])
    assert told.but(faults=[*told.faults, *order], setting=2).found() == {BELOW}
    assert told.but(faults=[*told.faults, *late], setting=2).found() == set()


def test_leader_that_appends_knows_the_isr_of_its_epoch_start() -> None:
    assert led_alone(0, 1, 2, 3).found() == {BELOW}
    assert led_alone(0, 1, 2, 3).but(made=led_before()).found() == set()


def led_before() -> Made:
    """Return the same record, in the epoch before."""
    return Made(sends=acked(1, 0, at(48), at(52), 0), log=[entry(0, 1, 0, 0)], end=1)


def test_an_epoch_may_have_begun_with_another_isr_than_was_seen() -> None:
    assert led_alone(0, 2, 3, 4).found() == set(), "one went unseen before it"
    assert led_alone(0, 1, 3, 4).found() == set(), "one went unseen in it"
    assert led_alone(0, 1, 2, 3, controller_epoch=None).found() == set(), "in two znodes"


def test_setting_change_counts_once_the_leader_has_received_it() -> None:
    """Raised from 1 to 2 at 12 seconds, and back at 60."""
    elsewhere = a_fault(5, 200, fault_id=2, servers=["broker-1"])
    told = led_alone(0, 1, 2, 3, needed=1).but(min_isr=2)
    order = a_fault(12, 60, servers=["broker-1", "broker-2", "broker-3"])
    assert told.but(faults=order).found() == {BELOW}
    assert told.but(faults=[*order, *elsewhere], setting=1).found() == {BELOW}
    late = a_fault(45, 60, servers=["broker-1", "broker-2", "broker-3"])
    assert told.but(faults=late).found() == set(), "it may not have heard yet"
    early = a_fault(12, 50, servers=["broker-1", "broker-2", "broker-3"])
    assert told.but(faults=early).found() == set(), "it was on its way back"
    deaf = a_fault(13, 45, fault_id=2, servers=["broker-2"])
    assert told.but(faults=[*order, *deaf], setting=1).found() == set(), "it could not hear"


def test_while_min_isr_is_being_set_the_lowest_value_counts() -> None:
    assert alone(0, 1, 2, 3, needed=3).found() == {BELOW}
    setting = alone(0, 1, 2, 3, needed=3).but(min_isr=1)
    assert setting.but(faults=a_fault(40, 210)).found() == set()
    assert setting.but(faults=a_fault(200, 210)).found() == {BELOW}, "long after"


def test_a_leader_that_a_fault_keeps_from_hearing_is_given_that_time() -> None:
    assert alone(0, 1, 2, 3).but(faults=a_fault(5, 45)).found() == set()
    assert alone(0, 1, 2, 3).but(faults=a_fault(5, 40)).found() == {BELOW}


def test_one_server_of_a_zookeeper_ensemble_may_report_stale_state() -> None:
    faults = a_fault(30, 60, servers=["zookeeper-2"], target="zookeeper-2")
    told = alone(0, 1, 2, 3).but(faults=faults)
    assert told.but(ensemble=True).found() == set()


def test_of_several_brokers_that_are_controllers_too() -> None:
    """A fault that is none of this partition's otherwise."""
    faults = a_fault(30, 60, servers=["broker-7"], target="broker-7", partitions=["other-0"])
    told = alone(0, 1, 2, 3).but(faults=faults, ensemble=True)
    assert told.found() == {BELOW}
    assert told.but(combined=("broker-6", "broker-7")).found() == set()
    assert told.but(combined=("broker-6",)).found() == {BELOW}


def test_disk_loss_may_be_refilled_by_the_leader_itself() -> None:
    context, expected = undercut(
        Scene(Told(made=NOTHING, rows=[state(0, 1, 0, (1, 2, 3), version=0)])), 1
    )
    assert context.told.found() == expected
    damaged = context.told.but(faults=a_fault(10, 20, destroys="unsynced"))
    assert {found[0] for found in expected - damaged.found()} == {"stale-leader-ack"}


NOTHING = Made(sends=[], log=[], end=0)
