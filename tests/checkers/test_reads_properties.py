"""Generated consumers of one partition: where all is well nothing is found, an anomaly that is
planted is found and nothing else, and whatever comes is judged as the plain second implementation
judges it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.catalogue import CONSUMPTION
from ackproof.checkers.checks.check_reads import ConsumerCheck, check_rows
from ackproof.checkers.checks.read_anomalies import GroupGuarantees, PartitionGuarantees
from tests.support.builders.consumer_histories import GROUP, LATE, READ, World, shown_in, sound
from tests.support.builders.consumers import (
    Commit,
    Given,
    MadeConsumer,
    Seen,
    commit,
    committed_ok,
    left_by,
    seen,
)
from tests.support.builders.consumers import given as assigned
from tests.support.builders.examples import examples
from tests.support.builders.histories import Entry, Made, entry, indexed, send
from tests.support.oracles.reference_consumption import Finding, findings

ANY_MACHINE = settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
"""However slow it is; and not every anomaly can be planted in every world."""

PROMISES = PartitionGuarantees(groups={GROUP: GroupGuarantees(at_least_once=True)})
PLANTED = (7, 0)
"""A record that was never sent."""


def consumed(world: World, **changes: Any) -> ConsumerCheck:
    everyone = (left_by(made, **changes) for made in world.consumers)
    return check_rows(everyone, indexed(world.log), PROMISES)


def found(world: World, **changes: Any) -> Counter[Finding]:
    return Counter(
        (
            row["anomaly"],
            row["offset"],
            *(
                (None, None)
                if row["anomaly"] == "inconsistent-read"
                else (row["producer"], row["sequence"])
            ),
        )
        for some in consumed(world, **changes).found
        for row in some.rows.to_pylist()
    )


@ANY_MACHINE
@given(sound())
def test_where_all_is_well_nothing_is_found_and_everything_was_looked_at(world: World) -> None:
    result = consumed(world)
    assert result.found == []
    unread = any(made.group is None and not made.polls for made in world.consumers)
    assert result.looked | ({"unseen"} if unread and world.log.log else set()) == CONSUMPTION.keys()
    for one in result.counted:
        unknown = {name for name, count in one.counts.items() if count is None}
        assert unknown <= {"unseen", "unread"}, one


Choose = Callable[[Sequence[Any]], Any]
TOLD = ("fetched", "looked")
"""How a member is told what is committed: after an assignment, and in between."""
Planted = tuple[World, dict[Finding, int]]
Row = tuple[MadeConsumer, int]
"""A consumer, and the position of a row of its."""


def _rows(world: World) -> list[Row]:
    return [(made, at) for made in world.consumers for at in range(len(made.polls))]


def _names(record: Entry) -> tuple[int | None, int | None]:
    return record.producer, record.sequence


def _shown(world: World, choose: Choose) -> Entry:
    """A record that a consumer has read."""
    offsets = {made.polls[at].offset for made, at in _rows(world)}
    record: Entry = choose([one for one in world.log.log if one.offset in offsets])
    return record


def _committed(world: World) -> int:
    """Return the offset up to which the group had certainly committed."""
    rows = (row for made in world.members for row in made.commits if row.type == "ok")
    return max((row.offset for row in rows), default=0)


def _followed(world: World, record: Entry, without: Row | None = None) -> dict[Finding, int]:
    """Return the anomalies that follow if consumers without this record of the final log never read
    it. ``without``: a row that does not count."""
    expected: dict[Finding, int] = {}

    def was_shown(made: MadeConsumer) -> bool:
        return any(
            (row.producer, row.sequence) == _names(record) and (made, at) != without
            for at, row in enumerate(made.polls)
        )

    for made in world.consumers:
        beyond = any(row.offset > record.offset for row in made.polls)
        if made.group is None and beyond and not was_shown(made) and _names(record) in world.acked:
            finding = ("unseen", record.offset, *_names(record))
            expected[finding] = expected.get(finding, 0) + 1
    if record.offset < _committed(world) and not any(map(was_shown, world.members)):
        expected["skipped-by-commit", record.offset, *_names(record)] = 1
    return expected


def vanish(world: World, choose: Choose) -> Planted:
    record = _shown(world, choose)
    finding = ("vanished-read", record.offset, *_names(record))
    known = _names(record)
    sent = any((s.producer, s.sequence) == known for s in world.log.sends)
    assert sent
    return world.without(record), {finding: 1}


def truncate(world: World, choose: Choose) -> Planted:
    """The tail is gone, and the log ends before it."""
    record = _shown(world, choose)
    kept = [one for one in world.log.log if one.offset < record.offset]
    offsets = {made.polls[at].offset for made, at in _rows(world)}
    gone = [one for one in world.log.log[len(kept) :] if one.offset in offsets]
    log = world.log.but(log=kept, end=record.offset)
    return replace(world, log=log), {("vanished-read", o.offset, *_names(o)): 1 for o in gone}


def rewrite(world: World, choose: Choose) -> Planted:
    record = _shown(world, choose)
    other = choose([entry(record.offset, *PLANTED), entry(record.offset)])
    log = world.log.but(log=[other if one is record else one for one in world.log.log])
    world = replace(world, log=log)
    expected = {} if other.producer is None else _followed(world, other)
    return world, {("inconsistent-read", record.offset, None, None): 1, **expected}


def show_another(world: World, choose: Choose) -> Planted:
    """One consumer alone, of which others know nothing."""
    made, at = choose(_rows(world))
    row = made.polls[at]
    (record,) = (one for one in world.log.log if one.offset == row.offset)
    other = choose([replace(row, producer=7, sequence=0), seen(row.poll, row.offset)])
    other = replace(other, time=row.time)
    world = world.but(made.but(polls=[*made.polls[:at], other, *made.polls[at + 1 :]]))
    return world, {
        ("inconsistent-read", row.offset, None, None): 1,
        **_followed(world, record),
    }


def contradict_an_ack(world: World, choose: Choose) -> Planted:
    """Another record was acked where one was shown."""
    record = _shown(world, choose)
    events = [send("invoke", *PLANTED, 1), send("ok", *PLANTED, 2, record.offset)]
    log = world.log.but(sends=[*world.log.sends, *events])
    return replace(world, log=log), {("inconsistent-read", record.offset, None, None): 1}


def show_beyond_the_end(world: World, choose: Choose) -> Planted:
    """Two consumers, of which the first alone was shown what was acked there."""
    several = [made for made in world.consumers if made.polls]
    first = choose(several)
    second = choose([None, *(made for made in several if made is not first)])
    offset = world.log.end + choose(range(3))
    events = [send("invoke", *PLANTED, 1), send("ok", *PLANTED, 2, offset)]
    world = replace(world, log=world.log.but(sends=[*world.log.sends, *events]))
    expected: dict[Finding, int] = {("vanished-read", offset, *PLANTED): 1}
    if second is not None:
        expected["vanished-read", offset, None, None] = 1
        expected["inconsistent-read", offset, None, None] = 1
    last = max(row.poll for made in several for row in made.polls)
    records = (entry(offset, *PLANTED), entry(offset, 8, 0))
    # In turn: where the log holds nothing, who was shown it last has it.
    for turn, (made, record) in enumerate(zip((first, second), records, strict=True), start=1):
        if made is not None:
            world = world.but(made.but(polls=[*made.polls, shown_in(last + turn, record)]))
            assume(made.polls[-1].offset == world.log.end - 1)
            # Assigned again since that read, it had to read more of the log first.
            assume(made.assigned[-1].poll < made.polls[-1].poll)
    return world, expected


def _in_one_poll(world: World, choose: Choose, count: int) -> Row:
    """So many of one poll that is no rebalance's, the first of them."""
    found: Row = choose(
        [
            (made, at)
            for made, at in _rows(world)
            if at + count <= len(made.polls)
            and made.polls[at].poll == made.polls[at + count - 1].poll
            and made.polls[at].poll not in _rebalances(made)
        ]
    )
    return found


def _rebalances(made: MadeConsumer) -> set[int]:
    given = {one.poll for one in made.assigned if one.event == "assigned"}
    return {o.poll + 1 for o in made.assigned if o.event in ("revoked", "lost")} & {
        poll + 1 for poll in given
    }


def show_again(world: World, choose: Choose) -> Planted:
    made, at = _in_one_poll(world, choose, 1)
    row = made.polls[at]
    world = world.but(made.but(polls=[*made.polls[: at + 1], row, *made.polls[at + 1 :]]))
    return world, {("nonmonotonic-poll", row.offset, row.producer, row.sequence): 1}


def step_back(world: World, choose: Choose) -> Planted:
    made, at = _in_one_poll(world, choose, 2)
    first, second = made.polls[at], made.polls[at + 1]
    world = world.but(made.but(polls=[*made.polls[:at], second, first, *made.polls[at + 2 :]]))
    return world, {("nonmonotonic-poll", first.offset, first.producer, first.sequence): 1}


def skip(world: World, choose: Choose) -> Planted:
    """A record with another behind it in the same poll; or at the end of one poll, with the next
    one behind it, and no rebalance between."""
    candidates = [
        (made, at)
        for made, at in _rows(world)
        if at and at + 1 < len(made.polls) and _goes_on(made, at - 1) and _goes_on(made, at)
    ]
    made, at = choose(candidates)
    row = made.polls[at]
    (record,) = (one for one in world.log.log if one.offset == row.offset)
    world = world.but(made.but(polls=[*made.polls[:at], *made.polls[at + 1 :]]))
    finding = ("poll-skip", row.offset, row.producer, row.sequence)
    return world, {finding: 1, **_followed(world, record)}


def _goes_on(made: MadeConsumer, at: int) -> bool:
    """Whether nothing begins between a row and the next."""
    row, after = made.polls[at], made.polls[at + 1]
    begun = any(row.poll <= one.poll < after.poll for one in made.assigned)
    return not begun and not {row.poll, after.poll} & _rebalances(made)


def _reading_back(world: World, choose: Choose, offset: int) -> World:
    made = choose(world.members)
    row = commit(choose(TOLD), 0, LATE, offset, 0)
    return world.but(made.but(commits=[*made.commits, row]))


def _last_answered(world: World) -> int:
    rows = [row for made in world.members for row in made.commits if row.type == "ok"]
    assume(rows)
    return max(rows, key=lambda row: row.time).offset


def forget_commit(world: World, choose: Choose) -> Planted:
    last = _last_answered(world)
    return _reading_back(world, choose, -1), {("commit-lost", last, None, None): 1}


def remember_an_older_commit(world: World, choose: Choose) -> Planted:
    last = _last_answered(world)
    rows = [row for made in world.members for row in made.commits if row.type not in TOLD]
    unknown = {row.offset for row in rows} - {row.offset for row in rows if row.type == "ok"}
    unanswered = [r.commit for r in rows if r.type == "invoke"]
    assume(len(unanswered) == sum(r.type in ("ok", "fail") for r in rows))
    older = choose([o for o in range(_committed(world)) if o != last and o not in unknown])
    return _reading_back(world, choose, older), {("commit-regressed", last, None, None): 1}


def read_back_what_nobody_committed(world: World, choose: Choose) -> Planted:
    """An offset behind all that members were shown and committed."""
    offset = world.log.end + choose([50, 999])
    return _reading_back(world, choose, offset), {("commit-regressed", offset, None, None): 1}


def commit_unshown(world: World, choose: Choose) -> Planted:
    made = choose(world.members)
    offset = choose(range(world.log.start + 1, world.log.end + 9))
    assume(offset > _committed(world))
    further = committed_ok(99, LATE, offset, 99)
    world = world.but(made.but(commits=[*made.commits, *further]))
    shown = {row.offset for one in world.members for row in one.polls}
    return world, {
        ("skipped-by-commit", record.offset, *_names(record)): 1
        for record in world.log.log
        if record.offset < offset and record.offset not in shown
    }


PLANTS = (
    vanish,
    truncate,
    rewrite,
    show_another,
    contradict_an_ack,
    show_beyond_the_end,
    show_again,
    step_back,
    skip,
    forget_commit,
    remember_an_older_commit,
    read_back_what_nobody_committed,
    commit_unshown,
)


@pytest.mark.parametrize("plant", PLANTS)
@ANY_MACHINE
@given(world=sound(), data=st.data())
def test_planted_consumer_anomalies_are_found_and_no_others(
    plant: Callable[[World, Choose], Planted], world: World, data: st.DataObject
) -> None:
    def choose(among: Sequence[Any]) -> Any:
        assume(among)
        return data.draw(st.sampled_from(among))

    planted, expected = plant(world, choose)
    assert found(planted) == expected
    assert found(planted) == _named(findings(planted.log, planted.consumers), planted.log)


def delete(world: World, choose: Choose) -> World:
    """The log begins later than it did: what was below may have been deleted."""
    start = choose(range(world.log.start, world.log.end + 1))
    kept = [one for one in world.log.log if one.offset >= start]
    return replace(world, log=world.log.but(log=kept, start=start))


def leave_a_commit_open(world: World, choose: Choose) -> World:
    """Plant a commit of unknown outcome that is read back once, and once not."""
    made = choose(world.members)
    offset = choose(range(world.log.start, world.log.end))
    last = _last_answered(world)
    rows = [
        commit("invoke", 99, LATE, offset, 99),
        *choose([[], [commit("info", 99, LATE + 1, offset, 99, "REQUEST_TIMED_OUT")]]),
        *(commit(choose(TOLD), 99, LATE + 2, told, 99) for told in (last, offset)),
    ]
    shown = {row.offset for one in world.members for row in one.polls}
    assume(set(range(world.log.start, offset)) <= shown)
    return world.but(made.but(commits=[*made.commits, *rows]))


@pytest.mark.parametrize("change", [delete, leave_a_commit_open])
@ANY_MACHINE
@given(world=sound(), data=st.data())
def test_permitted_consumer_behaviour_is_no_anomaly(
    change: Callable[[World, Choose], World], world: World, data: st.DataObject
) -> None:
    def choose(among: Sequence[Any]) -> Any:
        assume(among)
        return data.draw(st.sampled_from(among))

    assert found(change(world, choose)) == {}


@ANY_MACHINE
@given(world=sound(), data=st.data())
def test_of_a_crashed_member_its_last_moments_are_no_anomaly(
    world: World, data: st.DataObject
) -> None:
    """Its last rows are recorded nowhere, and another goes on where it had committed."""
    made = data.draw(st.sampled_from(world.members))
    times = [row.time for row in (*made.assigned, *made.commits)]
    until = data.draw(st.sampled_from([0, *times]))
    upto = max(
        (row.poll for row in (*made.assigned, *made.commits) if row.time <= until), default=0
    )
    crashed = made.but(
        crashed=True,
        polls=[row for row in made.polls if row.poll <= upto],
        assigned=[row for row in made.assigned if row.time <= until],
        commits=[row for row in made.commits if row.time <= until],
    )
    assert found(world.but(crashed)) == {}


def _named(expected: Counter[Finding], log: Made) -> Counter[Finding]:
    """Records of which neither sends nor the final log know have no name in a row."""
    known = {(s.producer, s.sequence) for s in log.sends} | {_names(one) for one in log.log}
    named: Counter[Finding] = Counter()
    for (anomaly, offset, *names), count in expected.items():
        producer, sequence = names if tuple(names) in known else (None, None)
        named[anomaly, offset, producer, sequence] += count
    return named


@st.composite
def arbitrary(draw: st.DrawFn) -> World:
    """Whatever a broken cluster could show, tell and keep, to two consumers at once."""
    content = st.tuples(st.integers(0, 1), st.integers(0, 3))
    anything = content | st.just((None, None))
    offsets = sorted(draw(st.sets(st.integers(0, 9), max_size=8)))
    log = [entry(offset, *draw(anything)) for offset in offsets]
    sends = []
    for time, record in enumerate(draw(st.lists(content, unique=True))):
        sends.append(send("invoke", *record, time))
        kind = draw(st.sampled_from(["ok", "ok", "info", "fail", None]))
        told = draw(st.none() | st.integers(0, 9)) if kind == "ok" else None
        if kind is not None:
            sends.append(send(kind, *record, 100 + time, told))
    times = iter(draw(st.permutations(range(READ, READ + 40))))
    consumers = []
    for client, group in (("reader-0", None), ("member-0", GROUP), ("member-1", GROUP)):
        polls = _any_polls(draw, anything, times)
        given = _any_events(draw)
        commits = _any_commits(draw) if group else []
        consumers.append(
            MadeConsumer(client=client, group=group, polls=polls, assigned=given, commits=commits)
        )
    start = draw(st.sampled_from((0, 0, 2)))
    log = [one for one in log if one.offset >= start]
    made = Made(sends=sends, log=log, start=start, end=10, complete=draw(st.booleans()))
    return World(log=made, consumers=tuple(consumers))


def _any_polls(draw: st.DrawFn, content: Any, times: Any) -> list[Seen]:
    polls: list[Seen] = []
    for _ in range(draw(st.integers(0, 10))):
        last = polls[-1].poll if polls else 1
        poll, offset = last + draw(st.integers(0, 1)), draw(st.integers(0, 9))
        polls.append(seen(poll, offset, *draw(content), time=next(times)))
    return polls


def _any_events(draw: st.DrawFn) -> list[Given]:
    kinds = st.sampled_from(["assigned", "assigned", "revoked", "lost", "out-of-range"])
    return [
        assigned(poll, poll, draw(st.none() | st.integers(0, 9)), draw(kinds))
        for poll in sorted(draw(st.lists(st.integers(0, 6), max_size=4)))
    ]


def _any_commits(draw: st.DrawFn) -> list[Commit]:
    rows = []
    for number in range(1, draw(st.integers(0, 4)) + 1):
        offset, asked = draw(st.integers(0, 9)), draw(st.integers(0, 40))
        outcome = draw(st.sampled_from(["ok", "ok", "info", "fail", None]))
        if draw(st.booleans()) or outcome is None:
            rows.append(commit("invoke", number, asked, offset, 0))
        if outcome is not None:
            rows.append(commit(outcome, number, asked + draw(st.integers(1, 20)), offset, 0))
    for _ in range(draw(st.integers(0, 3))):
        kind, offset = draw(st.sampled_from(TOLD)), draw(st.integers(-1, 9))
        rows.append(commit(kind, 0, draw(st.integers(0, 60)), offset, 0))
    return sorted(rows, key=lambda row: row.time)


@ANY_MACHINE
@given(arbitrary())
def test_whatever_comes_is_judged_as_by_the_plain_implementation(world: World) -> None:
    assert found(world) == _named(findings(world.log, world.consumers), world.log)


@ANY_MACHINE
@given(arbitrary())
def test_consumer_counts_equal_the_anomalies_found(world: World) -> None:
    """Client by client and group by group; but for what two of them together disagree on."""
    result = consumed(world)
    of = {
        "skipped": "poll-skip",
        "nonmonotonic": "nonmonotonic-poll",
        "unseen": "unseen",
        "commits_lost": "commit-lost",
        "commits_regressed": "commit-regressed",
        "skipped_by_commit": "skipped-by-commit",
    }
    rows = Counter(row for some in result.found for row in some.rows["anomaly"].to_pylist())
    counted: Counter[str] = Counter()
    for one in result.counted:
        counted.update({of[name]: one.counts[name] or 0 for name in of.keys() & one.counts.keys()})
    assert {name: counted[name] for name in of.values()} == {
        name: rows[name] for name in of.values()
    }
