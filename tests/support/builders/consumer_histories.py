"""Consumers that a sound cluster serves, by chance: a final log, what was sent, and who read it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from tests.support.builders.consumers import Commit, Given, MadeConsumer, Seen, commit, seen
from tests.support.builders.consumers import given as assigned
from tests.support.builders.histories import Entry, Made, Send, entry, send

GROUP = "t-group"
READ = 1_000
"""Earlier than whatever is shown, later than whatever is acked."""
LATE = 9_000
"""Later than whatever is generated."""


@dataclass(frozen=True, kw_only=True)
class World:
    """One partition. The readers' names begin with ``reader``, the members' with ``member``."""

    log: Made
    consumers: tuple[MadeConsumer, ...]

    @property
    def members(self) -> list[MadeConsumer]:
        return [made for made in self.consumers if made.group is not None]

    @property
    def acked(self) -> set[tuple[int, int]]:
        return {(s.producer, s.sequence) for s in self.log.sends if s.type == "ok"}

    def but(self, changed: MadeConsumer) -> "World":
        """With another in the place of the one of that name."""
        others = (changed if one.client == changed.client else one for one in self.consumers)
        return replace(self, consumers=tuple(others))

    def without(self, record: Entry) -> "World":
        """Return the world with a final log that lacks the record."""
        kept = [one for one in self.log.log if one is not record]
        return replace(self, log=self.log.but(log=kept))


@st.composite
def sound(draw: st.DrawFn) -> World:
    """Draw a world without anomalies: sends, reads, rebalances and commits of all permitted
    outcomes."""
    start = draw(st.integers(0, 3))
    producers = draw(st.lists(st.integers(0, 1), min_size=3, max_size=12))
    log = [entry(start + n, producer, n) for n, producer in enumerate(producers)]
    sends = [event for n, record in enumerate(log) for event in _sent(draw, record, n)]
    made = Made(sends=sends, log=log, start=start, end=start + len(log))
    readers = [_reader(draw, f"reader-{n}", log) for n in range(draw(st.integers(1, 2)))]
    return World(log=made, consumers=(*readers, *draw(_group_of_two(log))))


def _sent(draw: st.DrawFn, record: Entry, number: int) -> list[Send]:
    assert record.producer is not None
    assert record.sequence is not None
    whose = record.producer, record.sequence
    events = [send("invoke", *whose, 10 * number)]
    completion = draw(st.sampled_from(["ok", "ok", "ok without offset", "info", None]))
    if completion is not None:
        told = record.offset if completion == "ok" else None
        events.append(send(completion.split()[0], *whose, 10 * number + 5, told))
    return events


def in_polls(draw: st.DrawFn, records: Sequence[Entry], last: int) -> list[Seen]:
    """Records as polls return them, from the next poll on; with one poll now and then that returned
    what is of other partitions alone."""
    rows = []
    for number, record in enumerate(records):
        last += 1 if number == 0 else draw(st.sampled_from((0, 0, 0, 1, 2)))
        rows.append(shown_in(last, record))
    return rows


def shown_in(poll: int, record: Entry) -> Seen:
    return seen(poll, record.offset, record.producer, record.sequence, READ + 10 * poll)


def _reader(draw: st.DrawFn, name: str, log: Sequence[Entry]) -> MadeConsumer:
    """From the log's start on; it may lose its place, and go on at a lower one."""
    read = draw(st.integers(0, len(log)))
    polls = in_polls(draw, log[:read], 0)
    given = [assigned(0, 0, draw(st.sampled_from((0, log[0].offset))))]
    if polls and draw(st.booleans()):
        again = draw(st.integers(0, read))
        last = polls[-1].poll
        given.append(assigned(last, READ, log[0].offset + again, "out-of-range"))
        polls += in_polls(draw, log[again:], last)
    return MadeConsumer(client=name, polls=polls, assigned=given)


@dataclass(kw_only=True)
class _Turns:
    """A group whose members take turns.

    Attributes:
        kept: What is committed, -1 for nothing.
        late: Offsets of commits of unknown outcome, and which may be,
            whatever was committed meanwhile.
    """

    log: Sequence[Entry]
    polls: dict[int, list[Seen]] = field(default_factory=lambda: {0: [], 1: []})
    given: dict[int, list[Given]] = field(default_factory=lambda: {0: [], 1: []})
    commits: dict[int, list[Commit]] = field(default_factory=lambda: {0: [], 1: []})
    kept: int = -1
    late: list[int] = field(default_factory=list)
    time: int = 0

    def tick(self) -> int:
        self.time += 10
        return self.time

    def turn(self, draw: st.DrawFn, member: int) -> None:
        """It is given the partition, reads from what is committed, commits now and then, and has it
        taken away."""
        polls, given, commits = self.polls[member], self.given[member], self.commits[member]
        if self.late and draw(st.booleans()):
            self.kept = draw(st.sampled_from(self.late))
        last = max((row.poll for row in polls), default=0)
        number = max((row.commit for row in commits), default=0)
        commits.append(commit("fetched", number, self.tick(), self.kept, last))
        given.append(assigned(last, self.time, None if self.kept < 0 else self.kept))
        first = max(self.kept - self.log[0].offset, 0)
        records = self.log[first : first + draw(st.integers(0, len(self.log)))]
        rows = self._left_over(draw, member, last) + in_polls(draw, records, last)
        polls += rows
        for poll in sorted({row.poll for row in rows if row.offset >= self.kept}):
            if draw(st.booleans()):
                number += 1
                upto = max(row.offset for row in rows if row.poll == poll) + 1
                self._commit(draw, commits, number, upto, poll)
        if draw(st.booleans()):
            at = max((row.poll for row in polls), default=0)
            given.append(
                assigned(at, self.tick(), None, draw(st.sampled_from(["revoked", "lost"])))
            )

    def _left_over(self, draw: st.DrawFn, member: int, last: int) -> list[Seen]:
        """A poll during which the partition was taken away and given again may begin with what was
        fetched before."""
        given, polls = self.given[member], self.polls[member]
        taken = [one for one in given[:-1] if one.poll == last and one.event != "assigned"]
        if not taken or not polls:
            return []
        due = polls[-1].offset + 1 - self.log[0].offset
        return [shown_in(last + 1, one) for one in self.log[due : due + draw(st.integers(0, 2))]]

    def _commit(
        self, draw: st.DrawFn, commits: list[Commit], number: int, offset: int, poll: int
    ) -> None:
        outcome = draw(st.sampled_from(["ok", "ok", "fail", "info", None]))
        looks = self.tick()
        commits.append(commit("invoke", number, self.tick(), offset, poll))
        if outcome is not None:
            commits.append(commit(outcome, number, self.tick(), offset, poll))
        if outcome == "ok":
            self.kept = offset
        elif outcome != "fail":
            self.late.append(offset)
        if draw(st.booleans()):
            # Asked before that commit was, or behind it.
            asked = draw(st.sampled_from([looks, self.tick()]))
            commits.append(commit("looked", number, asked, self.kept, poll))


@st.composite
def _group_of_two(draw: st.DrawFn, log: Sequence[Entry]) -> list[MadeConsumer]:
    turns = _Turns(log=log)
    for member in draw(st.lists(st.integers(0, 1), min_size=1, max_size=4)):
        turns.turn(draw, member)
    return [
        MadeConsumer(
            client=f"member-{n}",
            group=GROUP,
            polls=turns.polls[n],
            assigned=turns.given[n],
            commits=turns.commits[n],
        )
        for n in (0, 1)
    ]
