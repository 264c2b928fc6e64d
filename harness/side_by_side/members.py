"""The systems of a matrix, with the runs and the results of each."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ackproof.checkers.verdict import CampaignResult
from ackproof.config.documents import DocumentRefused
from ackproof.harness.campaign import validation
from ackproof.harness.report import verdict
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.rows import CellRow, rows
from ackproof.harness.subprocesses import CachedRun, ChildProcesses, last_words
from ackproof.history import manifest
from ackproof.history.errors import HistoryError


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixSystem:
    """A system of the matrix.

    Attributes:
        refused: The reasons why it refused the campaign; then it was not run.
        trouble: The reason why it has no verdict.
        result, document: Its result, from the checkers and for scripts; None if it was refused, or
            came to no verdict.
        cells: Its cells, of all its runs.
    """

    once: CachedRun
    refused: tuple[str, ...] = ()
    trouble: str = ""
    result: CampaignResult | None = None
    document: VerdictDocument | None = None
    cells: Sequence[CellRow] = ()

    @property
    def system(self) -> str:
        return self.once.system

    @property
    def place(self) -> str:
        """Return the directory of its results, relative to that of the matrix."""
        return self.once.directory.name


def members(file: Path, systems: Sequence[str], seed: int, directory: Path) -> list[MatrixSystem]:
    """Return all systems, not run yet. Those that refuse the campaign have the reasons. Raises
    DocumentRefused if all of them do, because the file may then be wrong for any system."""
    found = []
    refusals = []
    for system in systems:
        place = directory / re.sub(r"[^A-Za-z0-9.]+", "-", system).strip("-")
        once = CachedRun(file=file, system=system, seed=seed, directory=place)
        try:
            validation.check(file, meant=True, system=system)
            found.append(MatrixSystem(once=once))
        except DocumentRefused as refusal:
            refusals.append(refusal)
            found.append(MatrixSystem(once=once, refused=tuple(map(str, refusal.problems))))
    if len(refusals) == len(found):
        raise refusals[0]
    return found


def carried_out(member: MatrixSystem, children: ChildProcesses) -> MatrixSystem:
    """Return the member with its results, after a run if there are none. Raises Interrupted,
    DamagedResults."""
    if member.refused:
        return member
    if not member.once.carry_out(children):
        return replace(member, trouble=last_words(member.once.output))
    return read(member)


def read(member: MatrixSystem) -> MatrixSystem:
    """Return the member with its results, if there are any. Raises DamagedResults."""
    if member.refused:
        return member
    result = verdict.read(member.once.directory)
    if result is None:
        return replace(member, trouble="it was not run")
    try:
        planned = manifest.read(member.once.directory)
    except HistoryError:
        planned = None
    cells = rows(result, planned)
    return replace(member, trouble="", result=result, document=member.once.result, cells=cells)


def with_results(members: Sequence[MatrixSystem]) -> Iterator[tuple[MatrixSystem, CampaignResult]]:
    """Yield the members that have a verdict."""
    for member in members:
        if member.result is not None:
            yield member, member.result
