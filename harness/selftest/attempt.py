"""What became of one broken broker in one way of looking: a small file each, written when it is
known and not before. Whoever was interrupted goes on with those that are not there yet.
"""

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ackproof.history.aside import write_text

SOUND = "sound"
"""In place of a bug's name: the broker as it is. What is found there, too, was not found."""


class Way(StrEnum):
    """Of looking."""

    SIMULATOR = "simulator"
    CAMPAIGN = "campaign"


class Outcome(StrEnum):
    """Of an attempt."""

    FOUND = "found"
    NOT_FOUND = "not found"
    """Everything that was looked at held."""
    INCONCLUSIVE = "inconclusive"
    """Nothing can be said: a search that broke off, a campaign without enough evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came of looking.

    Attributes:
        by: What was broken: an invariant, or a guarantee. Empty unless found.
        where: Where that was seen: ``seed 7``; ``quick, seed 1: acks-all.minisr-2, isolate#2``.
        looked: How much was looked at.
        why: More words: what exactly is broken, or why nothing can be said.
        seconds: How long it took: of a search the processor's, whatever else was running.
    """

    outcome: Outcome
    by: str = ""
    where: str = ""
    looked: str = ""
    why: str = ""
    seconds: float | None = None

    @property
    def in_seconds(self) -> str:
        """``12 s``; empty where nobody knows."""
        return "" if self.seconds is None else f"{self.seconds:.0f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One broker, one way.

    Attributes:
        bug: Its name, or ``SOUND``.
        sources: What the sources that it follows from, the bug's patch included, are known by. An
            attempt of others says nothing certain of these.
        settings: How it was looked: ``60 s``.
    """

    bug: str
    way: Way
    finding: Finding
    sources: str
    settings: str


_ATTEMPT = TypeAdapter(Attempt)


class Attempts:
    """Those kept below ``directory``, ``<way>/<bug>.json``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, bug: str, way: Way) -> Attempt | None:
        """What is known; None where nothing is, or what is there cannot be read."""
        with contextlib.suppress(FileNotFoundError, ValidationError):
            return _ATTEMPT.validate_json(self._file(bug, way).read_bytes())
        return None

    def put(self, attempt: Attempt) -> None:
        """Keep it, in place of one that is there; a reader never sees half of it."""
        file = self._file(attempt.bug, attempt.way)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, _ATTEMPT.dump_json(attempt, indent=2).decode() + "\n")

    def _file(self, bug: str, way: Way) -> Path:
        return self._directory / way.value / f"{bug}.json"
