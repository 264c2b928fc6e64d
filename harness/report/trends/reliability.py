"""The reliability of a campaign's cells and faults over its runs: flaky cells, and how often each
fault was injected, took effect and healed.

Only what was judged counts. An inconclusive cell, one that guarantees nothing, and a run without a
verdict are neither passes nor failures.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from ackproof.checkers.verdict import Verdict
from ackproof.harness.report.document import FaultDocument
from ackproof.harness.report.rows import UNKNOWN, number
from ackproof.harness.report.trends.night import CellFigures, Night, date_of
from ackproof.infra.systems.product import BUNDLED

SEEDS_NAMED_MAX = 3


def system_of(night: Night) -> str:
    """Return the system of a night with its metadata quorum; empty if it is unknown."""
    return ", ".join(filter(None, (night.system, night.metadata_quorum)))


# --- flaky cells ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyCell:
    """A cell that passes and fails on the same system in the same campaign.

    Attributes:
        system: The system with its metadata quorum.
        version: The version of the bundled system; empty for others, whose name has it.
        name: The stable name of the cell.
        passes, fails: The runs in which it passed and failed.
        undecided: The runs in which it was inconclusive.
        changes: The changes from one to the other, in the order of time.
        latest: Whether it passed or failed at last, and since when, in words.
        seeds: Seeds with which it passed and failed, so that the seed alone does not explain it.
    """

    system: str
    version: str
    name: str
    passes: int
    fails: int
    undecided: int
    changes: int
    latest: str
    seeds: tuple[int, ...]

    @property
    def of_seeds(self) -> str:
        """Return the seeds in words; empty without any."""
        if not self.seeds:
            return ""
        named = ", ".join(map(str, self.seeds[:SEEDS_NAMED_MAX]))
        left = len(self.seeds) - SEEDS_NAMED_MAX
        return f"{named} and {left} more" if left > 0 else named


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """The outcome of a cell in one run. ``verdict`` is the one that the campaign counts."""

    date: str
    seed: tuple[int | None, int]
    verdict: Verdict


def flaky_cells(oldest_first: Iterable[Night]) -> tuple[FlakyCell, ...]:
    """Return the flaky cells of one campaign, those with most changes first. A single change is
    included: it may be a regression or a correction."""
    outcomes: dict[tuple[str, str, str], list[_Outcome]] = {}
    for night in oldest_first:
        # Ackproof's version is that of the bundled system. The names of others have theirs.
        version = (night.system == BUNDLED and night.ackproof) or ""
        for cell in sorted(night.cells, key=lambda one: one.run):
            key = system_of(night), version, cell.cell
            outcomes.setdefault(key, []).append(_outcome(night, cell))
    found = [_flaky(*key, of) for key, of in outcomes.items()]
    flaky = [one for one in found if one is not None]
    return tuple(sorted(flaky, key=lambda one: -one.changes))


def _outcome(night: Night, cell: CellFigures) -> _Outcome:
    return _Outcome(
        date=date_of(night.began_s),
        seed=(night.seed, cell.run),
        verdict=cell.kind if cell.counts_as is None else cell.counts_as,
    )


def _flaky(system: str, version: str, name: str, outcomes: Sequence[_Outcome]) -> FlakyCell | None:
    judged = [one for one in outcomes if one.verdict in (Verdict.PASS, Verdict.FAIL)]
    passed = [one for one in judged if one.verdict is Verdict.PASS]
    failed = [one for one in judged if one.verdict is Verdict.FAIL]
    if not passed or not failed:
        return None
    stretches = [list(of) for _, of in groupby(judged, key=lambda one: one.verdict)]
    last = stretches[-1]
    word = "passes" if last[0].verdict is Verdict.PASS else "fails"
    both = {one.seed for one in passed} & {one.seed for one in failed}
    return FlakyCell(
        system=system,
        version=version,
        name=name,
        passes=len(passed),
        fails=len(failed),
        undecided=sum(one.verdict is Verdict.INCONCLUSIVE for one in outcomes),
        changes=len(stretches) - 1,
        latest=f"{word} since {last[0].date}",
        seeds=tuple(sorted({seed for seed, _ in both if seed is not None})),
    )


# --- faults ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRate:
    """The success of a fault on a system, over all runs.

    Attributes:
        fault: Its name, as ``kill``.
        attempts: The number of times that it was begun.
        injected: The injections that ended without an error; None if older results do not say.
        proven: The injections whose effect was proven.
        unchecked: The injections whose effect was not checked.
        healed: The faults whose heal was proven.
    """

    fault: str
    system: str
    attempts: int
    injected: int | None
    proven: int
    unchecked: int
    healed: int

    @property
    def figures(self) -> tuple[tuple[str, bool], ...]:
        """Return the injected, proven and healed faults in words, each with whether some certainly
        were not."""
        proven = self._share(self.proven)
        if self.unchecked:
            proven += f", {number(self.unchecked)} not checked"
        injected = UNKNOWN if self.injected is None else self._share(self.injected)
        return (
            (injected, self.injected is not None and self.injected < self.attempts),
            (proven, self.proven + self.unchecked < self.attempts),
            (self._share(self.healed), self.healed < self.attempts),
        )

    def _share(self, count: int) -> str:
        """Return a part of the attempts in words. It is only 100 % if it is all of them."""
        percent = min(99, round(100 * count / self.attempts)) if count < self.attempts else 100
        return f"{number(count)} of {number(self.attempts)} ({percent} %)"


def fault_rates(
    runs: Iterable[tuple[str, Sequence[FaultDocument]]],
) -> tuple[FaultRate, ...]:
    """Return the rates of each fault on each system, by name. ``runs`` are results with their
    system and their faults."""
    found: dict[tuple[str, str], list[FaultDocument]] = {}
    for system, faults in runs:
        for one in faults:
            found.setdefault((one.name.rpartition("#")[0] or one.name, system), []).append(one)
    return tuple(_rate(*key, of) for key, of in sorted(found.items()))


def _rate(fault: str, system: str, of: Sequence[FaultDocument]) -> FaultRate:
    injected = [one.injected for one in of]
    return FaultRate(
        fault=fault,
        system=system,
        attempts=len(of),
        injected=None if None in injected else sum(map(bool, injected)),
        proven=sum(one.proven is True for one in of),
        unchecked=sum(one.proven is None for one in of),
        healed=sum(one.healed is not None for one in of),
    )
