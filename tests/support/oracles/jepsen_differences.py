"""Differences of the two checkers, with a rule for each.

Each error of Jepsen's has a counterpart among our anomalies, about the same record or offset, or
one of the reasons that its line names; and the other way round. A reason examines the history
(:mod:`.jepsen_facts`), and no judgement.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ackproof.harness.mutants.jepsen import Error
from ackproof.history.jepsen import FINAL_READ
from tests.support.oracles.jepsen_facts import Facts, Read, Value

SKIPS = frozenset({"poll-skip", "int-poll-skip"})
STEPS_BACK = frozenset({"nonmonotonic-poll", "int-nonmonotonic-poll"})
ENDED = frozenset({"no-writer-of", "no-writer-of-value"})
CYCLES = ("G0", "G1c", "G-", "PL-", "strong-", "cycle-search-timeout")
"""How Elle's anomalies begin."""


class Ours(NamedTuple):
    """An anomaly of ours. ``client``: the consumer that it is about, of those that are."""

    anomaly: str
    offset: int | None
    value: Value
    client: str | None = None


@dataclass(frozen=True, kw_only=True)
class Both:
    """A history, and what both found in it."""

    facts: Facts
    ours: Collection[Ours]
    theirs: Collection[Error]

    def we_name(self, *values: Value) -> bool:
        """Whether anything of ours is about one of these records, or about an offset of its."""
        offsets = {offset for one in values for offset in self.facts.places.get(one, ())}
        return any(one.value in values or one.offset in offsets for one in self.ours)

    def they_have(self, anomalies: Collection[str], matches: Callable[[Error], bool]) -> bool:
        return any(one.anomaly in anomalies and matches(one) for one in self.theirs)

    def we_have(self, *anomalies: str) -> Iterator[Ours]:
        return (one for one in self.ours if one.anomaly in anomalies)


@dataclass(frozen=True)
class Reason:
    """A reason for a finding of one checker alone. ``why``: its text in the documentation."""

    why: str
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Rule:
    """``found``: whether the other has what this is about."""

    found: Callable[..., bool]
    reasons: Sequence[Reason] = ()


def unexplained(both: Both, used: Counter[str]) -> list[object]:
    """Return the findings of one checker alone without a known reason. ``used`` counts the
    reasons."""
    if not both.facts.strangers:
        theirs = [(each, THEIRS[_class(each)]) for one in both.theirs for each in _each(one)]
        ours = [(one, rule) for one in both.ours for rule in OURS[one.anomaly]]
        return [one for one, rule in (*theirs, *ours) if not _explained(both, one, rule, used)]
    # A value that was never written ends Jepsen's analysis.
    return [] if {one.anomaly for one in both.theirs} <= ENDED and both.theirs else ["not ended"]


def _explained(both: Both, one: object, rule: Rule, used: Counter[str]) -> bool:
    if rule.found(both, one):
        return True
    reason = next((each for each in rule.reasons if each.holds(both, one)), None)
    if reason:
        used[reason.why] += 1
    return reason is not None


def _class(error: Error) -> str:
    return "cycle" if error.anomaly.startswith(CYCLES) else error.anomaly


def _each(error: Error) -> Iterator[Error]:
    """Yield one error for each record of a step that passes over several."""
    if not error.skipped:
        yield error
    for one in error.skipped:
        yield replace(error, skipped=(one,))


def _about(one: Error) -> tuple[Value, ...]:
    return (*one.values, *one.skipped)


def _steps_of(both: Both, one: Error) -> list[tuple[Read, Read]]:
    """Return the steps of the consumer that an error may concern."""
    steps = both.facts.steps(one.client or "")
    return [(a, b) for a, b in steps if (a.value, b.value) == one.values]


def _crossing(both: Both, one: Ours) -> list[tuple[Read, Read]]:
    """The steps that led a consumer past a record, or the final read past what is gone."""
    assert one.offset is not None
    steps = both.facts.steps(one.client or FINAL_READ)
    return [(a, b) for a, b in steps if a.offset < one.offset < b.offset]


def _back_to(both: Both, one: Ours) -> list[tuple[Read, Read]]:
    steps = both.facts.steps(one.client or "")
    return [(a, b) for a, b in steps if b.offset == one.offset and b.offset <= a.offset]


def _vague(both: Both, *values: Value) -> bool:
    return any(both.facts.several(one) or both.facts.contested(one) for one in values)


def _within_a_rebalance(both: Both, one: Ours, steps: Sequence[tuple[Read, Read]]) -> bool:
    polls = both.facts.rebalanced.get(one.client or "", ())
    return bool(steps) and all(a.poll == b.poll and a.poll in polls for a, b in steps)


def _from_one_span_to_another(both: Both, one: Error) -> bool:
    mixed = both.facts.mixed.get(one.client or "", ())
    steps = _steps_of(both, one)
    return bool(steps) and all(
        a.begun != b.begun or {a.poll, b.poll} & set(mixed) for a, b in steps
    )


def _goes_back(both: Both, values: tuple[Value, Value]) -> bool:
    """Whether the second stands at or before the first, where both are known to stand."""
    one, other = (both.facts.places.get(each) for each in values)
    return bool(one and other and max(other) <= max(one))


SEVERAL = Reason(
    "a value at several offsets has its place at the last of them there",
    lambda both, one: any(map(both.facts.several, _about(one))),
)
CONTESTED = Reason(
    "of two values at one offset, either makes the order there",
    lambda both, one: any(map(both.facts.contested, _about(one))),
)
NOT_HELD = Reason(
    "the final log has no such record there: here that is what is told, there it was passed over",
    lambda both, one: (
        any(not any(v == held for held in both.facts.final.values()) for v in _about(one))
        and both.we_name(*_about(one))
    ),
)
SHOWN_ANYWAY = Reason(
    "it was shown to the consumer, but in another order: here a step back alone",
    lambda both, one: any(read.value in one.skipped for read in both.facts.shown[one.client]),
)
ANOTHER_SPAN = Reason("between two records the consumer started over", _from_one_span_to_another)
BELOW_START = Reason(
    "below the start of the log, where the final read cannot look",
    lambda both, one: any(
        offset < both.facts.log.start for v in _about(one) for offset in both.facts.places[v]
    ),
)
INCOMPLETE = Reason(
    "the final read is not complete: what it lacks is unknown here",
    lambda both, _: not both.facts.log.complete,
)
OVERTAKEN = Reason(
    "the order in real time, across producers, is Elle's alone",
    lambda both, _: both.facts.overtaken(),
)
IN_CIRCLES = Reason(
    "a cycle of Elle's, of a value at several offsets or an offset with several values: here these",
    lambda both, _: any(_vague(both, one) for one in both.facts.places),
)
NOTHING_READ = Reason(
    "Elle says so where nothing depends on anything",
    lambda both, _: not any(both.facts.shown.values()),
)
NOTHING_ACKED = Reason(
    "of a partition of which nothing was acknowledged, Jepsen takes for unseen what the last poll "
    "was the first to return",
    lambda both, one: (
        one.values[0] in both.facts.places
        and not any(event.type == "ok" for event in both.facts.log.sends)
    ),
)
ENDS_BEYOND = Reason(
    "there a loss is below the highest offset that was polled",
    lambda both, one: (
        one.offset is None
        or not any(
            min(both.facts.places[held]) > one.offset
            for rows in both.facts.shown.values()
            for held in (read.value for read in rows)
        )
    ),
)
WAS_SHOWN = Reason(
    "what a consumer was shown was read there",
    lambda both, one: any(
        read.value == one.value for rows in both.facts.shown.values() for read in rows
    ),
)
VAGUE = Reason(
    "where it stands is not one place there",
    lambda both, one: _vague(both, one.value),
)
NO_STEP = Reason(
    "there each send is held against the one before, of one process: one that overlaps with it, or "
    "comes after an info, is another's",
    lambda both, one: (
        not any(_goes_back(both, step) for step in both.facts.sent_in_turn(_producer(one.value)))
    ),
)
FIRST_AND_LAST = Reason(
    "before the first record of the final read, or behind its last: there a log has no bounds",
    lambda both, one: (
        not any(offset < one.offset for offset in both.facts.final)
        or not any(offset > one.offset for offset in both.facts.final)
    ),
)
BEFORE_THE_FIRST = Reason(
    "where a consumer began to read, and what it passed over before it was shown anything, is not "
    "known there",
    lambda both, one: not _crossing(both, one),
)
REBALANCED = Reason(
    "within a poll of a rebalance nothing is judged there",
    lambda both, one: _within_a_rebalance(
        both,
        one,
        _back_to(both, one) if one.anomaly == "nonmonotonic-poll" else _crossing(both, one),
    ),
)
VAGUE_STEP = Reason(
    "where the step begins or ends is not one place there",
    lambda both, one: any(
        _vague(both, a.value, b.value, one.value)
        for a, b in (*_crossing(both, one), *_back_to(both, one))
    ),
)
HOLES = Reason("an offset may be a transaction's there, and have no record", lambda *_: True)
COMMITS = Reason("no client reads commits back there", lambda *_: True)


def _producer(name: Value) -> str:
    assert name is not None
    return name.rpartition("/")[0]


def _same_value(*anomalies: str) -> Callable[[Both, Error], bool]:
    return lambda both, error: any(one.value in error.values for one in both.we_have(*anomalies))


def _same_offset(*anomalies: str) -> Callable[[Both, Error], bool]:
    return lambda both, error: any(one.offset in error.offsets for one in both.we_have(*anomalies))


def _their_value(*anomalies: str) -> Callable[[Both, Ours], bool]:
    return lambda both, one: both.they_have(anomalies, lambda error: one.value in error.values)


def _their_offset(*anomalies: str) -> Callable[[Both, Ours], bool]:
    return lambda both, one: both.they_have(anomalies, lambda error: one.offset in error.offsets)


def _any_of(*found: Callable[..., bool]) -> Callable[..., bool]:
    return lambda both, one: any(each(both, one) for each in found)


def _we_skip(both: Both, error: Error) -> bool:
    return any(
        one.client == error.client and one.value in error.skipped
        for one in both.we_have("poll-skip", "unseen")
    )


def _we_step_back(both: Both, error: Error) -> bool:
    return any(
        one.client == error.client and one.value == error.values[1]
        for one in both.we_have("nonmonotonic-poll")
    )


def _they_skip(client: str | None = None) -> Callable[[Both, Ours], bool]:
    return lambda both, one: both.they_have(
        SKIPS,
        lambda error: error.client == (client or one.client) and one.value in error.skipped,
    )


def _they_step_back(both: Both, one: Ours) -> bool:
    return both.they_have(
        STEPS_BACK,
        lambda error: error.client == one.client and one.value == error.values[1],
    )


def _they_send_back(both: Both, one: Ours) -> bool:
    return both.they_have({"nonmonotonic-send"}, lambda error: error.client == _producer(one.value))


_PASSED_OVER = Rule(_we_skip, (SHOWN_ANYWAY, ANOTHER_SPAN, SEVERAL, CONTESTED, NOT_HELD))
_BACKWARDS = Rule(_we_step_back, (ANOTHER_SPAN, SEVERAL, CONTESTED))
_LOST = Rule(_same_value("lost"), (INCOMPLETE,))

THEIRS: Mapping[str, Rule] = {
    "lost-write": _LOST,
    "unseen": Rule(_same_value("lost"), (INCOMPLETE, NOTHING_ACKED)),
    "duplicate": Rule(
        _any_of(
            _same_value("duplicated", "offset-mismatch", "lost", "vanished-read"),
            _same_offset("inconsistent-read"),
        ),
        (BELOW_START, INCOMPLETE),
    ),
    "inconsistent-offsets": Rule(
        _same_offset("inconsistent-read", "offset-mismatch", "lost"), (BELOW_START, INCOMPLETE)
    ),
    "G1a": Rule(_same_value("failed-but-present"), (NOT_HELD, BELOW_START, INCOMPLETE)),
    "poll-skip": _PASSED_OVER,
    "int-poll-skip": _PASSED_OVER,
    "nonmonotonic-poll": _BACKWARDS,
    "int-nonmonotonic-poll": _BACKWARDS,
    "nonmonotonic-send": Rule(
        _same_value("reordered", "nonmonotonic-send"), (SEVERAL, CONTESTED, NOT_HELD, INCOMPLETE)
    ),
    "empty-transaction-graph": Rule(lambda *_: False, (NOTHING_READ,)),
    "cycle": Rule(lambda *_: False, (IN_CIRCLES, OVERTAKEN)),
}
"""By the name of Jepsen's error; ``cycle`` for all of Elle's."""

_COMMITS = (Rule(lambda *_: False, (COMMITS,)),)

OURS: Mapping[str, Sequence[Rule]] = {
    "lost": (
        Rule(_their_value("unseen"), (WAS_SHOWN,)),
        Rule(_their_value("lost-write"), (WAS_SHOWN, ENDS_BEYOND, VAGUE)),
    ),
    "offset-mismatch": (
        Rule(_any_of(_their_value("duplicate"), _their_offset("inconsistent-offsets"))),
    ),
    "duplicated": (Rule(_their_value("duplicate")),),
    "reordered": (Rule(_they_send_back, (NO_STEP, VAGUE)),),
    "nonmonotonic-send": (Rule(_they_send_back, (NO_STEP, VAGUE)),),
    "failed-but-present": (Rule(_their_value("G1a")),),
    "offset-gap": (Rule(lambda *_: False, (HOLES,)),),
    "vanished-read": (
        Rule(
            _any_of(
                _they_skip(FINAL_READ),
                _their_value("duplicate", "G1a"),
                _their_offset("inconsistent-offsets"),
            ),
            (FIRST_AND_LAST, VAGUE, VAGUE_STEP),
        ),
    ),
    "inconsistent-read": (Rule(_their_offset("inconsistent-offsets")),),
    "poll-skip": (Rule(_they_skip(), (BEFORE_THE_FIRST, REBALANCED, VAGUE_STEP)),),
    "nonmonotonic-poll": (Rule(_they_step_back, (REBALANCED, VAGUE_STEP)),),
    "unseen": (Rule(_they_skip(), (BEFORE_THE_FIRST, REBALANCED, VAGUE_STEP)),),
    "commit-lost": _COMMITS,
    "commit-regressed": _COMMITS,
    "skipped-by-commit": _COMMITS,
}
"""The rules by the name of our anomaly. ``phantom``, like each anomaly of a record that was never
sent, ends the other's analysis."""
