"""``index.html`` of a directory of results: every campaign in it, the newest first, and what became
of each and of its cells from night to night.

Made of ``verdict.json`` alone, so that it costs the same however long the histories are: of the
files beside it nothing but their digests is compared. Whatever cannot be read or believed is told
in its row. One file, nothing loaded from outside, everything
escaped.
"""

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from ackproof.checkers.judging.guarantees import NO_LOSS
from ackproof.checkers.verdict import WORST_FIRST, Verdict
from ackproof.harness.directory import CAMPAIGN_FILE, RESULTS, DamagedResults
from ackproof.harness.report import PAGE, verdict
from ackproof.harness.report.about import lasted
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.comparison import label
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.rendering import templates
from ackproof.harness.report.rows import UNKNOWN, number
from ackproof.history import manifest
from ackproof.history.aside import write_text
from ackproof.history.printable import printable

FILE = "index.html"
_LOCK = ".index.lock"

NIGHTS_SHOWN = 30
"""Of each campaign, the latest."""

_STAMP = re.compile(r"-(\d{8}T\d{6}Z)(-\d+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """A night of a campaign or a cell. ``kind``: a verdict, ``broken`` or ``none``; ``letter`` and
    ``told``: it in short and in words; ``link``: where to, empty for nowhere."""

    kind: str
    letter: str
    told: str
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A results directory.

    Attributes:
        began: Seconds of the Unix epoch; of the directory where no verdict tells.
        document: None where there is none that can be read; ``trouble`` says why.
        place: The link to the directory, relative.
        page: The link to its report, relative; empty where there is none.
    """

    name: str
    place: str
    began: float
    document: VerdictDocument | None
    trouble: str
    page: str

    @property
    def campaign(self) -> str:
        """Its name; of one that does not tell, that of the directory without the time."""
        told = self.document and self.document.campaign
        return told or _STAMP.sub("", self.name)

    @property
    def date(self) -> str:
        try:
            return f"{datetime.fromtimestamp(self.began, UTC):%Y-%m-%d %H:%M}"
        except (ValueError, OverflowError, OSError):  # of a year that no calendar has
            return UNKNOWN

    @property
    def lost_promised(self) -> str:
        """Lost of cells that are promised to lose nothing."""
        return self._lost(cell for cell in self._cells if _kept(cell))

    @property
    def lost_elsewhere(self) -> str:
        return self._lost(cell for cell in self._cells if not _kept(cell))

    @property
    def duplicated(self) -> str:
        return _sum(cell.duplicated for cell in self._cells) or UNKNOWN

    @property
    def duration(self) -> str:
        took_s = None if self.document is None else self.document.duration_s
        return "" if took_s is None else lasted(took_s)

    @property
    def square(self) -> Square:
        if self.document is None:
            told = f"{self.date}: {self.trouble}"
            return Square(kind="broken", letter="?", told=told, link=self.page)
        told = f"{self.date}, seed {self.document.seed}: {self.document.words}"
        return _square(self.document.kind, told, self.page)

    def _lost(self, cells: Iterable[CellDocument]) -> str:
        return _sum(cell.lost for cell in cells) or ("-" if self._cells else UNKNOWN)

    @property
    def _cells(self) -> Sequence[CellDocument]:
        return () if self.document is None else self.document.cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A campaign from night to night, the newest first: as a whole, and each cell."""

    campaign: str
    left_out: int
    squares: tuple[Square, ...]
    cells: tuple[tuple[str, tuple[Square, ...]], ...]


def write(root: Path) -> None:
    """Write the index of ``root``. Raises OSError. Several may write it at once: each waits for the
    one before and reads anew, so that the last one has them all."""
    with _locked(root):
        write_text(root / FILE, render(root))


def wanted(root: Path) -> bool:
    """Whether ``root`` is a directory of results, and not where one run was asked to leave its
    own: no index is left in somebody's home."""
    return root == RESULTS.absolute() or (root / "latest").is_symlink()


def render(root: Path) -> str:
    """The page."""
    found = entries(root)
    return (
        templates()
        .get_template("index.html")
        .render(entries=found, trends=list(_trends(found)), number=number)
    )


def entries(root: Path) -> list[Entry]:
    """Every results directory in ``root``, the newest first."""
    found = (_entry(path) for path in root.iterdir() if _is_results(path))
    return sorted(found, key=lambda entry: (entry.began, entry.name), reverse=True)


def _is_results(path: Path) -> bool:
    if path.name.startswith(".") or path.is_symlink() or not path.is_dir():
        return False
    try:
        return any((path / name).exists() for name in (verdict.FILE, CAMPAIGN_FILE, manifest.FILE))
    except OSError:  # it may not be looked into, which is told in its row
        return True


def _entry(path: Path) -> Entry:
    document, trouble = _read(path / verdict.FILE)
    told = document and document.began
    page = PAGE if document is not None and (path / PAGE).is_file() else ""
    place = quote(os.fsencode(path.name))
    return Entry(
        name=printable(path.name),
        place=f"{place}/",
        began=_seconds(told) if told else _guessed(path),
        document=document,
        trouble=trouble,
        page=page and f"{place}/{page}",
    )


def _read(file: Path) -> tuple[VerdictDocument | None, str]:
    try:
        return verdict.read_document(file), ""
    except FileNotFoundError:
        return None, "not checked: under way, or ended before"
    except DamagedResults as error:
        return None, printable("; ".join(error.reasons))


def _seconds(told: str) -> float:
    try:
        return datetime.fromisoformat(told).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def _guessed(path: Path) -> float:
    """Of results that do not tell: the time in the name, else the directory's own."""
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


def _trends(found: Sequence[Entry]) -> Iterator[Trend]:
    campaigns: dict[str, list[Entry]] = {}
    for entry in found:
        campaigns.setdefault(entry.campaign, []).append(entry)
    for campaign, of in campaigns.items():
        nights = of[:NIGHTS_SHOWN]
        by_night = [_by_cell(entry) for entry in nights]
        names = dict.fromkeys(name for cells in by_night for name in cells)
        yield Trend(
            campaign=campaign,
            left_out=len(of) - len(nights),
            squares=tuple(entry.square for entry in nights),
            cells=tuple(
                (name, tuple(_night(*one, name) for one in zip(nights, by_night, strict=True)))
                for name in sorted(names)
            ),
        )


def _by_cell(entry: Entry) -> Mapping[str, list[CellDocument]]:
    """A cell of each cluster by its name; several of a name are its rounds."""
    if entry.document is None:
        return {}
    clusters = {run.number: label(run.cluster) for run in entry.document.runs}
    cells: dict[str, list[CellDocument]] = {}
    for cell in entry.document.cells:
        parts = (clusters.get(cell.run, ""), cell.cell)
        cells.setdefault(", ".join(part for part in parts if part), []).append(cell)
    return cells


def _night(entry: Entry, cells: Mapping[str, Sequence[CellDocument]], name: str) -> Square:
    rounds = cells.get(name)
    if not rounds:
        return Square(kind="none", letter="", told=f"{entry.date}: not there")
    worst = min((cell.kind for cell in rounds), key=WORST_FIRST.index)
    lost = _sum(cell.lost for cell in rounds)
    return _square(worst, f"{entry.date}: {worst.value}, {lost} lost")


def _square(found: Verdict, told: str, link: str = "") -> Square:
    return Square(kind=found.value, letter=found.value[0].upper(), told=told, link=link)


def _kept(cell: CellDocument) -> bool:
    return any(one.name == NO_LOSS and one.promised for one in cell.guarantees)


def _sum(values: Iterable[int | None]) -> str:
    """What is known of it, added up; with a + where that is not all; empty of none."""
    counted = list(values)
    known = [value for value in counted if value is not None]
    if not known:
        return UNKNOWN if counted else ""
    return number(sum(known)) + ("+" if len(known) < len(counted) else "")


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with (root / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
