"""The stories, as they are written down."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, field_validator

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.config import documents
from ackproof.config.documents import DocumentRefused
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign.model.values import Section
from ackproof.harness.directory import NotResults
from ackproof.history.messages import in_words
from ackproof.infra.systems import parse
from ackproof.infra.systems.product import MetadataQuorum


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
