"""How often a loss was seen on a side, and the autopsy of one."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ackproof.checkers.verdict import Verdict
from ackproof.harness.once import Once
from ackproof.harness.report.document import VerdictDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run in which it was.

    Attributes:
        records: How many were lost, or whatever the story shows.
        sentence: The first autopsy's; empty where there is none of these anomalies.
    """

    seed: int
    records: int
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Attributes:
    runs: That told whether it was to be seen.
    seen: In how many of them it was.
    untold: Runs that told nothing: a fault did not bite, a cell had too little evidence.
    first: The first in which it was seen.
    """

    runs: int = 0
    seen: int = 0
    untold: int = 0
    first: Seen | None = None


def tally(runs: Iterable[Once], shows: Collection[str]) -> Tally:
    """Of all that were run to their end; ``shows``: the anomalies. Raises DamagedResults."""
    found = Tally()
    for one in runs:
        result = one.result
        if result is None:
            continue
        if records := sum(result.anomalies.get(name) or 0 for name in shows):
            seen = Seen(seed=one.seed, records=records, sentence=_sentence(result, shows))
            found = replace(
                found, runs=found.runs + 1, seen=found.seen + 1, first=found.first or seen
            )
        elif told(result, shows):
            found = replace(found, runs=found.runs + 1)
        else:
            found = replace(found, untold=found.untold + 1)
    return found


def told(result: VerdictDocument, shows: Collection[str]) -> bool:
    """Whether a run in which nothing was seen would have shown it: half a story is another one. It
    may have failed for something else, and not be checked for the rest: interrupted, when a server
    had died."""
    if all(result.anomalies.get(name, 0) is None for name in shows):
        return False
    broken_down = any(run.infrastructure_failed for run in result.runs) or result.findings
    return bool(result.runs) and not broken_down and result.verdict is not Verdict.INCONCLUSIVE


def _sentence(result: VerdictDocument, shows: Collection[str]) -> str:
    causes = (cause for cause in result.causes if cause.anomaly in shows)
    return next((cause.sentence for cause in causes), "")
