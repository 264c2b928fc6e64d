"""The stories of known losses, their runs, and how often each loss was seen."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, field_validator

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.verdict import Verdict
from ackproof.config import documents
from ackproof.config.documents import DocumentRefused
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.model.values import Section
from ackproof.harness.directory import NotResults
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.subprocesses import Once
from ackproof.history.messages import in_words
from ackproof.infra.systems import parse
from ackproof.infra.systems.product import MetadataQuorum

# --- stories --------------------------------------------------------------------------------------


def _known(shows: tuple[str, ...]) -> tuple[str, ...]:
    for name in shows:
        if name not in CATALOGUE:
            raise ValueError(unknown("anomaly", name, CATALOGUE))
    return shows


Anomalies = Annotated[tuple[str, ...], AfterValidator(_known)]


class Side(Section):
    """A system on which a story is run."""

    system: str
    metadata_quorum: MetadataQuorum | None = Field(
        default=None, description="who keeps its metadata, if not whoever does by default"
    )
    campaign: str | None = Field(default=None, description="another file than the story's")
    called: str | None = Field(default=None, description="its name on the page")
    shows: Anomalies = Field(
        default=(),
        description="the anomalies that tell of it there, where others of the story's may come of "
        "something else",
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


class Story(Section):
    """A loss that somebody has told."""

    tells: str = Field(description="what is lost, and how")
    sources: Annotated[Mapping[str, str], Field(min_length=1)] = Field(
        description="who tells it: tickets and their addresses"
    )
    campaign: str = Field(description="the file that shows it, beside the stories")
    shows: Annotated[Anomalies, Field(min_length=1)] = Field(
        description="the anomalies by which it shows"
    )
    has: tuple[Side, ...] = Field(description="who has it")
    mended: tuple[Side, ...] = Field(default=(), description="who has it no more")
    tried: str = Field(default="", description="what else there is to say")

    @property
    def sides(self) -> Iterator[Side]:
        """All of them: those that have it, then those that have mended it."""
        yield from self.has
        yield from self.mended

    def file(self, side: Side) -> str:
        """The campaign's, for this side."""
        return side.campaign or self.campaign

    def shown(self, side: Side) -> tuple[str, ...]:
        """The anomalies by which it shows on this side."""
        return side.shows or self.shows


def read(file: Path) -> Mapping[str, Story]:
    """All stories of a file, by name, in its order. Raises NotResults saying what is wrong with
    it."""
    try:
        content = documents.read(file).content
        # By way of JSON, as campaign files are: strict, and with lists for tuples.
        return TypeAdapter(dict[str, Story]).validate_json(json.dumps(content))
    except DocumentRefused as error:
        raise NotResults(f"{file}: no stories: {error}") from None
    except ValidationError as error:
        raise NotResults(f"{file}: no stories: {in_words(error)}") from None


# --- counts ---------------------------------------------------------------------------------------


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


# --- runs -----------------------------------------------------------------------------------------

_DIGEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Attributes:
    stories: By name.
    campaigns: The directory that their files are in.
    results: The directory below which each run has its own.
    """

    stories: Mapping[str, Story]
    campaigns: Path
    results: Path

    def of(self, name: str, side: Side) -> Path:
        """Where the runs of a story on a side are. Of a campaign that was changed since there are
        none: another one tells of nothing here. Raises OSError."""
        file = self.campaigns / self.stories[name].file(side)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:_DIGEST]
        return self.results / f"{name}-{digest}" / re.sub(r"[^A-Za-z0-9.]+", "-", side.name)

    def planned(self, names: Sequence[str], seeds: int) -> Iterator[tuple[str, Side, Once]]:
        """Each story on each of its sides with the seeds 1 to ``seeds``; first all with the first
        seed, so that there is something to see of all of them soon. Raises OSError."""
        for seed in range(1, seeds + 1):
            for name in names:
                story = self.stories[name]
                for side in story.sides:
                    place = self.of(name, side) / f"seed-{seed}"
                    yield name, side, self._once(story, side, seed, place)

    def check(self, names: Sequence[str]) -> None:
        """Raises CampaignRefused where a side would refuse its campaign, before anything runs."""
        for name in names:
            story = self.stories[name]
            for side in story.sides:
                validation.check(
                    self.campaigns / story.file(side),
                    meant=True,
                    system=side.system,
                    metadata_quorum=side.metadata_quorum,
                )

    def tally(self, name: str, side: Side) -> Tally:
        """What came of all runs that there are. Raises OSError, DamagedResults."""
        story = self.stories[name]
        found = [
            self._once(story, side, int(path.name[5:]), path)
            for path in sorted(self.of(name, side).glob("seed-*"))
            if path.name[5:].isdecimal()
        ]
        return tally(sorted(found, key=lambda one: one.seed), story.shown(side))

    def _once(self, story: Story, side: Side, seed: int, place: Path) -> Once:
        return Once(
            file=self.campaigns / story.file(side),
            system=side.system,
            metadata_quorum=side.metadata_quorum,
            seed=seed,
            directory=place,
        )
