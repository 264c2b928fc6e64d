"""The page ``docs/detection.md``: a summary of one screen, and one table of all mutants.

The page is expensive to make (an hour of two cores), and each change of the broker makes it older.
So it names the catalogue and the sources that it was measured with, and :func:`compared`, which
``docs/generate.py`` calls, adds a sentence as soon as one of them has changed. A test fails while
that sentence is missing, and while the table lacks a mutant. ``make mutation``, also run every
night, measures again.
"""

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import takewhile
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter

from ackproof.config import documents
from ackproof.harness.report.chance import interval
from tools.mutation.mutants import COMPONENTS, Mutant, digest, drawn
from tools.mutation.results import Method, Outcome, Result

_MISSED = Path(__file__).parent / "missed.yaml"
STALE = "†"
_NOT_RUN = "not run"
_WHY_MAX = 160
_FOUND = "found"
_SHARE = re.compile(r"(\d+)/(\d+) \((\d+ %)(?:, (.*))?\)")
"""A share as :func:`_found_of` writes it."""

_INTRODUCTION = f"""\
# Detection of broken brokers

A harness that finds nothing and a system without faults look the same. So each patch \
`tools/mutation/catalogue/MUTANT.patch` breaks a copy of the bundled broker, which must then fail \
in the simulator (at most 120 s of processor time), in a test or in a campaign. The tests \
begin with the mutants that the simulator does not find, so that their share is low. Campaigns \
take the mutants in random order, so that those examined so far are a random sample, and the share \
is given with its 95 % interval (Clopper and Pearson). A mutant examined out of this order is not \
counted, and inconclusive campaigns count as not found. What fails on the sound broker, too, \
counts for nothing. Times are processor time, of campaigns by the clock.

`python -m tools.mutation --list` prints what each mutant breaks, its component, guarantee and \
origin; its patch names the settings and faults with which it shows. `make mutation` measures \
what `results/mutation` lacks, and writes this page. {STALE} marks a result of older sources.
"""

_MEASURED = re.compile(r"^(Measured on .* catalogue `(.*)`, sources `(.*)`\.)( .*)?$", re.MULTILINE)
_CATALOGUE_CHANGED = "**The catalogue has changed since then.**"
_SOURCES_CHANGED = "**The broker or the simulator has changed since then.**"

_COLUMNS: Mapping[Method, str] = {
    Method.SIMULATOR: "simulator",
    Method.CONFORMANCE: "conformance tests",
    Method.PROPERTIES: "property tests",
    Method.PARTS: "tests of parts",
    Method.CAMPAIGN: "campaigns",
}


_Examined = tuple[Mutant, Result]


class Known(Protocol):
    """The stored results."""

    def result(self, mutant: Mutant | None, method: Method) -> Result | None:
        """Return the result of a mutant, or of the sound broker if it is None."""

    def is_current(self, result: Result, mutant: Mutant | None) -> bool:
        """Return whether the result is of the present sources."""


def page(mutants: Mapping[str, Mutant], known: Known, written: date, sources: str) -> str:
    """Return the page in Markdown. ``sources`` is the digest of the measured sources."""
    parts = [
        _INTRODUCTION,
        f"Measured on {written}: catalogue `{digest(mutants)}`, sources `{sources}`.\n",
        *_summary(mutants, known),
        *_not_found_by_campaigns(mutants, known),
        "## Results\n",
        "The simulator finds a mutant in the same seed on every machine. *no*: examined, not "
        "found; empty: not examined.\n",
        "| mutant | simulator: broken rule (seed) | tests and campaigns |\n| --- | --- | --- |\n"
        + "".join(_row(mutant, known) for mutant in mutants.values()),
    ]
    return "\n".join(parts)


def compared(text: str, mutants: Mapping[str, Mutant], sources: str) -> str:
    """Return the page with a sentence if it was measured with another catalogue or other
    sources."""

    def measured(match: re.Match[str]) -> str:
        changes = [
            *([_CATALOGUE_CHANGED] if match[2] != digest(mutants) else []),
            *([_SOURCES_CHANGED] if match[3] != sources else []),
        ]
        return " ".join([match[1], *changes])

    return _MEASURED.sub(measured, text, count=1)


def overview(text: str) -> str:
    """Return the rows of the README's table about the bundled broker. ``text`` is the page.

    The tests are left out: only developers of the broker run them.
    """
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {_FOUND} |"))
    by_method = dict(zip(_COLUMNS, line.split(" | ")[1:], strict=True))
    campaigns = _SHARE.sub(r"\1 of \2 (\4)", by_method[Method.CAMPAIGN].removesuffix(" |"))
    simulator = _SHARE.sub(r"\1 of \2", by_method[Method.SIMULATOR])
    return (
        f"| [the bundled broker](docs/detection.md) | simulator | {simulator} |\n"
        f"| | campaigns, on a random sample of its mutants | {campaigns} |\n"
    )


def missed(mutants: Sequence[Mutant], known: Known) -> list[Mutant]:
    """Return the mutants that were examined with the present sources, and found by no method."""
    return [
        mutant
        for mutant in mutants
        if _in_vain(one for one in _results(mutant, known) if known.is_current(one, mutant))
    ]


def _results(mutant: Mutant, known: Known) -> list[Result]:
    results = (known.result(mutant, method) for method in Method)
    return [one for one in results if one is not None]


def _in_vain(results: Iterable[Result]) -> bool:
    """Return whether there are results, and none is a find."""
    known = list(results)
    return bool(known) and not _is_found(known)


def _is_found(results: Iterable[Result]) -> bool:
    return any(one.finding.outcome is Outcome.FOUND for one in results)


def _headings(*first: str) -> str:
    """Return the head of a table whose last columns are the methods."""
    headings = (*first, *_COLUMNS.values())
    return f"| {' | '.join(headings)} |\n|{' --- |' * len(headings)}"


# --- summary ----------------------------------------------------------------------------------


def _summary(mutants: Mapping[str, Mutant], known: Known) -> Iterator[str]:
    yield _headings("").replace("|  |", "| |", 1)
    counted = {method: _counted(mutants.values(), known, method) for method in Method}
    columns = {m: _figures(counted[m], len(mutants), known, m) for m in Method}
    for heading in columns[Method.SIMULATOR]:
        cells = (columns[method][heading] for method in Method)
        yield f"| {heading} | {' | '.join(cells)} |"
    found = [mutant for mutant in mutants.values() if _is_found(_results(mutant, known))]
    examined = [mutant for mutant in mutants.values() if _results(mutant, known)]
    real = sum(mutant.was_real for mutant in found)
    yield (
        f"\nFound by at least one method: {len(found)} of {len(examined)} examined mutants; of the "
        f"real faults {real} of {sum(mutant.was_real for mutant in examined)}.\n"
    )
    yield _headings("component", "mutants", "real faults of this broker")
    for component in COMPONENTS:
        those = [mutant for mutant in mutants.values() if mutant.component == component]
        real = sum(mutant.was_real for mutant in those)
        cells = (
            _found([pair for pair in counted[method] if pair[0].component == component])
            for method in Method
        )
        yield f"| {component} | {len(those)} | {real} | {' | '.join(cells)} |"
    yield ""
    yield from _not_found(mutants, known)


def _counted(mutants: Iterable[Mutant], known: Known, method: Method) -> list[_Examined]:
    """Return the examined mutants that count, with their results.

    Campaigns count up to the first mutant, in their random order, that was not examined. Who names
    a mutant expects something of it: with such mutants the sample would not be random.
    """
    if method is Method.CAMPAIGN:
        mutants = takewhile(lambda one: known.result(one, method) is not None, drawn(mutants))
    pairs = ((mutant, known.result(mutant, method)) for mutant in mutants)
    return [(mutant, result) for mutant, result in pairs if result is not None]


def _figures(
    results: Sequence[_Examined], mutants: int, known: Known, method: Method
) -> Mapping[str, str]:
    """Return the rows of the summary for one method. ``mutants`` is the size of the catalogue."""
    seconds = sorted(
        result.finding.seconds
        for _, result in results
        if result.finding.outcome is Outcome.FOUND and result.finding.seconds is not None
    )
    expected = sum(
        result.finding.by == mutant.guarantee
        for mutant, result in results
        if result.finding.outcome is Outcome.FOUND
    )
    is_campaign = method is Method.CAMPAIGN
    return {
        "sound broker": _sound(known.result(None, method), known),
        f"examined, of {mutants} mutants": str(len(results)) if results else _NOT_RUN,
        _FOUND: _found_of(results, with_interval=is_campaign),
        "real faults of this broker found": _found_of([one for one in results if one[0].was_real]),
        "expected guarantee reported": str(expected) if is_campaign and results else "",
        "time to find: median, longest": f"{statistics.median(seconds):.0f} s, {seconds[-1]:.0f} s"
        if seconds
        else "",
    }


def _found(results: Sequence[_Examined]) -> str:
    """Return ``found/examined``, or an empty text if nothing was examined."""
    return f"{_finds(results)}/{len(results)}" if results else ""


def _found_of(results: Sequence[_Examined], *, with_interval: bool = False) -> str:
    if not results:
        return _NOT_RUN
    found = _finds(results)
    sure = f", {interval(found, len(results))}" if with_interval else ""
    return f"{_found(results)} ({100 * found // len(results)} %{sure})"


def _finds(results: Sequence[_Examined]) -> int:
    return sum(result.finding.outcome is Outcome.FOUND for _, result in results)


def _sound(result: Result | None, known: Known) -> str:
    if result is None:
        return _NOT_RUN
    finding, mark = result.finding, "" if known.is_current(result, None) else STALE
    match finding.outcome:
        case Outcome.NOT_FOUND:
            return f"held{mark}: {_joined(finding.examined, finding.in_seconds)}"
        case Outcome.FOUND:
            return f"**{finding.by} broken{mark}** ({_plain(finding.where)}): no find counts"
        case Outcome.INCONCLUSIVE:
            return f"**inconclusive{mark}** ({_plain(finding.why)}): no find counts"


def _not_found(mutants: Mapping[str, Mutant], known: Known) -> Iterator[str]:
    left = [one for one in mutants.values() if _in_vain(_results(one, known))]
    names = [f"`{one.name}`{'' if one.expected else '*'}" for one in left]
    if names:
        yield f"Not found by any method (*: not expected of the simulator): {', '.join(names)}.\n"


def reasons() -> Mapping[str, str]:
    """Return the reasons why campaigns do not find mutants, by the mutants' names."""
    return TypeAdapter(dict[str, str]).validate_python(documents.read(_MISSED).content)


def _not_found_by_campaigns(mutants: Mapping[str, Mutant], known: Known) -> Iterator[str]:
    """Yield why campaigns did not find the mutants of their random sample."""
    known_reasons = reasons()
    left = [
        mutant
        for mutant, result in _counted(mutants.values(), known, Method.CAMPAIGN)
        if result.finding.outcome is not Outcome.FOUND
    ]
    if left:
        yield "## Misses of campaigns\n"
        yield "".join(
            f"- `{one.name}`: {known_reasons.get(one.name, 'the reason is not known').strip()}\n"
            for one in sorted(left, key=lambda one: one.name)
        )


# --- table ------------------------------------------------------------------------------------


def _row(mutant: Mutant, known: Known) -> str:
    results = _results(mutant, known)
    searched = [one for one in results if one.method is Method.SIMULATOR]
    others = [one for one in results if one.method is not Method.SIMULATOR]
    cells = (f"`{mutant.name}`", *(_outcomes(those, mutant, known) for those in (searched, others)))
    return f"| {' | '.join(cells)} |\n"


def _outcomes(results: Sequence[Result], mutant: Mutant, known: Known) -> str:
    """Return the finds, then the inconclusive results; "no" if there is neither."""

    def mark(result: Result) -> str:
        return "" if known.is_current(result, mutant) else STALE

    finds = [one for one in results if one.finding.outcome is Outcome.FOUND]
    parts = [
        *(f"`{one.finding.by}`{mark(one)}{_place(one)}" for one in finds),
        *(
            f"inconclusive{mark(one)} ({_COLUMNS[one.method]}): {_plain(one.finding.why)}"
            for one in results
            if one.finding.outcome is Outcome.INCONCLUSIVE
        ),
    ]
    return "; ".join(parts) or "".join(f"no{mark(one)}" for one in results[:1])


def _place(result: Result) -> str:
    """Return where a find is: the seed of the simulator, or the campaign; a test says it itself."""
    match result.method:
        case Method.SIMULATOR:
            return f" ({_plain(result.finding.where.removeprefix('seed '))})"
        case Method.CAMPAIGN:
            return f" ({_plain(_joined('campaign', result.finding.where))})"
        case _:
            return ""


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _plain(text: str) -> str:
    """Return the text as the content of a cell. Some texts come from the brokers."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    short = kept if len(kept) <= _WHY_MAX else f"{kept[:_WHY_MAX]}..."
    return short.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
