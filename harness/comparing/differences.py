"""All that two campaigns' results differ in: what was run, then cell by cell what came of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.comparing import sides
from harness.comparing.measures import Measure, measures
from harness.comparing.sides import Key, Side
from harness.directory import CAMPAIGN_FILE
from harness.report import chance
from infra import documents

SETTINGS_TOLD = 12
"""Settings that differ and are named; of more than these, how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A measure, and whether it differs by more than chance; None where no test was made."""

    measure: Measure
    differs: bool | None

    @property
    def result(self) -> str:
        """In words: what changed, that nothing did, or why it cannot be said."""
        one = self.measure
        if one.name == "verdict":
            return one.change or "the same"
        if self.differs is None:
            return (
                "the same" if one.a == one.b and one.value_a is not None else f"no test: {one.why}"
            )
        told = f"p = {one.chance:.2g}" if (one.chance or 0) >= 0.001 else "p < 0.001"
        return f"{one.change}, {told}" if self.differs else f"within noise, {told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDifference:
    """A cell that both have. ``runs``: how many each."""

    cluster: str
    cell: str
    runs: tuple[int, int]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Attributes:
    unlike: What else differs between the two campaigns, one sentence each: whoever reads of a
        change must know what it may be due to.
    only_a, only_b: Cells that only one of them has.
    tests: How many were made.
    """

    a: Side
    b: Side
    unlike: tuple[str, ...]
    cells: tuple[CellDifference, ...]
    only_a: tuple[Key, ...]
    only_b: tuple[Key, ...]
    tests: int


def compare(a: Path, b: Path) -> Differences:
    """Of two results directories. Raises as :func:`harness.comparing.sides.read`, and
    DocumentRefused for a campaign file that is none."""
    first, second = sides.read(a), sides.read(b)
    shared = [key for key in first.cells if key in second.cells]
    found = {key: tuple(measures(first.cells[key], second.cells[key])) for key in shared}
    tested = [(key, one) for key in shared for one in found[key] if one.chance is not None]
    noted = chance.noteworthy([one.chance or 0.0 for _, one in tested])
    differs = {
        (key, one.name): noteworthy for (key, one), noteworthy in zip(tested, noted, strict=True)
    }
    cells = [
        CellDifference(
            cluster=key[0],
            cell=key[1],
            runs=(len(first.cells[key].runs), len(second.cells[key].runs)),
            lines=tuple(Line(measure=one, differs=differs.get((key, one.name))) for one in of),
        )
        for key, of in found.items()
    ]
    return Differences(
        a=first,
        b=second,
        unlike=tuple(_unlike(first, second)),
        cells=tuple(cells),
        only_a=tuple(key for key in first.cells if key not in second.cells),
        only_b=tuple(key for key in second.cells if key not in first.cells),
        tests=len(tested),
    )


def as_document(found: Differences) -> dict[str, Any]:
    """For scripts. ``differs`` is null where no test was made."""
    return {
        "a": _side(found.a),
        "b": _side(found.b),
        "unlike": list(found.unlike),
        "only_a": [_named(key) for key in found.only_a],
        "only_b": [_named(key) for key in found.only_b],
        "tests": found.tests,
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


def _measure(line: Line) -> dict[str, Any]:
    one = line.measure
    told = {"name": one.name, "a": one.value_a, "b": one.value_b, "a_told": one.a, "b_told": one.b}
    return {
        **told,
        "p": one.chance,
        "differs": line.differs,
        "result": line.result,
        "test": one.why,
    }


def _side(side: Side) -> dict[str, Any]:
    names = ("campaign", "seed", "began", "verdict", "system", "metadata_quorum", "backend")
    told = {name: getattr(side.document, name) for name in names}
    return {"directory": str(side.directory), **told, "runs": len(side.document.runs)}


def _named(key: Key) -> dict[str, str]:
    return {"cluster": key[0], "cell": key[1]}


def _unlike(a: Side, b: Side) -> Iterator[str]:
    one, other = a.document, b.document
    if one.campaign != other.campaign:
        yield f"different campaigns: {one.campaign} and {other.campaign}"
    if one.seed != other.seed:
        yield f"different seeds, {one.seed} and {other.seed}: the faults strike otherwise"
    settings = list(_settings(a.directory, b.directory))
    yield from settings[:SETTINGS_TOLD]
    if len(settings) > SETTINGS_TOLD:
        yield f"and {len(settings) - SETTINGS_TOLD} further settings of the campaign files"
    for name, was in one.versions.model_dump().items():
        now = getattr(other.versions, name)
        if was != now:
            yield f"{name}: {was or 'unknown'} and {now or 'unknown'}"
    if one.machine != other.machine:
        yield f"machine: {_machine(a)} and {_machine(b)}"


def _machine(side: Side) -> str:
    machine = side.document.machine
    if machine is None:
        return "unknown"
    return f"{machine.cores} cores, {machine.memory_mb:,} MB, {machine.architecture}"


def _settings(a: Path, b: Path) -> Iterator[str]:
    told_of_already = ("name", "seed")
    one, other = (dict(_flat(_campaign(directory))) for directory in (a, b))
    for name in dict.fromkeys((*one, *other)):
        was, now = one.get(name, "-"), other.get(name, "-")
        if was != now and name not in told_of_already:
            yield f"{name}: {was} and {now}"


def _campaign(directory: Path) -> object:
    """Return what a campaign file holds, None where there is none. It is read as any campaign file
    is, so that aliases of aliases are refused. Raises DocumentRefused."""
    file = directory / CAMPAIGN_FILE
    return documents.read(file).content if file.is_file() else None


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Every setting by the way to it; faults of a list by their place in it."""
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, Sequence) and any(isinstance(part, Mapping) for part in value):
        for place, part in enumerate(value, 1):
            yield from _flat(part, f"{name}[{place}]")
    elif name:
        yield name, str(value)
