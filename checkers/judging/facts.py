"""All that a cell is judged by."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ackproof.checkers.judging.liveness import Living
from ackproof.checkers.judging.plugin_checks import PluginCheck
from ackproof.checkers.promises.standing import Standing, examined, name
from ackproof.history.cell import Cell


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
        counts: The sums of its partitions, as in :func:`checkers.reconciling.reconcile.metrics`.
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
        return self.counts.get(what if standing is None else name(what, standing), 0)
