"""The facts of a cell that its guarantees are judged by, of the checkers of plug-ins, too."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.checks.plugin_examination import Examination, PluginTotals, added
from ackproof.checkers.checks.plugin_work import concerned
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.status import Standing, count_name, examined
from ackproof.checkers.engine.results import PartitionTotals
from ackproof.checkers.guarantees.liveness import Living
from ackproof.checkers.interface import Extent, PluginChecker, Promised
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
    for checker_name, checker in checkers.items():
        totals = _of_cell(checker_name, of_cell)
        if checker.extent is Extent.PARTITION:
            totals = _of_partitions(checker_name, found)
        yield _check(checker_name, checker, planned.cell, totals)
    for checker_name, plugin in planned.checkers.items():
        if checker_name not in checkers:
            yield PluginCheck(
                checker=checker_name,
                plugin=plugin,
                guarantee=f"The checker {checker_name} of the plug-in {plugin} finds nothing.",
                promised=Promised.ALWAYS,
                not_promised=None,
                totals=PluginTotals(lacking=(_absent(checker_name, plugin),)),
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
    for checker_name, plugin in sorted(planned):
        now = CATALOGUE.plugin(checker_name)
        if now is not None and str(now) != plugin:
            yield f"the checker {checker_name} is of {now}, and a run was planned with {plugin}"


def plugins_of(runs: Sequence[RunEvidence], checks: Iterable[PluginCheck]) -> Mapping[str, str]:
    """Return the plug-ins whose objects the runs used, or this check, each with its version."""
    used = filter(None, (CATALOGUE.plugin(one.checker) for one in checks))
    planned = {name: version for run in runs for name, version in run.planned.plugins.items()}
    return {**planned, **{one.name: one.version for one in used}}


# --- facts ----------------------------------------------------------------------------------------
#
# All that a cell is judged by.


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Whether anybody was to read a cell; tail readers, groups, at-least-once groups."""

    any: bool = False
    tail: bool = False
    groups: bool = False
    at_least_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that a cell is judged by.

    Attributes:
        counts: The sums of its partitions, as in :func:`checkers.engine.reconcile.metrics`.
        why: Why acks in it are not promised to be kept, or perhaps not; a sentence each.
        apart: Why replicas of it are not promised to agree, or perhaps not; a sentence each.
        withdrawn: Likewise why what consumers were shown of it need not stay.
        uncommitted: Likewise why what groups committed of it need not be kept.
        transactional: Whether it is written in transactions.
        undecided: Likewise why what these committed, or aborted, need not stay so.
        whole: Whether every send and all of the final log could be read.
        crashed: Checkers that threw while they looked at this cell.
        gaps: What the evidence lacks, one sentence each.
        recovers, groups_recover, stays_up: What became of the liveness guarantees.
        readers: Who was to read it.
        plugin_checks: What the checkers of plug-ins found, one each.
        baseline: Whether nothing was to be broken.
    """

    cell: Cell
    counts: Mapping[str, int]
    why: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    uncommitted: tuple[str, ...] = ()
    transactional: bool = False
    undecided: tuple[str, ...] = ()
    whole: bool = True
    crashed: frozenset[str] = frozenset()
    gaps: tuple[str, ...] = ()
    recovers: Living = field(default_factory=Living)
    groups_recover: Living = field(default_factory=Living)
    stays_up: Living = field(default_factory=Living)
    readers: Readers = Readers()
    plugin_checks: tuple[PluginCheck, ...] = ()
    baseline: bool = False

    def examined(self, checker: str) -> int:
        """Return how many things a checker examined."""
        return self.counts.get(examined(checker), 0)

    def count(self, what: str, standing: Standing | None = None) -> int:
        """One of the counts; absent is 0."""
        return self.counts.get(what if standing is None else count_name(what, standing), 0)
