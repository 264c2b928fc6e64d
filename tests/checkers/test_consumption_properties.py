"""Generated consumers of one partition: where all is well nothing is counted, one anomaly that is
planted changes its own count and no other, and whatever comes is counted as the plain second
implementation counts it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from made_consumers import (
    Commit,
    Given,
    MadeConsumer,
    Seen,
    commit,
    committed_by,
    committed_ok,
    seen,
    shown_to,
)
from made_consumers import given as assigned
from made_histories import Entry, Made, entry, indexed
from reference_consumption import counts_of

from checkers import commits, shown

ANY_MACHINE = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
"""However slow it is; and not every anomaly can be planted in every world."""

GROUP = "t-group"
LATE = 9_000
"""Later than whatever is generated."""

FAULTY = ("again", "back", "skipped", "foreign", "differs", "vanished", "unseen")
FAULTY_OF_A_GROUP = ("commit_errors", "gone_back", "past_shown")


@dataclass(frozen=True, kw_only=True)
class World:
    """A final log, a tail reader, and the two members of a group."""

    log: Made
    reader: MadeConsumer
    members: tuple[MadeConsumer, ...]

    @property
    def consumers(self) -> dict[str, MadeConsumer]:
        return {one.client: one for one in (self.reader, *self.members)}

    def but(self, changed: MadeConsumer) -> "World":
        """With another in the place of the one of that name."""
        if changed.group is None:
            return replace(self, reader=changed)
        members = (changed if one.client == changed.client else one for one in self.members)
        return replace(self, members=tuple(members))


Counts = Mapping[tuple[str, str], int | None]


def counted(world: World) -> Counts:
    """By client or group, and name."""
    history = indexed(world.log)
    found = {
        (name, what): count
        for name, made in world.consumers.items()
        for what, count in shown.counts(shown_to(made), history).items()
    }
    of_group = commits.counts([committed_by(one) for one in world.members], whole=True)
    return found | {(GROUP, what): count for what, count in of_group.items()}


@st.composite
def well(draw: st.DrawFn) -> World:
    """The reader was shown the log from its start on; the members took turns, each from what was
    committed, and committed no more than they had been shown."""
    start = draw(st.integers(0, 3))
    producers = draw(st.lists(st.integers(0, 1), min_size=3, max_size=12))
    log = [entry(start + n, producer, n) for n, producer in enumerate(producers)]
    read = draw(st.integers(0, len(log)))
    reader = MadeConsumer(
        polls=_in_polls(draw, log[:read], 0),
        assigned=[assigned(0, 0, draw(st.sampled_from((0, start))))],
    )
    members = [MadeConsumer(client=f"member-{n}", group=GROUP) for n in range(2)]
    at, time = start, 0
    for number in draw(st.lists(st.integers(0, 1), min_size=1, max_size=4)):
        members[number], at, time = _turn(draw, members[number], log[at - start :], at, time)
    made = Made(sends=[], log=log, start=start, end=start + len(log))
    return World(log=made, reader=reader, members=tuple(members))


def _in_polls(draw: st.DrawFn, records: Sequence[Entry], last: int) -> list[Seen]:
    rows = []
    for number, record in enumerate(records):
        last += 1 if number == 0 else draw(st.sampled_from((0, 0, 0, 1)))
        rows.append(seen(last, record.offset, record.producer, record.sequence))
    return rows


def _turn(
    draw: st.DrawFn, made: MadeConsumer, log: Sequence[Entry], at: int, time: int
) -> tuple[MadeConsumer, int, int]:
    """A member is given the partition, reads on and commits now and then; who comes next begins
    where it has committed."""
    before = max((row.poll for row in made.polls), default=0)
    number = max((row.commit for row in made.commits), default=0)
    rows = _in_polls(draw, log[: draw(st.integers(0, len(log)))], before)
    kept = [commit("fetched", number, time, at, before)]
    began, time = assigned(before, time, at), time + 10
    for poll in sorted({row.poll for row in rows}):
        if draw(st.booleans()):
            number, time = number + 1, time + 10
            at = max(row.offset for row in rows if row.poll == poll) + 1
            kept += committed_ok(number, time, at, poll)
    told = made.but(
        polls=[*made.polls, *rows],
        assigned=[*made.assigned, began],
        commits=[*made.commits, *kept],
    )
    return told, at, time + 10


Choose = Callable[[Sequence[Any]], Any]
Expected = dict[tuple[str, str], int]
Planted = tuple[World, Expected]


def _seen_somewhere(world: World, choose: Choose) -> tuple[Entry, list[MadeConsumer]]:
    """A record that was shown, and those whom it was."""
    offsets = {row.offset for made in world.consumers.values() for row in made.polls}
    record = choose([one for one in world.log.log if one.offset in offsets])
    return record, [
        made
        for made in world.consumers.values()
        if any(row.offset == record.offset for row in made.polls)
    ]


def lose(world: World, choose: Choose) -> Planted:
    record, by = _seen_somewhere(world, choose)
    log = world.log.but(log=[one for one in world.log.log if one is not record])
    expected = {(made.client, "vanished"): 1 for made in by}
    if world.reader not in by:
        expected[world.reader.client, "unread"] = -1
    return replace(world, log=log), expected


def rewrite(world: World, choose: Choose) -> Planted:
    record, by = _seen_somewhere(world, choose)
    other = choose([entry(record.offset, 7, record.sequence), entry(record.offset)])
    log = world.log.but(log=[other if one is record else one for one in world.log.log])
    return replace(world, log=log), {(made.client, "differs"): 1 for made in by}


def alienate(world: World, choose: Choose) -> Planted:
    """Both shown and kept is a payload of nobody's."""
    record, by = _seen_somewhere(world, choose)
    log = [entry(one.offset) if one is record else one for one in world.log.log]
    world = replace(world, log=world.log.but(log=log))
    for made in by:
        rows = [
            seen(row.poll, row.offset) if row.offset == record.offset else row for row in made.polls
        ]
        world = world.but(made.but(polls=rows))
    return world, {(made.client, "foreign"): 1 for made in by}


def _position(world: World, choose: Choose, follow: int) -> tuple[MadeConsumer, int]:
    """A consumer, and the position of a row of its that so many of the same poll follow."""
    found: tuple[MadeConsumer, int] = choose(
        [
            (made, at)
            for made in world.consumers.values()
            for at in range(len(made.polls) - follow)
            if made.polls[at].poll == made.polls[at + follow].poll
        ]
    )
    return found


def show_again(world: World, choose: Choose) -> Planted:
    made, at = _position(world, choose, 0)
    rows = [*made.polls[: at + 1], made.polls[at], *made.polls[at + 1 :]]
    return world.but(made.but(polls=rows)), {
        (made.client, "shown"): 1,
        (made.client, "again"): 1,
    }


def step_back(world: World, choose: Choose) -> Planted:
    """Two in the wrong order, and not the last of their poll: that is what is committed next."""
    made, at = _position(world, choose, 2)
    rows = [*made.polls[:at], made.polls[at + 1], made.polls[at], *made.polls[at + 2 :]]
    return world.but(made.but(polls=rows)), {(made.client, "back"): 1}


def skip(world: World, choose: Choose) -> Planted:
    made, at = _position(world, choose, 1)
    gone = made.polls[at]
    others = sum(row.offset == gone.offset for row in made.polls) - 1
    expected = {(made.client, "shown"): -1, (made.client, "skipped"): 1}
    if others == 0:
        expected[made.client, "distinct"] = -1
    if others == 1:
        expected[made.client, "again_later"] = -1
    if made.group is None:
        expected[made.client, "unseen"] = 1
    rows = [row for n, row in enumerate(made.polls) if n != at]
    return world.but(made.but(polls=rows)), expected


def _committing(world: World, *further: Commit, by: MadeConsumer) -> World:
    return world.but(by.but(commits=[*by.commits, *further]))


def _highest(world: World) -> int:
    offsets = [row.offset for made in world.members for row in made.commits if row.type == "ok"]
    assume(offsets)
    return max(offsets)


def _who_had_it(world: World, choose: Choose) -> tuple[MadeConsumer, int, int]:
    """A member that has had the partition, where it last began, and its last poll."""
    by: MadeConsumer = choose([made for made in world.members if made.assigned])
    began = by.assigned[-1]
    assert began.offset is not None
    return by, began.offset, max((row.poll for row in by.polls), default=0)


def commit_back(world: World, choose: Choose) -> Planted:
    by, began, poll = _who_had_it(world, choose)
    lower = choose(range(min(_highest(world), began + 1)))
    return _committing(world, *committed_ok(99, LATE, lower, poll), by=by), {
        (GROUP, "committed"): 1,
        (GROUP, "gone_back"): 1,
    }


def fetch_back(world: World, choose: Choose) -> Planted:
    by, _, poll = _who_had_it(world, choose)
    told = choose(range(-1, _highest(world)))
    return _committing(world, commit("fetched", 0, LATE, told, poll), by=by), {
        (GROUP, "gone_back"): 1
    }


def commit_unshown(world: World, choose: Choose) -> Planted:
    by, _, poll = _who_had_it(world, choose)
    beyond = world.log.end + choose(range(1, 9))
    return _committing(world, *committed_ok(99, LATE, beyond, poll), by=by), {
        (GROUP, "committed"): 1,
        (GROUP, "past_shown"): 1,
    }


def fail_to_commit(world: World, choose: Choose) -> Planted:
    by, began, poll = _who_had_it(world, choose)
    further = [
        commit("invoke", 99, LATE, began, poll),
        commit("info", 99, LATE + 1, began, poll, "REQUEST_TIMED_OUT"),
    ]
    return _committing(world, *further, by=by), {(GROUP, "commit_errors"): 1}


PLANTS = (
    lose,
    rewrite,
    alienate,
    show_again,
    step_back,
    skip,
    commit_back,
    fetch_back,
    commit_unshown,
    fail_to_commit,
)


@ANY_MACHINE
@given(well())
def test_where_all_is_well_nothing_is_counted(world: World) -> None:
    for (who, what), count in counted(world).items():
        if what in (*FAULTY, *FAULTY_OF_A_GROUP):
            known = what != "unseen" or who == world.reader.client
            assert count == (0 if known else None), (who, what)


@pytest.mark.parametrize("plant", PLANTS)
@ANY_MACHINE
@given(world=well(), data=st.data())
def test_a_planted_anomaly_changes_its_count_and_no_other(
    plant: Callable[[World, Choose], Planted], world: World, data: st.DataObject
) -> None:
    def choose(among: Sequence[Any]) -> Any:
        assume(among)
        return data.draw(st.sampled_from(among))

    planted, expected = plant(world, choose)
    before, after = counted(world), counted(planted)
    changed = {
        key: (after[key] or 0) - (before[key] or 0) for key in before if after[key] != before[key]
    }
    assert changed == expected


@st.composite
def arbitrary(draw: st.DrawFn) -> tuple[MadeConsumer, Made]:
    """Whatever a broken cluster could show, and keep."""
    content = st.tuples(st.integers(0, 1), st.integers(0, 3)) | st.just((None, None))
    offsets = draw(st.lists(st.integers(0, 9), max_size=8))
    log = [entry(offset, *draw(content)) for offset in sorted(offsets)]
    polls: list[Seen] = []
    for _ in range(draw(st.integers(0, 10))):
        last = polls[-1].poll if polls else 1
        polls.append(seen(last + draw(st.integers(0, 1)), draw(st.integers(0, 9)), *draw(content)))
    begun = draw(st.lists(st.integers(0, 6), max_size=3).map(sorted))
    given: list[Given] = [
        assigned(poll, poll, draw(st.none() | st.integers(0, 9))) for poll in begun
    ]
    group = draw(st.none() | st.just(GROUP))
    made = MadeConsumer(polls=polls, assigned=given, group=group)
    return made, Made(sends=[], log=log, end=10, complete=draw(st.booleans()))


@ANY_MACHINE
@given(arbitrary())
def test_whatever_was_shown_is_counted_as_by_the_plain_implementation(
    both: tuple[MadeConsumer, Made],
) -> None:
    made, log = both
    assert shown.counts(shown_to(made), indexed(log)) == counts_of(made, log)
