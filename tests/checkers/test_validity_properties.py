"""Whatever happens to a partition that keeps Kafka's rules, what it loses is never called broken;
and what is promised is what a plain second implementation says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from ackproof.checkers.context.faults import FOREVER, FaultFacts
from ackproof.checkers.context.observed import OBSERVATION_LAG_NS, Observed, PartitionState, Span
from ackproof.checkers.context.surroundings import PartitionSurroundings
from ackproof.checkers.context.validity import ValidityWindow, ack_window
from ackproof.history.cell import Cell, Value
from tests.support.builders.examples import examples
from tests.support.builders.histories import ACKS_1, ALL, UNCLEAN
from tests.support.oracles.model_cluster import BROKERS, SECOND, ModelPartition
from tests.support.oracles.reference_checker import (
    Seen,
    Struck,
    elected_by_the_isr,
    kept_by_some_member,
    led_by_one,
)

ANY_MACHINE = settings(
    max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
"""However slow it is."""

PARTITION = ("t", 0)
SETTLE = 7 * SECOND
FAR = 100 * SECOND
"""Between two events: further than any boundary is moved."""


def given_terms(
    values: dict[str, Value], observed: Observed, faults: Sequence[FaultFacts]
) -> ValidityWindow:
    around = PartitionSurroundings(
        observed=observed, faults=tuple(faults), settle_ns=SETTLE, clock_bound_ns=0
    )
    return ack_window(Cell(name="c", topic="t", settings=values), PARTITION, around)


MOVES = (
    "ack",
    "ack",
    "replicate",
    "kill",
    "strike",
    "strike_unnoticed",
    "start",
    "isolate",
    "heal",
)


@st.composite
def lived(draw: st.DrawFn, acks: str, unclean: bool) -> ModelPartition:
    model = ModelPartition(
        acks=acks,
        unclean=unclean,
        lag=lambda: draw(st.integers(0, OBSERVATION_LAG_NS)),
    )
    for name in draw(st.lists(st.sampled_from(MOVES), min_size=3, max_size=25)):
        model.wait(draw(st.sampled_from([SECOND // 100, 2 * SECOND, 30 * SECOND])))
        move = getattr(model, name)
        if name in ("kill", "strike", "strike_unnoticed", "start"):
            move(draw(st.sampled_from(BROKERS)))
        else:
            move()
    return model


@pytest.mark.parametrize(
    ("values", "acks", "unclean"),
    [(ALL, "all", False), (UNCLEAN, "all", True), (ACKS_1, "1", False)],
)
@ANY_MACHINE
@given(data=st.data())
def test_loss_of_an_honest_partition_was_never_guaranteed(
    values: dict[str, Value], acks: str, unclean: bool, data: st.DataObject
) -> None:
    model = data.draw(lived(acks, unclean))
    lost = model.lost()
    event(f"lost: {bool(lost)}")
    found = given_terms(values, model.observed, model.faults)
    boundary = max(found.unpromised_before, found.unknown_before)
    assert all(time < boundary for time in lost), (found, model.states)


@st.composite
def far_apart(draw: st.DrawFn) -> list[Seen | Struck]:
    """Any states and losses, in any order, a long time apart."""
    members = st.frozensets(st.sampled_from(BROKERS), min_size=1)
    events: list[Seen | Struck] = [Seen(FAR, 1, 0, frozenset(BROKERS))]
    epoch = 0
    for number in range(2, draw(st.integers(2, 9))):
        if draw(st.booleans()):
            events.append(Struck(number * FAR, draw(members)))
        else:
            epoch += draw(st.integers(0, 2))
            leader = draw(st.sampled_from([*BROKERS, -1]))
            events.append(Seen(number * FAR, leader, epoch, draw(members)))
    return events


def observed(events: Sequence[Seen | Struck]) -> Observed:
    seen = [one for one in events if isinstance(one, Seen)]
    states = (
        PartitionState(
            time=s.time,
            leader=s.leader,
            leader_epoch=s.epoch,
            isr=tuple(sorted(s.isr)),
            version=version,
            by_controller=True,
        )
        for version, s in enumerate(seen)
    )
    return Observed(states=tuple(states))


def raised(whole: Observed) -> Observed:
    """Return the same view without elections in a leader epoch of another leader."""
    states, by = list(whole.states[:1]), 0
    for before, after in whole.changes():
        by += after.leader != before.leader and after.leader_epoch == before.leader_epoch
        states.append(replace(after, leader_epoch=after.leader_epoch + by))
    return replace(whole, states=tuple(states))


@st.composite
def with_a_hole(draw: st.DrawFn, whole: Observed) -> Observed:
    """Draw the view of an observer that did not look for a while."""
    start = draw(st.sampled_from(whole.states)).time - FAR // 2
    hole = Span(start, start + draw(st.integers(1, 3)) * FAR)
    missed = [state for state in whole.states if hole.start <= state.time < hole.end]
    found = [replace(state, time=hole.end) for state in missed[-1:]]
    seen = [state for state in whole.states if state not in missed]
    in_order = sorted([*seen, *found], key=lambda state: state.time)
    return Observed(states=tuple(in_order), holes=(hole,))


def losses(events: Sequence[Seen | Struck]) -> list[FaultFacts]:
    return [
        FaultFacts(
            fault_id=number,
            name="wipe",
            target="one",
            servers=tuple(f"broker-{broker}" for broker in sorted(struck.brokers)),
            partitions=frozenset({PARTITION}),
            destroys="all",
            start=struck.time,
            injected=struck.time,
            heal=struck.time,
            healed=struck.time,
            last=struck.time,
            begun=True,
            verified=struck.time,
        )
        for number, struck in enumerate((e for e in events if isinstance(e, Struck)), start=1)
    ]


def standing(found: ValidityWindow, time: int) -> bool | None:
    if time < found.unpromised_before:
        return False
    return None if time < found.unknown_before else True


@ANY_MACHINE
@given(far_apart())
def test_validity_of_guarantees_follows_their_definitions(events: list[Seen | Struck]) -> None:
    moments = [b.time - FAR // 2 for _, b in pairwise(events)] + [events[-1].time + FAR // 2]
    faults, view = losses(events), observed(events)
    for time in moments:
        kept = kept_by_some_member(events, time)
        clean = elected_by_the_isr(events, time)
        assert standing(given_terms(ALL, view, faults), time) == kept
        both = kept if clean else clean if kept else False
        assert standing(given_terms(UNCLEAN, view, faults), time) == both
        assert standing(given_terms(ACKS_1, view, faults), time) == led_by_one(events, time)


@ANY_MACHINE
@given(data=st.data())
def test_certainty_with_unobserved_states_is_never_wrong(data: st.DataObject) -> None:
    whole = raised(observed(data.draw(far_apart())))
    part = data.draw(with_a_hole(whole))
    all_seen, found = given_terms(UNCLEAN, whole, ()), given_terms(UNCLEAN, part, ())
    event(f"certain: {found.unpromised_before > 0}")
    assert found.unpromised_before <= all_seen.unpromised_before <= found.unknown_before


@dataclass(frozen=True)
class Hidden:
    """The true history of a partition: its ISRs and the brokers that were struck, by time.

    Records are acknowledged between every two events, by all members of the ISR. A broker that
    joins the ISR has every record that a member has.
    """

    isrs: dict[int, frozenset[int]]
    strikes: dict[int, frozenset[int]]

    @property
    def lost(self) -> dict[int, bool]:
        """Whether, at some moment, no member of the ISR had the record of that time."""
        times = sorted(self.isrs.keys() | self.strikes.keys())
        acks = {(a + b) // 2 for a, b in pairwise([*times, times[-1] + FAR])}
        isr, lost = frozenset[int](), dict[int, bool]()
        held: dict[int, set[int]] = {broker: set() for broker in BROKERS}
        for time in sorted({*times, *acks}):
            if time in acks:
                lost[time] = False
                for broker in isr:
                    held[broker].add(time)
            elif time in self.strikes:
                for broker in self.strikes[time]:
                    held[broker].clear()
            else:
                had = set[int]().union(*(held[broker] for broker in isr))
                for broker in self.isrs[time] - isr:
                    held[broker] = set(had)
                isr = self.isrs[time]
            kept = set[int]().union(*(held[broker] for broker in isr))
            lost |= {record: True for record in lost if record not in kept}
        return lost


@st.composite
def hidden(draw: st.DrawFn) -> Hidden:
    brokers = st.frozensets(st.sampled_from(BROKERS), min_size=1)
    time = FAR
    isr = frozenset(BROKERS)
    found = Hidden(isrs={time: isr}, strikes={})
    for is_strike in draw(st.lists(st.booleans(), min_size=1, max_size=8)):
        time += draw(st.sampled_from([SECOND // 20, SECOND // 3, 4 * SECOND, FAR]))
        if is_strike:
            found.strikes[time] = draw(brokers)
        else:
            kept = draw(st.sampled_from(sorted(isr)))
            found.isrs[time] = isr = draw(brokers) | {kept}
    return found


@st.composite
def seen_late(draw: st.DrawFn, truth: Hidden) -> Observed:
    """Draw the view of an observer whose sight had holes: what it saw late, and what it missed."""
    times = sorted(truth.isrs.keys() | truth.strikes.keys())
    ends = [draw(st.sampled_from(times)) + draw(st.integers(-3, 3)) * SECOND // 2 for _ in "ab"]
    edges = sorted(max(end, FAR + 1) for end in {*ends, ends[0] + SECOND, ends[1] + FAR})
    holes = [Span(*edge) for edge in zip(edges[::2], edges[1::2], strict=False)]
    if len(edges) % 2 or draw(st.booleans()):
        holes = holes[:1]
    if holes and draw(st.integers(0, 9)) == 0:
        holes[-1] = replace(holes[-1], end=FOREVER)
    states, late = list[PartitionState](), list[Span | None]()
    for version, (time, isr) in enumerate(truth.isrs.items()):
        seen, by = time, None
        for hole in holes:
            if hole.start - OBSERVATION_LAG_NS <= seen <= hole.end:
                seen, by = draw(st.integers(max(seen, hole.start), hole.end)), hole
        seen += draw(st.integers(0, OBSERVATION_LAG_NS))
        state = PartitionState(
            time=max([seen, *(before.time + 1 for before in states[-1:])]),
            leader=-1,
            leader_epoch=0,
            isr=tuple(sorted(isr)),
            version=version,
            by_controller=True,
        )
        states.append(state)
        late.append(by)
    # An observer of ZooKeeper sees the last state of a hole alone.
    last_alone = draw(st.booleans())
    missed = [
        by is not None and (by.end == FOREVER or (last_alone and by in late[number + 1 :]))
        for number, by in enumerate(late)
    ]
    shown = (state for state, is_missed in zip(states, missed, strict=True) if not is_missed)
    return Observed(states=tuple(shown), holes=tuple(holes))


def check_excuses(truth: Hidden, view: Observed) -> None:
    found = given_terms(ALL, view, losses([Struck(*one) for one in truth.strikes.items()]))
    boundary = max(found.unpromised_before, found.unknown_before)
    certain = found.unpromised_before - 2 * OBSERVATION_LAG_NS
    for record, is_lost in truth.lost.items():
        assert record < boundary or not is_lost
        assert is_lost or not record < certain


@ANY_MACHINE
@given(truth=hidden(), data=st.data())
def test_hidden_losses_are_excused_and_certain_ones_happened(
    truth: Hidden, data: st.DataObject
) -> None:
    view = data.draw(seen_late(truth))
    event(f"lost: {any(truth.lost.values())}, holes: {len(view.holes)}")
    check_excuses(truth, view)


@pytest.mark.parametrize(
    ("moments", "holes"),
    [
        # When broker 1 was struck, 2 and 3 were in the ISR again, or it had left and joined before.
        (["100: 123", "104.3: 1", "104.6: 123", "105 struck 1"], [(104, 116)]),
        (["100: 123", "104.3: 23", "104.6: 123", "105 struck 1", "200 struck 23"], [(104, 116)]),
        # Broker 3 was in the ISR meanwhile, and restored broker 1.
        (
            [
                "100: 12",
                "104 unseen 123",
                "105 struck 12",
                "106 unseen 3",
                "107 unseen 13",
                "108: 1",
            ],
            [(103.5, 116)],
        ),
        # The second hole begins within the lag of the first.
        (
            ["100: 123", "104.3: 23", "104.6: 123", "105 struck 1", "200 struck 23"],
            [(104, 105.9), (106.5, 120)],
        ),
    ],
)
def test_states_seen_late_may_be_older_than_the_fault(
    moments: Sequence[str], holes: Sequence[tuple[float, float]]
) -> None:
    truth, unseen = Hidden(isrs={}, strikes={}), set[int]()
    for moment in moments:
        time, *_, brokers = moment.replace(":", "").split()
        if "unseen" in moment:
            unseen.add(int(float(time) * SECOND))
        kind = truth.strikes if "struck" in moment else truth.isrs
        kind[int(float(time) * SECOND)] = frozenset(map(int, brokers))
    spans = tuple(Span(int(start * SECOND), int(end * SECOND)) for start, end in holes)
    states = (
        PartitionState(
            time=time if time < spans[0].start else spans[-1].end + time % SECOND,
            leader=-1,
            leader_epoch=0,
            isr=tuple(sorted(isr)),
            version=version,
            by_controller=True,
        )
        for version, (time, isr) in enumerate(truth.isrs.items())
        if time not in unseen
    )
    check_excuses(truth, Observed(states=tuple(states), holes=spans))


DISTURBANCES = ("pause", "isolate", "kill", "slow-disk", "slow", "pause-client", "reassign")


@ANY_MACHINE
@given(events=far_apart(), data=st.data())
def test_fault_on_a_follower_does_not_change_the_acks_1_guarantee(
    events: list[Seen | Struck], data: st.DataObject
) -> None:
    view, faults = observed(events), losses(events)
    followers = sorted(set(BROKERS) - {state.leader for state in view.states})
    start = data.draw(st.integers(FAR // 2, 9 * FAR))
    on = data.draw(st.lists(st.sampled_from(followers), unique=True)) if followers else []
    end = start + data.draw(st.integers(1, 9 * FAR))
    other = FaultFacts(
        fault_id=99,
        name=data.draw(st.sampled_from(DISTURBANCES)),
        target="followers",
        servers=tuple(f"broker-{broker}" for broker in on),
        partitions=frozenset({PARTITION}),
        destroys=None,
        start=start,
        injected=start,
        heal=end,
        healed=end,
        last=end,
        begun=True,
        verified=start,
    )
    without = given_terms(ACKS_1, view, faults)
    with_it = given_terms(ACKS_1, view, [*faults, other])
    event(f"followers: {len(on)}")
    assert with_it.unpromised_before == without.unpromised_before
    # The leader of an unobserved epoch may have been one of these.
    if all(after.leader_epoch - before.leader_epoch <= 1 for before, after in view.changes()):
        assert with_it == without
