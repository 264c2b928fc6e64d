"""The directories of results: the directory of one campaign, and its files."""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.history import manifest
from ackproof.history.messages import printable
from ackproof.history.storage import AnyPath, StoredPath, copy_below, located, write_text

RESULTS = Path("results")
"""The default place, below the working directory."""

CAMPAIGN_FILE = "campaign.yaml"

MATRIX_PAGE = "matrix.html"
"""The page of a campaign on several systems, whose results are in directories beside it."""

LIVE_LOGS = "live-logs"
"""The directory of the newest lines of each server's log, in the directory of a run that goes
on."""

_TRIED = ".tried"


class ResultsDirectoryError(ValueError):
    """A directory that has no results of a campaign, or has some and must not."""


class DamagedResults(ResultsDirectoryError):
    """Stored results that differ from what a check wrote.

    Attributes:
        reasons: The problems, one sentence each, which names the file.
    """

    def __init__(self, directory: AnyPath, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        found = printable("; ".join(self.reasons))
        super().__init__(
            f"{directory}: the results cannot be believed: {found}; check them again: "
            f"ackproof check {directory}"
        )


class ResultsInUse(ValueError):
    """A directory of results in which another process works."""


def create(campaign: Campaign, now_ns: int, out: Path | None) -> Path:
    """Create the directory of a campaign, with its resolved file, and return its absolute path.

    Without ``out`` it is ``results/<campaign>-<UTC time>``. ``out`` itself is used as it is, and
    must be empty or absent. Otherwise ResultsDirectoryError is raised.
    """
    directory = fresh(campaign.name, now_ns) if out is None else out.absolute()
    require_fresh(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / CAMPAIGN_FILE).write_text(campaign.to_yaml(), encoding="utf-8")
    return directory


def require_fresh(directory: Path) -> None:
    """Raise ResultsDirectoryError if ``directory`` exists and is not an empty directory."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ResultsDirectoryError(f"{directory.absolute()} exists and is not an empty directory")


def require_writable(directory: Path) -> None:
    """Raise ResultsDirectoryError, with the system's reason, if ``directory`` cannot be created or
    written.

    This is tried, because permissions do not show it. Directories that did not exist are removed
    again.
    """
    directory = directory.absolute()
    made = [one for one in (directory, *directory.parents) if not one.exists()]
    try:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / _TRIED).touch()
            (directory / _TRIED).unlink()
        finally:
            for one in made:
                with contextlib.suppress(FileNotFoundError):
                    one.rmdir()
    except OSError as refused:
        raise ResultsDirectoryError(f"{directory} cannot be written: {refused.strerror}") from None


def existing(directory: Path) -> Path:
    """Return the absolute path of a campaign's results. Raises ResultsDirectoryError if there are
    none in it."""
    _require_results(directory)
    return directory.resolve()


def _require_results(directory: AnyPath) -> None:
    """Raise ResultsDirectoryError if neither the campaign nor its manifest is in a directory. One
    of them may be missing, which the check reports."""
    names = (CAMPAIGN_FILE, manifest.FILE)
    if not any((directory / name).is_file() for name in names):
        none = f"no {' and no '.join(names)} in it"
        raise ResultsDirectoryError(f"{directory} has no results of a campaign: {none}")


def named(text: str) -> AnyPath:
    """Return the results that a path or a URI names, as :func:`existing` does. Raises
    ResultsDirectoryError also if a store has no such bucket, or denies reading or writing."""
    directory = _located(text)
    if isinstance(directory, Path):
        return existing(directory)
    _require_usable(directory, results=True)
    return directory


def destination(text: str) -> AnyPath:
    """Return the directory for copies of results that a path or a URI names. It need not exist.
    Raises ResultsDirectoryError if it cannot be written."""
    directory = _located(text)
    if isinstance(directory, Path):
        require_writable(directory)
    else:
        _require_usable(directory, results=False)
    return directory


def copy(results: Path, place: AnyPath) -> AnyPath:
    """Copy a results directory into ``place`` under its own name, and return the copy. Raises
    OSError, also if that name is taken."""
    copied = place / results.name
    if copied.exists():
        raise FileExistsError(f"{copied} exists already")
    copy_below(results, copied)
    return copied


def _located(text: str) -> AnyPath:
    try:
        return located(text)
    except ValueError as misnamed:
        raise ResultsDirectoryError(str(misnamed)) from None


def _require_usable(directory: StoredPath, *, results: bool) -> None:
    """Raise ResultsDirectoryError unless a directory in a store can be written and, with
    ``results``, has some."""
    try:
        if not directory.top.exists():
            raise ResultsDirectoryError(f"{directory}: {directory.root} does not exist")
        if results:
            _require_results(directory)
        # Missing permission to write must be reported now, and not after the check.
        write_text(directory / _TRIED, "")
        (directory / _TRIED).unlink()
    except OSError as refused:
        raise ResultsDirectoryError(f"{directory} cannot be used: {refused}") from None


@contextmanager
def alone(directory: AnyPath, *, wait: bool = False) -> Iterator[None]:
    """Keep other checks and reports away from a results directory of this machine. Raises
    ResultsInUse if another one works there, or waits for it. A store has no locks."""
    if not isinstance(directory, Path):
        yield
        return
    there = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(there, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            words = (
                f"another ackproof process checks or reports {directory}: wait until it has ended"
            )
            raise ResultsInUse(words) from None
        yield
    finally:
        os.close(there)


@contextmanager
def marked_as_running(directory: Path) -> Iterator[None]:
    """Let :func:`is_running` be true of a results directory, in any process of this machine. The
    kernel ends that with this process, however it ends."""
    with (directory / CAMPAIGN_FILE).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_running(directory: Path) -> bool:
    """Return whether a run or its check goes on in a results directory of this machine."""
    try:
        with (directory / CAMPAIGN_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def link_latest(directory: Path) -> None:
    """Make ``latest`` beside ``directory`` a link to it."""
    aside = directory.with_name(f".latest-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        aside.unlink()
    aside.symlink_to(directory.name)
    aside.rename(directory.with_name("latest"))


def fresh(name: str, now_ns: int) -> Path:
    """Return ``results/<name>-<UTC time>``, with a number if it already exists."""
    stamp = datetime.fromtimestamp(now_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%SZ")
    first = RESULTS.absolute() / f"{name}-{stamp}"
    candidates = (first, *(first.with_name(f"{first.name}-{n}") for n in range(2, 100)))
    return next(candidate for candidate in candidates if not candidate.exists())
