"""Losses that released versions of Apache Kafka are known for, and whether the harness finds them.

A story (``campaigns/known-losses/stories.yaml``) is a reported loss: the releases that have it, the
releases that have fixed it, and the campaign that shows it. It is run several times on each of
them, and a page is made of the results (``docs/known-losses.md``). The page has only results of
runs. A missing run is ``not run``, and an inconclusive one is counted as such.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, field_validator

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.context.final_reads import LISTED
from ackproof.checkers.context.pace import WAITED
from ackproof.checkers.verdict import Verdict
from ackproof.config import documents
from ackproof.config.documents import DocumentRefused
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.model.values import Section
from ackproof.harness.counterfactuals.answer import DOCUMENT
from ackproof.harness.counterfactuals.changes import WITHOUT, short
from ackproof.harness.counterfactuals.odds import Odds, settled
from ackproof.harness.directory import ResultsDirectoryError
from ackproof.harness.report.chance import interval
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.subprocesses import CachedRun
from ackproof.history.messages import in_words, several
from ackproof.infra.systems import parse
from ackproof.infra.systems.product import BUNDLED, MetadataQuorum

# --- stories --------------------------------------------------------------------------------------


def _known(shows: tuple[str, ...]) -> tuple[str, ...]:
    for name in shows:
        if name not in CATALOGUE:
            raise ValueError(unknown("anomaly", name, CATALOGUE))
    return shows


Anomalies = Annotated[tuple[str, ...], AfterValidator(_known)]


class LossSystem(Section):
    """A system on which a story is run."""

    system: str
    metadata_quorum: MetadataQuorum | None = Field(
        default=None, description="where its metadata is kept, if not in the default place"
    )
    campaign: str | None = Field(default=None, description="another file than the story's")
    called: str | None = Field(default=None, description="its name on the page")
    shows: Anomalies = Field(
        default=(),
        description="the anomalies that show it there, if other anomalies of the story may have "
        "another cause",
    )
    remedies: tuple[str, ...] = Field(
        default=(), description="the changes that are known to prevent it there, if not the story's"
    )

    @field_validator("system")
    @classmethod
    def _there_is_one(cls, system: str) -> str:
        return parse(system).text

    @property
    def name(self) -> str:
        if self.called is not None:
            return self.called
        return ", ".join(filter(None, (self.system, self.metadata_quorum)))


class ReportedLoss(Section):
    """A loss that was reported."""

    title: str = Field(description="what goes wrong, in a few words")
    tells: str = Field(description="what is lost, and how")
    sources: Annotated[Mapping[str, str], Field(min_length=1)] = Field(
        description="the sources: tickets and their addresses, the best known first"
    )
    campaign: str = Field(description="the file that shows it, beside the stories")
    shows: Annotated[Anomalies, Field(min_length=1)] = Field(
        description="the anomalies by which it shows"
    )
    has: tuple[LossSystem, ...] = Field(description="the releases that have it")
    mended: tuple[LossSystem, ...] = Field(
        default=(), description="the releases that no longer have it"
    )
    remedies: tuple[str, ...] = Field(
        default=(),
        description="the changes of `ackproof why` that are known to prevent it, each up to its "
        "first comma",
    )
    tried: str = Field(default="", description="what else there is to say")

    @property
    def sides(self) -> Iterator[LossSystem]:
        """Yield all systems: those with the loss, then those that have fixed it."""
        yield from self.has
        yield from self.mended

    def file(self, side: LossSystem) -> str:
        """Return the campaign file for this side."""
        return side.campaign or self.campaign

    def shown(self, side: LossSystem) -> tuple[str, ...]:
        """Return the anomalies by which the loss shows on this side."""
        return side.shows or self.shows

    def is_remedy(self, side: LossSystem, change: Odds) -> bool:
        """Return whether a change is known to prevent the loss on this side."""
        return short(change.name) in (side.remedies or self.remedies)


def read(file: Path) -> Mapping[str, ReportedLoss]:
    """Return all stories of a file, by name, in its order. Raises ResultsDirectoryError with the
    problem of an invalid file."""
    try:
        content = documents.read(file).content
        # The stories are validated as JSON, as campaign files are: strictly, and with lists for
        # tuples.
        return TypeAdapter(dict[str, ReportedLoss]).validate_json(json.dumps(content))
    except DocumentRefused as error:
        raise ResultsDirectoryError(f"{file}: no stories: {error}") from None
    except ValidationError as error:
        raise ResultsDirectoryError(f"{file}: no stories: {in_words(error)}") from None


# --- findings and counts --------------------------------------------------------------------------
#
# The findings of all runs are kept beside the page.


class LossOutcome(StrEnum):
    """The result of a run for its story."""

    SEEN = "seen"
    """The run showed the loss."""
    NOT_SEEN = "not seen"
    """The run would have shown it."""
    INCONCLUSIVE = "inconclusive"
    """A fault had no effect, or a cell had too little evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossFinding:
    """The finding of a run.

    Attributes:
        records: The number of records with the story's anomalies; None if it is not known.
        version: The version and the commit of Ackproof, empty if they are not known.
    """

    seed: int
    outcome: LossOutcome
    records: int | None = None
    version: str = ""


Findings = Mapping[str, Sequence[LossFinding]]
"""The findings of all runs, by the place of their story and side (:meth:`LossRuns.place`)."""
FINDINGS = TypeAdapter(dict[str, list[LossFinding]])
"""Their file beside the page (:func:`harness.subprocesses.read_findings`)."""


def finding(run: CachedRun, shows: Collection[str]) -> LossFinding | None:
    """Return the finding of a run, or None if it did not run to its end. ``shows`` are the
    anomalies. Raises DamagedResults."""
    if (result := run.result) is None:
        return None
    return LossFinding(
        seed=run.seed,
        outcome=outcome(result, shows),
        records=_records(result, shows),
        version=result.versions.build,
    )


def outcome(result: VerdictDocument, shows: Collection[str]) -> LossOutcome:
    """Return what a run says of a loss that shows by these anomalies."""
    if _records(result, shows):
        return LossOutcome.SEEN
    conclusive = is_conclusive(result, shows)
    return LossOutcome.NOT_SEEN if conclusive else LossOutcome.INCONCLUSIVE


def held(result: VerdictDocument, shows: Collection[str]) -> bool:
    """Return whether a run is conclusive and does not show the loss."""
    return outcome(result, shows) is LossOutcome.NOT_SEEN


def _records(result: VerdictDocument, shows: Collection[str]) -> int:
    return sum(result.anomalies.get(name) or 0 for name in shows)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCounts:
    """The counted runs of a story on a side.

    Attributes:
        runs: The number of conclusive runs.
        seen: The number of those that showed the loss.
        inconclusive: The number of the others.
        first: The first run that showed it.
    """

    runs: int = 0
    seen: int = 0
    inconclusive: int = 0
    first: LossFinding | None = None


def counted(findings: Iterable[LossFinding]) -> LossCounts:
    """Return the counts of findings."""
    in_order = sorted(findings, key=lambda one: one.seed)
    seen = [one for one in in_order if one.outcome is LossOutcome.SEEN]
    inconclusive = sum(one.outcome is LossOutcome.INCONCLUSIVE for one in in_order)
    return LossCounts(
        runs=len(in_order) - inconclusive,
        seen=len(seen),
        inconclusive=inconclusive,
        first=seen[0] if seen else None,
    )


def is_conclusive(result: VerdictDocument, shows: Collection[str]) -> bool:
    """Return whether a run without the loss is conclusive: whether it would have shown the loss.

    A story of which a part is missing is a different one. The run may have failed for another
    reason and not be checked for the rest, for example if it was interrupted because a server had
    died. Servers that waited for a processor, or a log that ends beyond the listed offset, hide no
    part.
    """
    if all(result.anomalies.get(name, 0) is None for name in shows):
        return False
    missing = [one for one in result.findings if WAITED not in one and LISTED not in one]
    broken_down = any(run.infrastructure_failed for run in result.runs) or missing
    return bool(result.runs) and not broken_down and result.verdict is not Verdict.INCONCLUSIVE


# --- answers --------------------------------------------------------------------------------------
#
# What would have prevented a loss, as `ackproof why` found it for a run of its story.


@dataclass(frozen=True, slots=True, kw_only=True)
class LossAnswer:
    """The changes that were tried on the campaign of a run.

    Attributes:
        seed: The seed of the run.
        guarantee: The guarantee that did not hold.
        as_it_was: The odds without a change.
        changes: Those with each change, the best first.
    """

    seed: int
    guarantee: str
    as_it_was: Odds
    changes: list[Odds]


Answers = Mapping[str, Sequence[LossAnswer]]
"""All answers, by place as :data:`Findings`."""
ANSWERS = TypeAdapter(dict[str, list[LossAnswer]])
"""Their file beside the page (:func:`harness.subprocesses.read_findings`)."""
ANSWERS_SUFFIX = "-why.json"
"""The end of the name of that file, in place of the page's ``.md``."""
_ANSWER = TypeAdapter(LossAnswer)


def answer(run: CachedRun, shows: Collection[str]) -> LossAnswer | None:
    """Return the answer for a run, or None if there is none, or it is about a guarantee that none
    of the anomalies ``shows`` violates. Raises ResultsDirectoryError."""
    file = run.directory / DOCUMENT
    try:
        content = {**json.loads(file.read_bytes()), "seed": run.seed}
        found = _ANSWER.validate_python(content)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ResultsDirectoryError(f"{file}: no answer of ackproof why: {error}") from None
    return found if found.guarantee in {CATALOGUE[name].breaks for name in shows} else None


# --- runs -----------------------------------------------------------------------------------------

_DIGEST = 8

T = TypeVar("T", LossFinding, LossAnswer)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRuns:
    """The runs of stories.

    Attributes:
        stories: The stories by name.
        campaigns: The directory of their campaign files.
        results: The directory below which each run has its own.
        before: The findings of other runs.
        answered: The answers for other runs.
    """

    stories: Mapping[str, ReportedLoss]
    campaigns: Path
    results: Path
    before: Findings = field(default_factory=dict)
    answered: Answers = field(default_factory=dict)

    def place(self, name: str, side: LossSystem) -> str:
        """Return the place of the runs of a story on a side. A changed campaign has another one,
        because the runs of the former one say nothing about it; comments count for nothing.

        Raises DocumentRefused, OSError.
        """
        content = documents.read(self.campaigns / self.stories[name].file(side)).content
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return f"{name}-{digest[:_DIGEST]}/{re.sub(r'[^A-Za-z0-9.]+', '-', side.name)}"

    def of(self, name: str, side: LossSystem) -> Path:
        """Return the directory of the runs of a story on a side. Raises the errors of
        :meth:`place`."""
        return self.results / self.place(name, side)

    def planned(
        self, names: Sequence[str], seeds: int
    ) -> Iterator[tuple[str, LossSystem, CachedRun]]:
        """Yield each story on each of its sides with the seeds 1 to ``seeds``, except those that
        have findings. All stories come with the first seed first, so that each soon has a result.
        Raises the errors of :meth:`findings`."""
        pairs = [(name, side) for name in names for side in self.stories[name].sides]
        done = [{one.seed for one in self.findings(*pair)} for pair in pairs]
        for seed in range(1, seeds + 1):
            for (name, side), seeds_done in zip(pairs, done, strict=True):
                if seed not in seeds_done:
                    place = self.of(name, side) / f"seed-{seed}"
                    yield name, side, self._once(self.stories[name], side, seed, place)

    def check(self, names: Sequence[str]) -> None:
        """Raise CampaignRefused if a side would refuse its campaign, before anything runs."""
        for name in names:
            story = self.stories[name]
            for side in story.sides:
                validation.check(
                    self.campaigns / story.file(side),
                    meant=True,
                    system=side.system,
                    metadata_quorum=side.metadata_quorum,
                )

    def findings(self, name: str, side: LossSystem) -> Sequence[LossFinding]:
        """Return the findings of all existing runs. Raises the errors of :meth:`place`, and
        DamagedResults."""
        return self._by_seed(name, side, self.before, finding)

    def answers(self, name: str, side: LossSystem) -> Sequence[LossAnswer]:
        """Return the answers for all existing runs. Raises the errors of :meth:`findings`."""
        return self._by_seed(name, side, self.answered, answer)

    def _by_seed(
        self,
        name: str,
        side: LossSystem,
        kept: Mapping[str, Sequence[T]],
        of_run: Callable[[CachedRun, Collection[str]], T | None],
    ) -> Sequence[T]:
        """Return what was kept of a story on a side, and what is read from its existing runs, which
        replaces it, by seed."""
        story, place = self.stories[name], self.place(name, side)
        found = {one.seed: one for one in kept.get(place, ())}
        for path in (self.results / place).glob("seed-*"):
            if path.name[5:].isdecimal():
                run = self._once(story, side, int(path.name[5:]), path)
                if (own := of_run(run, story.shown(side))) is not None:
                    found[own.seed] = own
        return sorted(found.values(), key=lambda one: one.seed)

    @property
    def all_findings(self) -> Findings:
        """The findings of all existing runs. Those of former campaigns are no longer among them."""
        return self._all(self.findings)

    @property
    def all_answers(self) -> Answers:
        """The answers for all existing runs, as :attr:`all_findings`."""
        return self._all(self.answers)

    def _all(self, of: Callable[[str, LossSystem], Sequence[T]]) -> Mapping[str, Sequence[T]]:
        found = {
            self.place(name, side): of(name, side)
            for name, story in self.stories.items()
            for side in story.sides
        }
        return {place: some for place, some in found.items() if some}

    def tally(self, name: str, side: LossSystem) -> LossCounts:
        """Return the counts of all existing runs. Raises the errors of :meth:`findings`."""
        return counted(self.findings(name, side))

    def _once(self, story: ReportedLoss, side: LossSystem, seed: int, place: Path) -> CachedRun:
        return CachedRun(
            file=self.campaigns / story.file(side),
            system=side.system,
            metadata_quorum=side.metadata_quorum,
            seed=seed,
            directory=place,
        )


# --- the page -------------------------------------------------------------------------------------

NOT_RUN = "not run"

_INTRODUCTION = """\
# Known losses

Losses that released versions of Apache Kafka or its clients are known for, and the campaigns in \
`campaigns/known-losses/` that show them. `make known-losses` runs them, and writes this page and \
the finding of each run (`known-losses.json`). *k of n*: k of n runs, \
each with its own seed, showed the loss; in brackets the 95 % interval of that probability \
(Clopper and Pearson), and the first of these runs with the number of affected records. A run \
without effect or with too little evidence is *inconclusive* and not counted.

The sections say what prevents a loss where `ackproof why` was asked about a run of it: one change \
at a time, four to twelve runs each, and fewer where more could no longer show that it helps \
([how](schedules.md#counterfactuals); `known-losses-why.json`). *2 of 2* behind a change: the \
failure came in 2 of 2 runs with it. *The known remedy* is the setting, \
or a release with the correction, that the sources name.
"""
_HEADINGS = """\
| loss | source | found in | not found in | anomaly | campaign |
| --- | --- | --- | --- | --- | --- |
"""

Tallies = Callable[[str, LossSystem], LossCounts]


def page(runs: LossRuns) -> str:
    """Return the page. Raises the errors of :meth:`LossRuns.findings`."""
    rows = "".join(_row(name, story, runs.tally) for name, story in runs.stories.items())
    parts = [_INTRODUCTION, f"{_HEADINGS}{rows}"]
    for name in runs.stories:
        parts.append("\n".join(_section(name, runs)))
    return "\n".join(parts)


def _row(name: str, story: ReportedLoss, tallies: Tallies) -> str:
    cells = [
        f"[{name}](#{name})",
        ", ".join(f"[{ticket}]({address})" for ticket, address in story.sources.items()),
        _sides(story.has, lambda side: tallies(name, side)),
        _sides(story.mended, lambda side: tallies(name, side)),
        ", ".join(f"`{name}`" for name in story.shows),
        ", ".join(f"`{file}`" for file in dict.fromkeys(map(story.file, story.sides))),
    ]
    return f"| {' | '.join(cells)} |\n"


def overview(stories: Mapping[str, ReportedLoss], tallies: Tallies) -> str:
    """Return the short table of the README: what releases lose, without the bundled broker.

    Args:
        stories: The losses by name.
        tallies: Returns the counted runs of a loss on a side.
    """
    lines = ["| fault | found in | not found in |", "| --- | --- | --- |"]
    for name, story in stories.items():
        found, not_found = (
            "<br>".join(
                f"{side.name.replace('kafka:', '')} ({_share(tallies(name, side))})"
                for side in sides
                if side.system != BUNDLED
            )
            for sides in (story.has, story.mended)
        )
        ticket = f"[{next(iter(story.sources))}](docs/known-losses.md#{name})"
        fixed = not_found or "no release is fixed"
        lines.append(f"| {ticket}: {story.title} | {found} | {fixed} |")
    return "\n".join(lines) + "\n"


def _share(found: LossCounts) -> str:
    if not found.runs:
        return words(found)
    unsure = f", {found.inconclusive} inconclusive" if found.inconclusive else ""
    return f"{found.seen} of {found.runs}{unsure}"


def _sides(sides: Sequence[LossSystem], tallies: Callable[[LossSystem], LossCounts]) -> str:
    return "<br>".join(f"{side.name}: {_counts(tallies(side))}" for side in sides) or "none"


def _counts(found: LossCounts) -> str:
    notes = []
    if found.runs:
        notes.append(interval(found.seen, found.runs))
    if found.first is not None:
        records = found.first.records
        number = "unknown records" if records is None else several(records, "record")
        notes.append(f"seed {found.first.seed}: {number}")
    return f"{words(found)} ({'; '.join(notes)})" if notes else words(found)


def words(found: LossCounts) -> str:
    """Return the counted runs of a side in words: ``**seen in 3 of 5**``, ``not seen in 5``,
    ``not run``."""
    parts = []
    if found.seen:
        parts.append(f"**seen in {found.seen} of {found.runs}**")
    elif found.runs:
        parts.append(f"not seen in {found.runs}")
    if found.inconclusive:
        parts.append(f"{found.inconclusive} inconclusive")
    return ", ".join(parts) or NOT_RUN


def _section(name: str, runs: LossRuns) -> Iterator[str]:
    story = runs.stories[name]
    yield f"## {name}\n"
    yield f"{story.tells.strip()}\n"
    if story.tried:
        yield f"{story.tried.strip()}\n"
    told = [_prevented(story, side, one) for side in story.has for one in runs.answers(name, side)]
    yield from told or ["What prevents it was not measured.\n"]


def _prevented(story: ReportedLoss, side: LossSystem, found: LossAnswer) -> str:
    """Return what prevents a loss, in words. Faults left out are not named here: they say what the
    loss needs, and not what a user can do."""

    def listed(odds: Iterable[Odds]) -> str:
        return "; ".join(
            f"{one.name} ({one.failed} of {one.runs}"
            f"{', the known remedy' if story.is_remedy(side, one) else ''})"
            for one in odds
        )

    base = found.as_it_was
    tried = [one for one in found.changes if one.runs and not one.name.startswith(WITHOUT)]
    best = [one for one in tried if one.rank is not None]
    others = [
        one
        for one in tried
        if one.rank is None and one.chance is not None and settled(base, one, base.runs)
    ]
    few = [one for one in tried if one not in best and one not in others]
    parts = [
        f"*What prevents it* ({side.name}, seed {found.seed}): the failure came in "
        f"{base.failed} of {base.runs} runs as it was.",
        *([f"It came less often with {listed(best)}."] if best else []),
        *([f"No help is shown of {listed(others)}."] if others else []),
        *([f"Too few runs yet with {listed(few)}."] if few else []),
    ]
    return f"{' '.join(parts)}\n"
