"""The differences between two campaigns' results: their circumstances, then the measures of each
cell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ackproof.checkers.verdict import Verdict
from ackproof.config import documents
from ackproof.harness.comparing import sides
from ackproof.harness.comparing.measures import Measure, measures
from ackproof.harness.comparing.sides import Key, Side
from ackproof.harness.directory import CAMPAIGN_FILE
from ackproof.harness.report import chance
from ackproof.harness.report.document import VerdictDocument

SETTINGS_SHOWN_MAX = 12
"""The most differing settings that are named. For more, their number is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureLine:
    """A measure and its test.

    Attributes:
        chance: The probability that both sides differ so much or more by chance; None without a
            test.
        differs: Whether the difference is more than chance; None without a test.
        why: The tested units, or the reason why there is no test.
    """

    measure: Measure
    chance: float | None
    differs: bool | None
    why: str

    @property
    def worse(self) -> bool:
        """Return whether B is worse than A by more than chance."""
        return self.measure.worse and (self.measure.name == "verdict" or bool(self.differs))

    @property
    def result(self) -> str:
        """Return the result in words: the change, that there is none, or why it is unknown."""
        one = self.measure
        if one.name == "verdict":
            return one.change or "the same"
        if not self.differs and one.value_a is not None and one.value_a == one.value_b:
            return "the same"
        if self.chance is None:
            return self.why
        significance = f"p = {self.chance:.2g}" if self.chance >= 0.001 else "p < 0.001"
        return f"{one.change}, {significance}" if self.differs else f"within noise, {significance}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDifference:
    """A cell that both sides have.

    Attributes:
        title: Its name for readers.
        runs: The number of runs of each side.
    """

    cluster: str
    cell: str
    title: str
    runs: tuple[int, int]
    lines: tuple[MeasureLine, ...]

    @property
    def title_and_name(self) -> str:
        """Return the name for readers, with the stable name if that is another."""
        name = sides.cell_name((self.cluster, self.cell))
        return name if self.title == name else f"{self.title} ({name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The differences between two campaigns' results.

    Attributes:
        unlike: Other differences between the two campaigns, one sentence each. They may explain a
            change.
        only_a, only_b: Cells that only one of them has.
        tests: The number of tests.
        runs_needed: The number of runs a side with which any difference can be found.
    """

    a: Side
    b: Side
    unlike: tuple[str, ...]
    cells: tuple[CellDifference, ...]
    only_a: tuple[Key, ...]
    only_b: tuple[Key, ...]
    tests: int
    runs_needed: int


def compare(a: Path, b: Path) -> Differences:
    """Return the differences between two results directories. Raises as
    :func:`harness.comparing.sides.read`, and DocumentRefused for an invalid campaign file."""
    first, second = sides.read(a), sides.read(b)
    shared = sides.partners(first, second)
    found = {
        key: tuple(measures(first.cells[key], second.cells[of_b])) for key, of_b in shared.items()
    }
    tested = iter(lines([one for key in shared for one in found[key]]))
    of_cells = {key: tuple(islice(tested, len(found[key]))) for key in shared}
    cells = [
        CellDifference(
            cluster=key[0],
            cell=key[1],
            title=first.titles[key],
            runs=(len(first.cells[key].runs), len(second.cells[shared[key]].runs)),
            lines=of,
        )
        for key, of in of_cells.items()
    ]
    return Differences(
        a=first,
        b=second,
        unlike=tuple(_unlike(first, second)),
        cells=tuple(cells),
        only_a=tuple(key for key in first.cells if key not in shared),
        only_b=tuple(key for key in second.cells if key not in shared.values()),
        tests=sum(1 for of in of_cells.values() for one in of if one.chance is not None),
        runs_needed=runs_needed(sum(1 for of in found.values() for one in of if one.runs)),
    )


def lines(every: Sequence[Measure]) -> list[MeasureLine]:
    """Return the measures with their tests.

    There is no test if a side has so few runs that no difference whatever would be noteworthy
    beside all the other tests. Its result would always be that chance suffices.
    """
    testable = sum(1 for one in every if one.runs)
    threshold = chance.DOUBT / max(testable, 1)
    probabilities = [
        one.runs.chance(threshold)
        if one.runs and chance.attainable(*one.runs.counts) <= threshold
        else None
        for one in every
    ]
    noted = iter(chance.noteworthy([one for one in probabilities if one is not None]))
    return [
        MeasureLine(
            measure=one,
            chance=probability,
            differs=None if probability is None else next(noted),
            why=_why(one, probability, testable),
        )
        for one, probability in zip(every, probabilities, strict=True)
    ]


def failures(found: Differences, kind: str) -> Iterator[str]:
    """Yield the reasons why a comparison fails, one sentence each.

    Args:
        kind: ``broken``: B broke a guarantee. ``worse``: a cell of B is worse than in A by more
            than chance. ``inconclusive``: B is inconclusive, or lacks a cell that A has.
    """
    cells = found.b.document.cells
    if kind == "broken":
        for one in (one for one in cells if one.verdict is Verdict.FAIL):
            names = ", ".join(guarantee.name for guarantee in one.guarantees if guarantee.broken)
            yield f"{one.cell} broke {names or 'a guarantee'}"
    elif kind == "worse":
        for cell in found.cells:
            for line in (line for line in cell.lines if line.worse):
                measure = line.measure
                yield f"{cell.cell}: {measure.name} went from {measure.a} to {measure.b}"
    else:
        yield from (
            f"{one.cell} is inconclusive" for one in cells if one.verdict is Verdict.INCONCLUSIVE
        )
        yield from (f"{cell} of A is not in B" for _, cell in found.only_a)
        if any(run.infrastructure_failed for run in found.b.document.runs):
            yield "a run of B did not finish"
        if not found.cells:
            yield "the results have no cell in common"


def runs_needed(tests: int) -> int:
    """Return the number of runs a side with which one of so many tests can find any difference."""
    return chance.units_needed(max(tests, 1))


def _why(one: Measure, probability: float | None, tests: int) -> str:
    if probability is not None:
        return "between runs"
    if one.runs is None:
        return f"no test: {one.why}" if one.why else ""
    few = min(one.runs.counts)
    return (
        f"{few} run{'' if few == 1 else 's'} per side cannot show a difference: "
        f"{runs_needed(tests)} would be enough"
    )


def as_document(found: Differences) -> dict[str, Any]:
    """Return the differences for scripts. ``differs`` is null without a test."""
    return {
        "a": _side(found.a),
        "b": _side(found.b),
        "unlike": list(found.unlike),
        "only_a": [_named(key) for key in found.only_a],
        "only_b": [_named(key) for key in found.only_b],
        "tests": found.tests,
        "runs_needed": found.runs_needed,
        "doubt": chance.DOUBT,
        "cells": [
            {
                **_named((one.cluster, one.cell)),
                "runs": list(one.runs),
                "measures": [_measure(line) for line in one.lines],
            }
            for one in found.cells
        ],
    }


def _measure(line: MeasureLine) -> dict[str, Any]:
    one = line.measure
    sides = {"name": one.name, "a": one.value_a, "b": one.value_b, "a_told": one.a, "b_told": one.b}
    return {
        **sides,
        "p": line.chance,
        "differs": line.differs,
        "result": line.result,
        "test": line.why,
    }


def _side(side: Side) -> dict[str, Any]:
    names = ("campaign", "seed", "began", "verdict", "system", "metadata_quorum", "backend")
    entries = {name: getattr(side.document, name) for name in names}
    return {"directory": str(side.directory), **entries, "runs": len(side.document.runs)}


def _named(key: Key) -> dict[str, str]:
    return {"cluster": key[0], "cell": key[1]}


def _unlike(a: Side, b: Side) -> Iterator[str]:
    one, other = a.document, b.document
    if one.campaign != other.campaign:
        yield f"different campaigns: {one.campaign} and {other.campaign}"
    if one.seed != other.seed:
        yield f"different seeds, {one.seed} and {other.seed}, and so different schedules of faults"
    settings = list(_settings(a.directory, b.directory))
    yield from settings[:SETTINGS_SHOWN_MAX]
    if len(settings) > SETTINGS_SHOWN_MAX:
        yield f"and {len(settings) - SETTINGS_SHOWN_MAX} further settings of the campaign files"
    for name, was in one.versions.model_dump().items():
        now = getattr(other.versions, name)
        if was != now:
            yield f"{name}: {was or 'unknown'} and {now or 'unknown'}"
    if one.plugins != other.plugins:
        yield f"plug-ins: {_plugins(one)} and {_plugins(other)}"
    if one.machine != other.machine:
        yield f"machine: {_machine(a)} and {_machine(b)}"


def _plugins(document: VerdictDocument) -> str:
    return ", ".join(f"{name} {version}" for name, version in document.plugins.items()) or "none"


def _machine(side: Side) -> str:
    machine = side.document.machine
    if machine is None:
        return "unknown"
    return f"{machine.cores} cores, {machine.memory_mb:,} MB, {machine.architecture}"


_UNSET = "not set"
"""Stands for a setting that a campaign file leaves at its default."""


def _settings(a: Path, b: Path) -> Iterator[str]:
    shown_above = ("name", "seed")
    one, other = (dict(_flat(_campaign(directory))) for directory in (a, b))
    for name in dict.fromkeys((*one, *other)):
        was, now = one.get(name, _UNSET), other.get(name, _UNSET)
        if was != now and name not in shown_above:
            yield f"{name}: {was} and {now}"


def _campaign(directory: Path) -> object:
    """Return the content of a campaign file, or None if there is none. It is read as any campaign
    file is, so that aliases of aliases are refused. Raises DocumentRefused."""
    file = directory / CAMPAIGN_FILE
    return documents.read(file).content if file.is_file() else None


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every setting with its path; the path of a fault has its place in the list. Empty lists
    and mappings and nulls are ignored, because copies by newer releases have more of them."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, Sequence) and any(isinstance(part, Mapping) for part in value):
        for place, part in enumerate(value, 1):
            yield from _flat(part, f"{name}[{place}]")
    elif name and value is not None and value != []:
        yield name, str(value)
