"""The question what would have prevented a failure: the campaign, run several times as it was, and
as often with one thing changed each.

Everything is in ``why/`` of the results: for each change its campaign file, and the results of its
runs. Runs are kept, so that work that was ended continues where it was.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ackproof.harness.counterfactuals.answer import Answer
from ackproof.harness.counterfactuals.changes import AS_IT_WAS, LeftOut, Variant
from ackproof.harness.counterfactuals.failures import Failure, failed
from ackproof.harness.counterfactuals.odds import (
    Odds,
    compared,
    hopeless,
    odds,
    shared_doubt,
)
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.subprocesses import CachedRun, last_words
from ackproof.history.messages import printable, several
from ackproof.history.storage import write_text

DIRECTORY = "why"

VAIN_MAX = 2
"""If so many first runs of a variant have no verdict, it is not run again. The reason is most often
the same each time, for example a release that cannot be fetched. The next call tries again."""

_CAMPAIGN = "campaign.yaml"
_DIGEST = 8


def _place(variant: Variant, results: Path) -> Path:
    """Return the directory of a variant. A changed campaign has another one, because former runs
    say nothing about it; another name of the change has not."""
    digest = hashlib.sha256(variant.text.encode()).hexdigest()[:_DIGEST]
    former = sorted((results / DIRECTORY).glob(f"*-{digest}"))
    if former:
        return former[0]
    name = re.sub(r"[^A-Za-z0-9.]+", "-", variant.name).strip("-")[:60]
    return results / DIRECTORY / f"{name}-{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The question why a campaign lost records, or broke another guarantee.

    Attributes:
        results: The directory of the results with the failure.
        campaign: The name of the campaign.
        seed: The seed of all runs. The faults have the seeds of the recorded ones.
        origin: The origin of the campaign that is run, in words.
        failure: The failure that is examined.
        variants: The campaign as it was, then its changes.
        left: The changes that are not tried.
        wanted: The names of the variants to run; empty for all.
        looks: The numbers of runs with which it was answered by tests before, and with which it is
            answered now.
    """

    results: Path
    campaign: str
    seed: int
    origin: str
    failure: Failure
    variants: Sequence[Variant]
    left: Sequence[LeftOut]
    wanted: Collection[str] = ()
    looks: Sequence[int] = ()

    @property
    def chosen(self) -> Sequence[Variant]:
        """Return the variants to run: the campaign as it was, and the wanted changes."""
        if not self.wanted:
            return self.variants
        return [one for one in self.variants if one.name in (AS_IT_WAS, *self.wanted)]

    @property
    def described(self) -> Iterator[str]:
        """Yield what is examined, then a line for each variant, and for each change that is not
        tried."""
        examined = self.failure
        yield f"examined: {examined.guarantee} in {examined.cell}, run {examined.run}"
        yield from (one.name for one in self.variants)
        yield from (f"not tried: {one.name}: {one.reason}" for one in self.left)

    def planned(self, runs: int) -> Iterator[tuple[Variant, CachedRun]]:
        """Write the campaign file of each variant, and yield so many runs of each. All variants
        come with their first run first, so that each soon has a result. A change whose former runs
        make it :func:`hopeless` is not run again, nor is a variant whose first runs now came to no
        verdict (:data:`VAIN_MAX`). Raises OSError and DamagedResults."""
        for variant in self.chosen:
            place = _place(variant, self.results)
            place.mkdir(parents=True, exist_ok=True)
            write_text(place / _CAMPAIGN, variant.text)
        vain = Counter[str]()
        for number in range(1, runs + 1):
            for variant in self.chosen:
                if vain[variant.name] == VAIN_MAX or self._given_up(variant, self._base_odds, runs):
                    continue
                one = self._run(variant, number)
                yield variant, one
                vain[variant.name] += number <= VAIN_MAX and one.result is None

    def outcome(self, result: VerdictDocument) -> str:
        """Return the outcome of a run in words."""
        came = failed(result, self.failure.guarantee)
        if came is None:
            return ": ".join(["inconclusive", *result.findings[:1]])
        return self.failure.happened if came else f"no {self.failure.noun}"

    def held(self, result: VerdictDocument) -> bool:
        """Return whether a run came to the verdict that the guarantee held."""
        return failed(result, self.failure.guarantee) is False

    def most_left(self, runs: int) -> int:
        """Return how many of so many runs of each variant may still come. Raises DamagedResults."""
        base = self._base_odds
        return sum(
            self._run(variant, number).result is None
            for variant in self.chosen
            if not self._given_up(variant, base, runs)
            for number in range(1, runs + 1)
        )

    def _given_up(self, variant: Variant, base: Odds, runs: int) -> bool:
        return variant.name != AS_IT_WAS and hopeless(
            base, self._odds(variant), runs, shared_doubt(len(self.looks))
        )

    @property
    def _base_odds(self) -> Odds:
        return self._odds(self.variants[0])

    def _odds(self, variant: Variant) -> Odds:
        return odds(variant.name, self._runs(variant), self.failure.guarantee)

    @property
    def answer(self) -> Answer:
        """Return the answer of all runs so far, also of changes that are not wanted now. Raises
        DamagedResults."""
        base, changed = self._base_odds, self.variants[1:]
        run = [one for one in changed if self._runs(one)]
        left = [self._without_runs(one) for one in changed if one not in run]
        return Answer(
            campaign=self.campaign,
            origin=self.origin,
            failure=self.failure,
            base=base,
            changes=compared(base, [self._odds(one) for one in run], shared_doubt(len(self.looks))),
            looks=self.looks,
            left=[*left, *self.left],
        )

    def _without_runs(self, variant: Variant) -> LeftOut:
        outputs = list(_place(variant, self.results).glob("run-*.output"))
        if not outputs:
            return LeftOut(name=variant.name, reason="not run yet")
        words = printable(last_words(max(outputs, key=lambda one: one.stat().st_mtime)))
        reason = f"no verdict in {several(len(outputs), 'run')}, at last: {words}"
        return LeftOut(name=variant.name, reason=reason)

    def _runs(self, variant: Variant) -> list[CachedRun]:
        paths = _place(variant, self.results).glob("run-*")
        numbers = (path.name.removeprefix("run-") for path in paths)
        return [
            self._run(variant, number)
            for number in sorted(map(int, filter(str.isdecimal, numbers)))
        ]

    def _run(self, variant: Variant, number: int) -> CachedRun:
        place = _place(variant, self.results)
        return CachedRun(
            file=place / _CAMPAIGN,
            system=variant.system,
            seed=self.seed,
            directory=place / f"run-{number}",
        )
