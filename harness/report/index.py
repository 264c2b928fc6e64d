"""``index.html`` of a directory of results: every campaign in it, the newest first, and the trends
of each (:mod:`harness.report.trends`).

The page is made of ``verdict.json`` alone, so that its cost does not depend on the length of the
histories. Of other files only the digests are compared. A result that cannot be read or trusted is
reported in its row. The page is one file, loads nothing from outside, and escapes everything.
"""

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from ackproof.checkers.guarantees.table import NO_LOSS
from ackproof.harness.directory import CAMPAIGN_FILE, RESULTS, DamagedResults
from ackproof.harness.report import PAGE, verdict
from ackproof.harness.report.about import lasted
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.rendering import templates
from ackproof.harness.report.rows import UNKNOWN, number
from ackproof.harness.report.trends.night import Night, date_of, night_of, seconds_of
from ackproof.harness.report.trends.trend import TrendResult, sum_in_words, trends
from ackproof.history import manifest
from ackproof.history.messages import in_words, printable
from ackproof.history.storage import write_text

FILE = "index.html"
_LOCK = ".index.lock"

_STAMP = re.compile(r"-(\d{8}T\d{6}Z)(-\d+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultEntry:
    """A results directory.

    Attributes:
        began: The time of the run in seconds of the Unix epoch; that of the directory without a
            verdict.
        document: The verdict; None if none can be read, for the reason ``trouble``.
        night: The figures of the document.
        place: The relative link to the directory.
        page: The relative link to its report; empty without one.
    """

    name: str
    place: str
    began: float
    document: VerdictDocument | None
    night: Night | None
    trouble: str
    page: str

    @property
    def campaign(self) -> str:
        """Return the campaign's name. If it is unknown, return the name of the directory without
        the time."""
        told = self.document and self.document.campaign
        return told or _STAMP.sub("", self.name)

    @property
    def date(self) -> str:
        return date_of(self.began)

    @property
    def lost_promised(self) -> str:
        """Return the lost records of cells that guarantee no loss, in words."""
        return self._lost(cell for cell in self._cells if _kept(cell))

    @property
    def lost_elsewhere(self) -> str:
        return self._lost(cell for cell in self._cells if not _kept(cell))

    @property
    def duplicated(self) -> str:
        return sum_in_words(cell.duplicated for cell in self._cells) or UNKNOWN

    @property
    def duration(self) -> str:
        took_s = None if self.document is None else self.document.duration_s
        return "" if took_s is None else lasted(took_s)

    @property
    def occasion(self) -> TrendResult:
        """Return the entry as part of the trend of its campaign."""
        return TrendResult(
            campaign=self.campaign,
            date=self.date,
            night=self.night,
            trouble=self.trouble,
            link=self.page,
        )

    def _lost(self, cells: Iterable[CellDocument]) -> str:
        return sum_in_words(cell.lost for cell in cells) or ("-" if self._cells else UNKNOWN)

    @property
    def _cells(self) -> Sequence[CellDocument]:
        return () if self.document is None else self.document.cells


def write(root: Path) -> None:
    """Write the index of ``root``. Raises OSError. Several processes may write it at once: each
    waits for the one before and reads the results again, so that the last one includes them all."""
    with _locked(root):
        write_text(root / FILE, render(root))


def wanted(root: Path) -> bool:
    """Return whether ``root`` is a directory of results, and not the place of a single run's
    results. No index is written, for example, into a home directory."""
    return root == RESULTS.absolute() or (root / "latest").is_symlink()


def render(root: Path) -> str:
    """Return the page."""
    found = entries(root)
    return (
        templates()
        .get_template("index.html")
        .render(entries=found, trends=list(trends(one.occasion for one in found)), number=number)
    )


def entries(root: Path) -> list[ResultEntry]:
    """Return every results directory in ``root``, the newest first."""
    found = (_entry(path) for path in root.iterdir() if _is_results(path))
    return sorted(found, key=lambda entry: (entry.began, entry.name), reverse=True)


def _is_results(path: Path) -> bool:
    if path.name.startswith(".") or path.is_symlink() or not path.is_dir():
        return False
    try:
        return any((path / name).exists() for name in (verdict.FILE, CAMPAIGN_FILE, manifest.FILE))
    except OSError:  # it is not readable, which its row reports
        return True


def _entry(path: Path) -> ResultEntry:
    document, night, trouble = _read(path / verdict.FILE)
    told = document and document.began
    page = PAGE if document is not None and (path / PAGE).is_file() else ""
    place = quote(os.fsencode(path.name))
    return ResultEntry(
        name=printable(path.name),
        place=f"{place}/",
        began=(seconds_of(told) or 0.0) if told else _guessed(path),
        document=document,
        night=night,
        trouble=trouble,
        page=page and f"{place}/{page}",
    )


def _read(file: Path) -> tuple[VerdictDocument | None, Night | None, str]:
    """Return the verdict and its figures. Return None for both, with the reason, if they cannot be
    read or trusted."""
    try:
        document = verdict.read_document(file)
        return document, night_of(document), ""
    except FileNotFoundError:
        reason = "not checked: the run is in progress, or ended early"
    except DamagedResults as error:
        reason = printable("; ".join(error.reasons))
    except ValueError as error:
        reason = printable(f"{verdict.FILE}: {in_words(error)}")
    return None, None, reason


def _guessed(path: Path) -> float:
    """Return the time of results without a recorded one: the time in the name, or else the
    directory's own."""
    stamp = _STAMP.search(path.name)
    if stamp is not None:
        try:
            return datetime.strptime(stamp[1], "%Y%m%dT%H%M%S%z").timestamp()
        except (ValueError, OverflowError, OSError):
            pass
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _kept(cell: CellDocument) -> bool:
    return any(one.name == NO_LOSS and one.promised for one in cell.guarantees)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with (root / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
