"""When, where and how a campaign was run: what its results tell of themselves beside the verdict.

Times are those of the recorded steps, so that a history that is checked later keeps its date. What
nobody recorded, or cannot be read any more, is unknown: the verdict is told whatever is missing.
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
    """Attributes:
    spans: First and last moment of each run that has any, by its number; nanoseconds of the Unix
        epoch.
    faults: Those of each run, by its number.
    command: What repeats the campaign; None where that is not known.
    """

    environment: Environment = field(default_factory=Environment)
    spans: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    faults: Mapping[int, Sequence[FaultSpan]] = field(default_factory=dict)
    command: str | None = None

    @property
    def began(self) -> int | None:
        """When the first run did, nanoseconds of the Unix epoch; None where there was none."""
        return min((start for start, _ in self.spans.values()), default=None)

    @property
    def duration_s(self) -> float | None:
        """From then to the end of the last run."""
        ended = max((end for _, end in self.spans.values()), default=None)
        return None if ended is None or self.began is None else seconds(self.began, ended)

    def run_s(self, number: int) -> float | None:
        """How long a run took."""
        span = self.spans.get(number)
        return None if span is None else seconds(*span)


def read(directory: AnyPath, faults: Mapping[int, Sequence[FaultSpan]]) -> About:
    """Return what a campaign's results tell of themselves. ``faults``: those of each run."""
    spans = {number: _span(directory / "runs" / str(number) / "history") for number in faults}
    return About(
        environment=environment.read(directory),
        spans={number: span for number, span in spans.items() if span is not None},
        faults=faults,
        command=_command(directory),
    )


def seconds(start: int, end: int) -> float:
    """Between two times in nanoseconds, to a tenth."""
    return round((end - start) / NS_PER_S, 1)


def lasted(took_s: float) -> str:
    """``3 min 5 s``."""
    minutes, seconds = divmod(round(took_s), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def moment(nanoseconds: int) -> str:
    """A time of the Unix epoch as ``2031-05-17T02:17:00.000Z``."""
    told = datetime.fromtimestamp(nanoseconds // 1_000_000 / 1000, UTC)
    return f"{told:%Y-%m-%dT%H:%M:%S}.{told.microsecond // 1000:03d}Z"


def _span(history: AnyPath) -> tuple[int, int] | None:
    try:
        times: Sequence[Any] = reader.read(history, "phases", ["time"])["time"].to_pylist()
    except (HistoryError, OSError, pa.ArrowException):
        return None
    return (min(times), max(times)) if times else None


def _command(directory: AnyPath) -> str | None:
    """Return the command that repeats a campaign. It has the whole path of the file, so that it is
    the same wherever the results are checked from. A campaign in a store cannot be run there."""
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
    """The campaign and the options without which it is refused: one that was large and meant is
    asked about again otherwise. None where it cannot be run any more."""
    with suppress(DocumentRefused, OSError):
        return validation.check(file).campaign, ()
    with suppress(DocumentRefused, OSError):
        return validation.check(file, meant=True).campaign, ("--yes",)
    return None
