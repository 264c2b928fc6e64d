"""Where campaigns leave their results: the directory of one campaign, and what lies in it."""

import contextlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from harness.campaign.model import Campaign
from history import reader

RESULTS = Path("results")
"""Default place, below the working directory."""

CAMPAIGN_FILE = "campaign.yaml"

_INFRASTRUCTURE_STEPS = frozenset({"deploy", "ready", "collect", "teardown"})
"""Steps whose failure says nothing about the system under test."""


class NotResults(ValueError):
    """A directory that holds no results of a campaign, or must hold none and does."""


def create(campaign: Campaign, now_ns: int, out: Path | None) -> Path:
    """Make the directory of a campaign, with its resolved file; absolute path.

    Without ``out`` it is ``results/<campaign>-<UTC time>``, and ``results/latest`` links to it.
    ``out`` itself is used as it is, and must be empty or absent; NotResults otherwise.
    """
    directory = _default(campaign, now_ns) if out is None else out.absolute()
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise NotResults(f"{directory} exists and is not an empty directory")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / CAMPAIGN_FILE).write_text(campaign.to_yaml(), encoding="utf-8")
    if out is None:
        _link_latest(directory)
    return directory


def existing(directory: Path) -> Path:
    """The absolute path of a campaign's results; NotResults when there are none in it."""
    if not (directory / CAMPAIGN_FILE).is_file():
        raise NotResults(f"{directory} holds no results of a campaign: no {CAMPAIGN_FILE} in it")
    return directory.resolve()


def runs(directory: Path) -> Iterator[Path]:
    """The directories of its runs, by number."""
    numbered = (run for run in (directory / "runs").glob("*") if run.name.isdigit())
    return iter(sorted(numbered, key=lambda run: int(run.name)))


def infrastructure_failed(directory: Path) -> bool:
    """Whether a run did not come to its end, or one of its steps that are ours alone failed."""
    found = list(runs(directory))
    return not found or any(_run_failed(run) for run in found)


def _run_failed(run: Path) -> bool:
    events = reader.read(run / "history", "phases", ["phase", "event"]).to_pylist()
    ended = any(row["phase"] == "teardown" and row["event"] == "end" for row in events)
    return not ended or any(
        row["event"] == "failed" and row["phase"] in _INFRASTRUCTURE_STEPS for row in events
    )


def _default(campaign: Campaign, now_ns: int) -> Path:
    stamp = datetime.fromtimestamp(now_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%SZ")
    first = RESULTS.absolute() / f"{campaign.name}-{stamp}"
    candidates = (first, *(first.with_name(f"{first.name}-{n}") for n in range(2, 100)))
    return next(candidate for candidate in candidates if not candidate.exists())


def _link_latest(directory: Path) -> None:
    aside = directory.with_name(f".latest-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        aside.unlink()
    aside.symlink_to(directory.name)
    aside.rename(directory.with_name("latest"))
