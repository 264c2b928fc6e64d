"""The facts from which the guarantees of a cell are judged, including those of plug-ins'
checkers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ackproof.checkers.checks.catalogue import CATALOGUE, concerned, provider
from ackproof.checkers.checks.planned_consumers import AT_LEAST_ONCE, clients_of
from ackproof.checkers.checks.plugin_examination import Examination, PluginTotals, added
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.status import GuaranteeStatus, count_name, examined
from ackproof.checkers.engine.results import PartitionTotals
from ackproof.checkers.guarantees.liveness import LivenessResult
from ackproof.checkers.interface import Extent, PluginChecker, Promised
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedCell, PlannedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCheck:
    """One checker of a plug-in and its result in a cell.

    Attributes:
        checker: The name of the checker.
        plugin: The plug-in that provides it, with its version, or None for a built-in checker.
        guarantee: The guarantee as a sentence.
        promised: Its validity window.
        not_promised: The reason why the settings of the cell do not promise it, or None.
        totals: Its counts.
    """

    checker: str
    plugin: str | None
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
    """Yield the result of each checker that applies to a cell, and then those of checkers that the
    run was planned with and that cannot be used now.

    Args:
        run: The run.
        planned: The cell.
        found: The totals of each of the cell's partitions.
        of_cell: The results of checkers that examine whole cells.
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
                guarantee=f"The checker {checker_name} of the plug-in {plugin} finds no anomaly.",
                promised=Promised.ALWAYS,
                not_promised=None,
                totals=PluginTotals(lacking=(_absent(checker_name, plugin),)),
            )


def planned_checks(run: PlannedRun, planned: PlannedCell) -> Iterator[PluginCheck]:
    """Yield the result that each checker has if it examines a cell and finds nothing."""
    for checker_name, checker in concerned(run, planned).items():
        yield _check(checker_name, checker, planned.cell, PluginTotals(examined=1))


def _check(name: str, checker: PluginChecker, cell: Cell, totals: PluginTotals) -> PluginCheck:
    try:
        reason = checker.not_promised(cell)
        if reason is not None and not isinstance(reason, str):
            raise TypeError(f"it returned {reason!r}, but must return a reason or None")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one checker never takes down another
        words = " ".join(f"{type(error).__name__}: {error}".split())
        failed = f"the checker {name} failed to say whether its guarantee is promised: {words}"
        reason, totals = None, PluginTotals(lacking=(failed,))
    return PluginCheck(
        checker=name,
        plugin=provider(name),
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
        return f"the run was planned with {plugin}, but {CATALOGUE.plugin(name)} is installed now"
    return f"the run was planned with {plugin}, but {CATALOGUE.absence(name)}"


def findings(runs: Sequence[RunEvidence]) -> Iterator[str]:
    """Yield the checkers of plug-ins that are installed but cannot be used, and those of another
    version than the one that a run was planned with."""
    yield from (str(one) for one in CATALOGUE.registrations if one.problem is not None)
    cells = [cell for run in runs for cell in run.planned.cells]
    planned = {item for cell in cells for item in cell.checkers.items()}
    for checker_name, plugin in sorted(planned):
        now = CATALOGUE.plugin(checker_name)
        if now is not None and str(now) != plugin:
            yield (
                f"the checker {checker_name} belongs to {now}, but a run was planned with {plugin}"
            )


def plugins_of(runs: Sequence[RunEvidence], checks: Iterable[PluginCheck]) -> Mapping[str, str]:
    """Return the plug-ins that the runs or this check used, each with its version."""
    used = filter(None, (CATALOGUE.plugin(one.checker) for one in checks))
    planned = {name: version for run in runs for name, version in run.planned.plugins.items()}
    return {**planned, **{one.name: one.version for one in used}}


# --- facts ----------------------------------------------------------------------------------------
#
# The facts of a cell.


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The kinds of consumers that a cell has: any, tail readers, groups, at-least-once groups."""

    any: bool = False
    tail: bool = False
    groups: bool = False
    at_least_once: bool = False

    @classmethod
    def planned(cls, run: PlannedRun, cell: PlannedCell) -> "Readers":
        """Return the kinds that a run was planned with. A client that is planned to commit is a
        member of a group; any other is a tail reader."""
        partition = cell.cell.topic_partitions[0]
        consumers = [
            tables
            for tables in clients_of(run).values()
            if "polls" in tables and partition in tables["polls"].partitions
        ]
        return cls(
            any=bool(consumers),
            tail=any("commits" not in tables for tables in consumers),
            groups=any("commits" in tables for tables in consumers),
            at_least_once=any(group.delivery == AT_LEAST_ONCE for group in cell.groups),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts from which a cell is judged.

    Attributes:
        cell: The cell.
        counts: The sums of the counts of its partitions, as in :mod:`checkers.engine.reconcile`.
        why: The reasons why acked records need not be kept, or perhaps not, a sentence each.
        apart: The reasons why its replicas need not agree, or perhaps not, a sentence each.
        withdrawn: The reasons why reads of it need not stay, or perhaps not, a sentence each.
        uncommitted: The reasons why committed offsets of groups need not be kept, or perhaps not, a
            sentence each.
        transactional: Whether it is written in transactions.
        tombstones: Whether tombstones are sent to it.
        undecided: The reasons why the outcome of transactions need not stay, or perhaps not, a
            sentence each.
        whole: Whether every send and the complete final log could be read.
        crashed: The checkers that raised an exception for this cell.
        gaps: The missing evidence, a sentence each.
        recovers, groups_recover, stays_up: The results of the liveness guarantees.
        readers: The kinds of its consumers.
        plugin_checks: The results of plug-ins' checkers.
        baseline: Whether the campaign was planned without faults.
        unchecked: The guarantees that the run cannot check, each with the reason.
    """

    cell: Cell
    counts: Mapping[str, int]
    why: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    uncommitted: tuple[str, ...] = ()
    transactional: bool = False
    tombstones: bool = False
    undecided: tuple[str, ...] = ()
    whole: bool = True
    crashed: frozenset[str] = frozenset()
    gaps: tuple[str, ...] = ()
    recovers: LivenessResult = field(default_factory=LivenessResult)
    groups_recover: LivenessResult = field(default_factory=LivenessResult)
    stays_up: LivenessResult = field(default_factory=LivenessResult)
    readers: Readers = Readers()
    plugin_checks: tuple[PluginCheck, ...] = ()
    baseline: bool = False
    unchecked: Mapping[str, str] = field(default_factory=dict)

    def examined(self, checker: str) -> int:
        """Return how many things a checker examined."""
        return self.counts.get(examined(checker), 0)

    def count(self, what: str, standing: GuaranteeStatus | None = None) -> int:
        """Return one of the counts. A missing count is 0."""
        return self.counts.get(what if standing is None else count_name(what, standing), 0)
