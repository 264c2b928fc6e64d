"""The circumstances of a campaign's run: the times, the environment and the command, as its results
record them.

Times are those of the recorded steps, so that a history that is checked later keeps its date. Facts
that were not recorded, or can no longer be read, are unknown. They do not affect the verdict.
"""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from ackproof.config.documents import DocumentRefused
from ackproof.harness import environment
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.directory import CAMPAIGN_FILE
from ackproof.harness.environment import Environment
from ackproof.harness.report.timeline import NS_PER_S, FaultSpan
from ackproof.history import reader
from ackproof.history.errors import HistoryError
from ackproof.history.storage import AnyPath


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The circumstances of a campaign's run.

    Attributes:
        environment: The versions and the machine.
        spans: The first and last moment of each run that has any, by its number, in nanoseconds of
            the Unix epoch.
        faults: The faults of each run, by its number.
        command: The command that repeats the campaign; None if it is unknown.
    """

    environment: Environment = field(default_factory=Environment)
    spans: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    faults: Mapping[int, Sequence[FaultSpan]] = field(default_factory=dict)
    command: str | None = None

    @property
    def began(self) -> int | None:
        """Return the beginning of the first run in nanoseconds of the Unix epoch, or None without a
        run."""
        return min((start for start, _ in self.spans.values()), default=None)

    @property
    def duration_s(self) -> float | None:
        """Return the time from then to the end of the last run, in seconds."""
        ended = max((end for _, end in self.spans.values()), default=None)
        return None if ended is None or self.began is None else seconds(self.began, ended)

    def run_s(self, number: int) -> float | None:
        """Return the duration of a run in seconds."""
        span = self.spans.get(number)
        return None if span is None else seconds(*span)


def read(directory: AnyPath, faults: Mapping[int, Sequence[FaultSpan]]) -> About:
    """Return the circumstances that a campaign's results record. ``faults`` are those of each
    run."""
    spans = {number: _span(directory / "runs" / str(number) / "history") for number in faults}
    return About(
        environment=environment.read(directory),
        spans={number: span for number, span in spans.items() if span is not None},
        faults=faults,
        command=_command(directory),
    )


def seconds(start: int, end: int) -> float:
    """Return the time between two times in nanoseconds, in seconds to one decimal."""
    return round((end - start) / NS_PER_S, 1)


def moment(nanoseconds: int) -> str:
    """Return a time of the Unix epoch as text, such as ``2031-05-17T02:17:00.000Z``."""
    told = datetime.fromtimestamp(nanoseconds // 1_000_000 / 1000, UTC)
    return f"{told:%Y-%m-%dT%H:%M:%S}.{told.microsecond // 1000:03d}Z"


def _span(history: AnyPath) -> tuple[int, int] | None:
    try:
        times: Sequence[Any] = reader.read(history, "phases", ["time"])["time"].to_pylist()
    except (HistoryError, OSError, pa.ArrowException):
        return None
    return (min(times), max(times)) if times else None


def _command(directory: AnyPath) -> str | None:
    """Return the command that repeats a campaign. It has the absolute path of the file, so that it
    is the same wherever the results are checked from. A campaign in a store cannot be run there."""
    if not isinstance(directory, Path):
        return None
    file = directory.absolute() / CAMPAIGN_FILE
    read = _read_back(file)
    if read is None:
        return None
    campaign, options = read
    seed = [] if campaign.seed is None else ["--seed", str(campaign.seed)]
    return shlex.join(["ackproof", "run", str(file), *seed, *options])


def _read_back(file: Path) -> tuple[Campaign, Sequence[str]] | None:
    """Return the campaign and the options without which it would be refused: a very large campaign
    needs a confirmation again. Return None if it can no longer be run."""
    with suppress(DocumentRefused, OSError):
        return validation.check(file).campaign, ()
    with suppress(DocumentRefused, OSError):
        return validation.check(file, meant=True).campaign, ("--yes",)
    return None
