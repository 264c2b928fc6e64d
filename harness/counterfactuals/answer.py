"""The answer of the runs: which changes to a campaign make its failure less frequent."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ackproof.harness.counterfactuals.changes import LeftOut
from ackproof.harness.counterfactuals.failures import Failure
from ackproof.harness.counterfactuals.odds import Odds, runs_needed, settled, shared_doubt
from ackproof.harness.report import chance
from ackproof.history.messages import printable, several
from ackproof.history.storage import write_text

PAGE, DOCUMENT = "why.md", "why.json"
VERSION = 2
"""The version of the schema of :data:`DOCUMENT`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a question of ``ackproof why``.

    Attributes:
        campaign: The name of the campaign.
        origin: The origin of the campaign that was run, in words.
        failure: The failure that is examined.
        base: The odds of the campaign as it was.
        changes: Those of each change, the best first.
        left: The changes that were not tried.
        looks: The numbers of runs with which there was an answer by tests, with this one.
    """

    campaign: str
    origin: str
    failure: Failure
    base: Odds
    changes: Sequence[Odds]
    left: Sequence[LeftOut]
    looks: Sequence[int] = ()

    @property
    def conclusion(self) -> str:
        """Return what the runs show, in one or two sentences."""
        base, best = self.base, [one.name for one in self.changes if one.rank == 1]
        noun = self.failure.noun
        if not base.runs and not base.inconclusive:
            return "The campaign was not run as it was, so nothing is compared with it."
        if not base.runs:
            return "No run of the campaign as it was is conclusive, so nothing is compared with it."
        if not base.failed:
            return (
                f"The {noun} did not come back in {several(base.runs, 'run')} of the campaign as "
                "it was, so nothing is said about its cause."
            )
        if best:
            which = "this one reduces" if len(best) == 1 else "these reduce"
            order = "" if len(best) == 1 else " Their order is not shown: their intervals overlap."
            tested = f"Of the changes with enough runs for a test, {which} the {noun} most"
            return f"{tested}: {'; '.join(best)}.{order}"
        needed = self._runs_needed
        many = several(len(self.changes), "change")
        if base.runs < needed or any(
            not settled(base, one, needed, self._next_doubt) for one in self.changes
        ):
            return (
                f"No change is shown to prevent the {noun}. With {many}, fewer "
                f"than {needed} conclusive runs of each cannot show any difference beyond chance: "
                f"continue with --runs {needed}."
            )
        return f"No change is shown to prevent the {noun}."

    @property
    def as_document(self) -> dict[str, Any]:
        """Return the content of ``why.json``."""
        return {
            "version": VERSION,
            "campaign": self.campaign,
            "origin": self.origin,
            "cell": self.failure.cell,
            "guarantee": self.failure.guarantee,
            "conclusion": self.conclusion,
            "as_it_was": _entry(self.base),
            "changes": [_entry(one) for one in self.changes],
            "left_out": [asdict(one) for one in self.left],
            "runs_needed": self._runs_needed,
            "looks": list(self._tested_looks),
        }

    @property
    def _tested_looks(self) -> Sequence[int]:
        """Return the looks at which there were tests. Without tests, a look decides nothing."""
        return self.looks if any(one.chance is not None for one in self.changes) else ()

    @property
    def _next_doubt(self) -> float:
        return shared_doubt(len(self._tested_looks) + 1)

    @property
    def _runs_needed(self) -> int:
        """Return the number of runs of each variant with which any change could be shown to
        matter."""
        return runs_needed(len(self.changes), self._next_doubt)

    def page(self) -> str:
        """Return the page as Markdown."""
        happened = _text(self.failure.happened)
        rows = "".join(self._row(one) for one in (self.base, *self.changes))
        left = "".join(f"- {_text(one.name)}: {_text(one.reason)}\n" for one in self.left)
        not_tried = f"\n## Changes that were not tried\n\n{left}" if left else ""
        return (
            f"# Why {happened} in {_text(self.failure.cell)} of {_text(self.campaign)}\n\n"
            f"{_text(self.conclusion)}\n\n"
            f"| rank | change | {happened} in | against as it was | "
            f"99 % of acks within, faults included | "
            f"inconclusive |\n| --- | --- | --- | --- | --- | --- |\n{rows}\n"
            f"{_text(self.origin)} *k of n*: in k of n runs, {happened}; {_MEANINGS}"
            f"{self._said_of_looks}\n{not_tried}"
        )

    @property
    def _said_of_looks(self) -> str:
        if len(self.looks) < 2:
            return ""
        numbers = ", then ".join(map(str, self.looks))
        return (
            f" Runs were added after an answer ({numbers} of each), which gives chance another "
            f"try: the tests are {len(self.looks)} times as strict."
        )

    def _row(self, one: Odds) -> str:
        cells = (
            "" if one.rank is None else str(one.rank),
            _text(one.name),
            in_words(one),
            "" if one is self.base else _against(one),
            self.latency(one),
            str(one.inconclusive),
        )
        return f"| {' | '.join(cells)} |\n"

    def latency(self, one: Odds) -> str:
        """Return the time of acks in words, and how it differs from that of the base."""
        if one.p99_ms is None:
            return "unknown"
        told = f"{one.p99_ms / 1000:.1f} s" if one.p99_ms >= 1000 else f"{one.p99_ms:.3g} ms"
        if one is self.base or not self.base.p99_ms:
            return told
        return f"{told} ({100 * (one.p99_ms - self.base.p99_ms) / self.base.p99_ms:+.0f} %)"


_MEANINGS = """\
in brackets the 95 % interval of that probability (Clopper and Pearson). A run without that counts \
if each fault was proven and the evidence suffices, and else is *inconclusive*. A test compares \
each change with the campaign as it was (permutation test; p is that of the test alone). A change \
has a rank if it is shown to help, with all tests together (Tarone, Holm); changes share a rank if \
their intervals overlap. A change is given up when further runs could no longer show that it \
helps. The times of acks are medians of the runs, without a test. New clusters of Kafka 4.1 and \
later have eligible leader replicas."""


def all_looks(results: Path, failure: Failure, runs: int) -> Sequence[int]:
    """Return the numbers of runs with which there was an answer about this failure by tests, and
    with which there will be one now: with ``runs``, unless they are no more than before."""
    before: list[int] = []
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        kept = json.loads((results / DOCUMENT).read_bytes())
        if (kept["cell"], kept["guarantee"]) == (failure.cell, failure.guarantee):
            before = [int(number) for number in kept["looks"]]
    return [*before, runs] if runs > max(before, default=0) else before


def in_words(one: Odds) -> str:
    """Return the odds in words: ``0 of 10 (0 to 31 %)``."""
    if not one.runs:
        return "no conclusive run"
    return f"{one.failed} of {one.runs} ({chance.interval(one.failed, one.runs)})"


def _against(one: Odds) -> str:
    if one.chance is None:
        return "too few runs for a test"
    word = "fewer" if one.rank is not None else "more" if one.differs else "not shown to differ"
    return f"{word}, p = {one.chance:.2g}"


def _entry(one: Odds) -> dict[str, Any]:
    low, high = one.interval or (None, None)
    return {**asdict(one), "low": low, "high": high}


def _text(words: str) -> str:
    """Return a text that does not end its cell of a table and is no markup."""
    return re.sub(r"([|<>&*_`\[\]\\])", r"\\\1", printable(words))


def write(answer: Answer, results: Path) -> Path:
    """Write the page and the document into the directory of the results, and return the path of
    the page. Raises OSError."""
    write_text(results / DOCUMENT, json.dumps(answer.as_document, indent=2) + "\n")
    write_text(results / PAGE, answer.page())
    return results / PAGE
