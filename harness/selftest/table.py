"""What finds which broken broker, as a page: the content of ``docs/detection.md``."""

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Protocol

from ackproof.harness.selftest.attempt import Attempt, Outcome, Way
from ackproof.harness.selftest.catalogue import FAMILIES, OBSERVATIONS, Bug, digest

STALE = "†"
_NOT_RUN = "not run"
_WHY_MAX = 160

_INTRODUCTION = f"""\
# What finds a broken broker

A harness that finds nothing and a system that has nothing look the same. So `ackproof selftest` \
breaks the broker on purpose: each bug of the catalogue (`harness/selftest/bugs/*.patch`) is put \
into a copy of the sources, and what is let loose on the sound broker is let loose on that one.

This page is written by `ackproof selftest --out docs/detection.md`, from what it keeps below \
`results/selftest`; what is not known yet is looked for, the rest is taken as it is. A find of the \
simulator is in the same seed, after as many steps, on every machine; how far a search comes in \
its time (the processor's) is not. {STALE}: of sources that have changed since.
"""

_OF = re.compile(r"(^The figures on this page were written on .*\n)", re.MULTILINE)
_CHANGED = "**The catalogue has changed since then, and these figures are not today's.**\n"

_HEADINGS = """\
| bug | what it breaks | could be seen by | simulator | campaigns |
| --- | --- | --- | --- | --- |
"""


class Known(Protocol):
    """What is known."""

    def attempt(self, bug: Bug | None, way: Way) -> Attempt | None:
        """At this bug, or at the sound broker; None where that was not run."""

    def is_current(self, attempt: Attempt, bug: Bug | None) -> bool:
        """Whether it is of the present sources."""


def page(bugs: Mapping[str, Bug], known: Known, written: date) -> str:
    """The page, in Markdown, with the date on which it is written."""
    tried = sum(bool(_attempts(bug, known)) for bug in bugs.values())
    of = (
        f"The figures on this page were written on {written} for the catalogue "
        f"`{digest(bugs)}`, which has {len(bugs)} bugs: {tried} were looked for, and "
        f"{len(bugs) - tried} were not.\n"
    )
    parts = [_INTRODUCTION, of, *_controls(known), *_sums(bugs, known)]
    for family in FAMILIES:
        of_family = [bug for bug in bugs.values() if bug.family == family]
        if of_family:
            rows = "".join(_row(bug, known) for bug in of_family)
            parts.append(f"## {family.capitalize()}\n\n{_HEADINGS}{rows}")
    parts += _misses(bugs, known)
    return "\n".join(parts)


def compared(text: str, bugs: Mapping[str, Bug]) -> str:
    """Return a page which says whether the catalogue that it is of is still that of ``bugs``."""
    text = text.replace(_CHANGED, "")
    return text if f"`{digest(bugs)}`" in text else _OF.sub(rf"\1{_CHANGED}", text, count=1)


def missed(bugs: Sequence[Bug], known: Known) -> list[Bug]:
    """Those that were looked for and that no way has found, as far as that counts still."""
    return [
        bug
        for bug in bugs
        if _in_vain(one for one in _attempts(bug, known) if known.is_current(one, bug))
    ]


def _attempts(bug: Bug, known: Known) -> list[Attempt]:
    attempts = (known.attempt(bug, way) for way in Way)
    return [one for one in attempts if one is not None]


def _in_vain(attempts: Iterable[Attempt]) -> bool:
    """Whether there were some, and none has found it."""
    outcomes = {one.finding.outcome for one in attempts}
    return bool(outcomes) and Outcome.FOUND not in outcomes


# --- the sound broker -------------------------------------------------------------------------


def _controls(known: Known) -> Iterator[str]:
    yield "## The sound broker\n"
    yield "What is found there, too, was not found by any of the others.\n"
    for way in Way:
        yield f"- {way.value}: {_control(known.attempt(None, way), known)}"
    yield ""


def _control(attempt: Attempt | None, known: Known) -> str:
    if attempt is None:
        return _NOT_RUN
    finding, mark = attempt.finding, _mark(attempt, None, known)
    match finding.outcome:
        case Outcome.NOT_FOUND:
            return f"everything held{mark} ({_joined(finding.looked, finding.in_seconds)})"
        case Outcome.FOUND:
            return (
                f"**{finding.by} broken{mark}** ({_plain(finding.where)}): "
                "whatever this way has found below is worth nothing"
            )
        case Outcome.INCONCLUSIVE:
            why = _plain(finding.why)
            return f"**inconclusive{mark}** ({why}): what this way has found below is worth nothing"


# --- sums -------------------------------------------------------------------------------------


def _sums(bugs: Mapping[str, Bug], known: Known) -> Iterator[str]:
    for way in Way:
        attempts = [one for bug in bugs.values() if (one := known.attempt(bug, way))]
        if attempts:
            found = sum(one.finding.outcome is Outcome.FOUND for one in attempts)
            doubts = sum(one.finding.outcome is Outcome.INCONCLUSIVE for one in attempts)
            yield (
                f"{_PLURALS[way]} found {found} of {len(attempts)} broken brokers"
                f"{_half_within(attempts)}"
                f"{f'; {doubts} were inconclusive' if doubts else ''}.\n"
            )
    yield from _by_observation(bugs, known)


def _half_within(attempts: Iterable[Attempt]) -> str:
    """How long it took to find one, by the median."""
    found = (one.finding for one in attempts if one.finding.outcome is Outcome.FOUND)
    seconds = [finding.seconds for finding in found if finding.seconds is not None]
    return f", half of these within {statistics.median(seconds):.0f} s" if seconds else ""


def _by_observation(bugs: Mapping[str, Bug], known: Known) -> Iterator[str]:
    yield "| what could show a bug | tried | found by any way |"
    yield "| --- | --- | --- |"
    for observation in OBSERVATIONS:
        tried = [
            attempts
            for bug in bugs.values()
            if observation in bug.seen_by and (attempts := _attempts(bug, known))
        ]
        found = sum(not _in_vain(attempts) for attempts in tried)
        yield f"| {observation} | {len(tried)} | {found} |"
    yield ""


_PLURALS = {Way.SIMULATOR: "The simulator", Way.CAMPAIGN: "Campaigns"}


# --- the bugs ---------------------------------------------------------------------------------


def _row(bug: Bug, known: Known) -> str:
    cells = [
        f"`{bug.name}`",
        _plain(bug.breaks),
        ", ".join(bug.seen_by),
        *(_cell(bug, known.attempt(bug, way), known) for way in Way),
    ]
    return f"| {' | '.join(cells)} |\n"


def _cell(bug: Bug, attempt: Attempt | None, known: Known) -> str:
    if attempt is None:
        return _NOT_RUN
    finding, mark = attempt.finding, _mark(attempt, bug, known)
    match finding.outcome:
        case Outcome.FOUND:
            looked = finding.looked if attempt.way is Way.SIMULATOR else ""
            told = _joined(finding.where, looked, finding.in_seconds)
            return f"**{finding.by}**{mark}, {_plain(told)}"
        case Outcome.NOT_FOUND:
            return f"not found{mark}: {_joined(finding.looked, finding.in_seconds)}"
        case Outcome.INCONCLUSIVE:
            return f"inconclusive{mark}: {_plain(finding.why)}"


def _mark(attempt: Attempt, bug: Bug | None, known: Known) -> str:
    return "" if known.is_current(attempt, bug) else STALE


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _plain(text: str) -> str:
    """As it stands in a cell: some of it comes from the brokers' mouths."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    short = kept if len(kept) <= _WHY_MAX else f"{kept[:_WHY_MAX]}..."
    return short.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


# --- what nobody found ------------------------------------------------------------------------


def _misses(bugs: Mapping[str, Bug], known: Known) -> Iterator[str]:
    left = [bug for bug in bugs.values() if _in_vain(_attempts(bug, known))]
    if not left:
        return
    yield "## Found by nobody\n"
    yield (
        "In the time that there was. By what could show them; what several kinds of observation "
        "could show stands at each.\n"
    )
    for observation in OBSERVATIONS:
        names = [f"`{bug.name}`" for bug in left if observation in bug.seen_by]
        if names:
            yield f"- {observation}: {', '.join(names)}"
    yield ""
