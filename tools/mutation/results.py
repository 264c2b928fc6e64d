"""Results: the finding of a detector for one broker, in one small file each.

A file is written when the result is known, so that an interrupted session continues with the
missing ones.
"""

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ackproof.history.storage import write_text

SOUND = "sound"
"""The name of the broker without a mutation. A fault that is also found there does not count."""


class Method(StrEnum):
    """The way in which a broker is examined."""

    SIMULATOR = "simulator"
    CONFORMANCE = "conformance"
    PROPERTIES = "properties"
    PARTS = "parts"
    CAMPAIGN = "campaign"


class Outcome(StrEnum):
    """The way in which an examination ended."""

    FOUND = "found"
    NOT_FOUND = "not found"
    """Everything that was examined held."""
    INCONCLUSIVE = "inconclusive"
    """The search stopped early, or a campaign had too little evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of one examination.

    Attributes:
        by: The rule or guarantee that was broken, or the test that failed. Empty unless found.
        where: The place, for example ``seed 7`` or ``quick, seed 1: acks-all.minisr-2``.
        examined: How much was examined, in words.
        steps: How many steps the simulator took.
        why: What exactly is broken, or why the result is inconclusive.
        seconds: The time to this result: of a campaign by the clock, else processor time.
    """

    outcome: Outcome
    by: str = ""
    where: str = ""
    examined: str = ""
    steps: int = 0
    why: str = ""
    seconds: float | None = None

    @property
    def in_seconds(self) -> str:
        """Return the time as ``12 s``, or an empty text if it is unknown."""
        return "" if self.seconds is None else f"{self.seconds:.0f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One broker, examined by one method.

    Attributes:
        mutant: The mutant's name, or ``SOUND``.
        sources: The digest of the sources, the mutant's patch included.
        settings: The settings of the detector in words.
    """

    mutant: str
    method: Method
    finding: Finding
    sources: str
    settings: str


_RESULT = TypeAdapter(Result)


class Store:
    """The results below ``directory``, as ``<method>/<mutant>.json``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, mutant: str, method: Method) -> Result | None:
        """Return the stored result, or None if there is none or its file cannot be read."""
        with contextlib.suppress(FileNotFoundError, ValidationError):
            return _RESULT.validate_json(self._file(mutant, method).read_bytes())
        return None

    def put(self, result: Result) -> None:
        """Store a result and replace a former one. A reader never sees half of a file."""
        file = self._file(result.mutant, result.method)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, _RESULT.dump_json(result, indent=2).decode() + "\n")

    def _file(self, mutant: str, method: Method) -> Path:
        return self._directory / method.value / f"{mutant}.json"
