"""The results of plug-ins' checkers in a cell, and the checkers that could not be used."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof.checkers.catalogue import CATALOGUE
from ackproof.checkers.evidence.run import RunEvidence
from ackproof.checkers.interface import Extent, PluginChecker, Promised
from ackproof.checkers.plugin_checks.examination import Examination
from ackproof.checkers.plugin_checks.totals import PluginTotals, added
from ackproof.checkers.plugin_checks.work import concerned
from ackproof.checkers.reconciling.results import PartitionTotals
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedCell


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCheck:
    """One checker of a plug-in and its result in a cell.

    Attributes:
        checker: The name of the checker.
        plugin: The plug-in that it is of, with its version.
        guarantee: The guarantee in words.
        promised: While what it is promised.
        not_promised: Why the settings of the cell do not promise it; None if they do.
        totals: What it found.
    """

    checker: str
    plugin: str
    guarantee: str
    promised: Promised
    not_promised: str | None
    totals: PluginTotals


def plugin_checks(
    run: RunEvidence,
    planned: PlannedCell,
    found: Sequence[PartitionTotals | None],
    of_cell: Mapping[str, Examination],
) -> Iterator[PluginCheck]:
    """Yield what came of each checker that concerns a cell, and then of those that the run was
    planned with and that cannot be used now.

    Args:
        found: What was found in each of the cell's partitions.
        of_cell: What checkers found that look at whole cells.
    """
    checkers = concerned(run.planned, planned)
    for name, checker in checkers.items():
        totals = _of_cell(name, of_cell)
        if checker.extent is Extent.PARTITION:
            totals = _of_partitions(name, found)
        yield _check(name, checker, planned.cell, totals)
    for name, plugin in planned.checkers.items():
        if name not in checkers:
            yield PluginCheck(
                checker=name,
                plugin=plugin,
                guarantee=f"The checker {name} of the plug-in {plugin} finds nothing.",
                promised=Promised.ALWAYS,
                not_promised=None,
                totals=PluginTotals(lacking=(_absent(name, plugin),)),
            )


def _check(name: str, checker: PluginChecker, cell: Cell, totals: PluginTotals) -> PluginCheck:
    try:
        reason = checker.not_promised(cell)
        if reason is not None and not isinstance(reason, str):
            raise TypeError(f"it returned {reason!r}, and must return a reason or None")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one checker never takes down another
        words = " ".join(f"{type(error).__name__}: {error}".split())
        failed = f"the checker {name} failed to say whether it is promised: {words}"
        reason, totals = None, PluginTotals(lacking=(failed,))
    return PluginCheck(
        checker=name,
        plugin=str(CATALOGUE.plugin(name)),
        guarantee=checker.guarantee,
        promised=checker.promised,
        not_promised=reason,
        totals=totals,
    )


def _of_partitions(name: str, found: Sequence[PartitionTotals | None]) -> PluginTotals:
    mine = [one.plugin_checks.get(name) if one else None for one in found]
    totals = added(one for one in mine if one is not None)
    if None not in mine:
        return totals
    left_out = PluginTotals(lacking=("not all partitions of this cell were examined",))
    return added([totals, left_out])


def _of_cell(name: str, of_cell: Mapping[str, Examination]) -> PluginTotals:
    if name in of_cell:
        return of_cell[name].totals
    return PluginTotals(lacking=("this cell was not examined",))


def _absent(name: str, plugin: str) -> str:
    if name in CATALOGUE:
        return f"the run was planned with {plugin}, and {CATALOGUE.plugin(name)} is installed now"
    return f"the run was planned with {plugin}, and {CATALOGUE.absence(name)}"


def findings(runs: Sequence[RunEvidence]) -> Iterator[str]:
    """Yield which checkers of plug-ins are installed and cannot be used, and which are of another
    version than the one that a run was planned with."""
    yield from (str(one) for one in CATALOGUE.registrations if one.problem is not None)
    cells = [cell for run in runs for cell in run.planned.cells]
    planned = {item for cell in cells for item in cell.checkers.items()}
    for name, plugin in sorted(planned):
        now = CATALOGUE.plugin(name)
        if now is not None and str(now) != plugin:
            yield f"the checker {name} is of {now}, and a run was planned with {plugin}"


def plugins_of(runs: Sequence[RunEvidence], checks: Iterable[PluginCheck]) -> Mapping[str, str]:
    """Return the plug-ins whose objects the runs used, or this check, each with its version."""
    used = filter(None, (CATALOGUE.plugin(one.checker) for one in checks))
    planned = {name: version for run in runs for name, version in run.planned.plugins.items()}
    return {**planned, **{one.name: one.version for one in used}}
