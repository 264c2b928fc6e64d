"""``index.html`` of a directory of results: the newest failure, the trends of each campaign
(:mod:`harness.report.trends`), and every run, the newest first.

The page is made of ``verdict.json`` alone, so that its cost does not depend on the length of the
histories. Of other files only the digests are compared. A result that cannot be read or trusted is
reported in its row. The page is one file, loads nothing from outside, and escapes everything.
Without JavaScript it is a complete list; ``index.js`` filters it.
"""

import fcntl
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from ackproof.checkers.verdict import WORST_FIRST, Verdict
from ackproof.harness.directory import CAMPAIGN_FILE, MATRIX_PAGE, RESULTS, DamagedResults
from ackproof.harness.durations import lasted
from ackproof.harness.report import PAGE, verdict
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.opportunities import ExposureSummary, of_documents
from ackproof.harness.report.rendering import templates
from ackproof.harness.report.rows import UNKNOWN, number
from ackproof.harness.report.trends.charts import assets
from ackproof.harness.report.trends.night import Night, date_of, night_of, seconds_of
from ackproof.harness.report.trends.trend import TrendResult, sum_in_words, trends
from ackproof.history import manifest
from ackproof.history.messages import in_words, printable
from ackproof.history.storage import write_text
from ackproof.infra.systems.product import BUNDLED

FILE = "index.html"
NO_VERDICT = "no verdict"
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
        return self._lost(cell for cell in self._cells if cell.promises_no_loss)

    @property
    def lost_elsewhere(self) -> str:
        return self._lost(cell for cell in self._cells if not cell.promises_no_loss)

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
            faults=None if self.document is None else self.document.faults,
        )

    @property
    def system(self) -> str:
        """Return the system with its metadata quorum; empty if it is unknown."""
        return self.occasion.system

    @property
    def kind(self) -> str:
        """Return the verdict that decides the colour, or that there is none."""
        return NO_VERDICT if self.document is None else self.document.kind.value

    @property
    def sentence(self) -> str:
        """Return the first cause of the verdict in one sentence."""
        document = self.document
        if document is None:
            return self.trouble
        if document.leading_causes:
            return document.leading_causes[0].sentence
        failed = (cell for cell in self._cells if cell.counts_as is Verdict.FAIL and cell.reasons)
        first = next(failed, None)
        return f"{first.cell}: {first.reasons[0]}" if first else "The result names no cause."

    def _lost(self, cells: Iterable[CellDocument]) -> str:
        return sum_in_words(cell.lost for cell in cells) or ("-" if self._cells else UNKNOWN)

    @property
    def _cells(self) -> Sequence[CellDocument]:
        return () if self.document is None else self.document.cells


_FileStamp = tuple[int, int, int] | None
"""The time of the last change of a file in nanoseconds, its size and its inode; None if it does not
exist."""


class KnownEntries:
    """The entries that were read before, each as long as no file that it depends on has changed.

    An entry is remembered only if all of these files have been unchanged for ``settled_s`` seconds.
    A file that changes twice within the resolution of its time of change would otherwise seem
    unchanged.
    """

    def __init__(self, settled_s: float = 2.0) -> None:
        self._settled_s = settled_s
        self._entries: dict[Path, tuple[Mapping[str, _FileStamp], ResultEntry]] = {}

    def entry(self, path: Path) -> ResultEntry:
        """Return the entry of a results directory."""
        stamps, found = self._entries.get(path, ({}, None))
        if found is not None and stamps == _stamps(path, stamps):
            return found
        newest_ns = (time.time() - self._settled_s) * 1e9
        found = _entry(path)
        if found.document is not None and found.document.sha256 is not None:
            names = verdict.FILE, PAGE, *found.document.files
            stamps = _stamps(path, names)
            if all(one is None or one[0] < newest_ns for one in stamps.values()):
                self._entries[path] = stamps, found
        return found


def _stamps(path: Path, names: Iterable[str]) -> Mapping[str, _FileStamp]:
    return {name: _stamp(path / name) for name in names}


def _stamp(file: Path) -> _FileStamp:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestFailure:
    """The newest failed run of a campaign on a system. ``since`` has the verdicts of the newer
    ones."""

    entry: ResultEntry
    since: str


def newest_failures(newest_first: Sequence[ResultEntry]) -> list[NewestFailure]:
    """Return the newest failure of each campaign on each system, the newest first."""
    found: dict[tuple[str, str], NewestFailure] = {}
    for at, one in enumerate(newest_first):
        key = one.campaign, one.system
        if one.kind == Verdict.FAIL and key not in found:
            newer = [
                other.kind
                for other in newest_first[:at]
                if other.campaign == one.campaign and other.system in (one.system, "")
            ]
            words = kinds_in_words(newer) or "none"
            since = f"Newer runs of this campaign on this system: {words}."
            found[key] = NewestFailure(entry=one, since=since)
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulatedExposure:
    """The exposure of all nights of a campaign on a system.

    Attributes:
        version: The version of the bundled system; empty for others, whose name has it.
        nights: The number of results that it rests on.
        left_out: The number of other results, which do not say what their exposure was.
        summary: The exposure of the cells that guarantee that no acknowledged record is lost.
    """

    campaign: str
    system: str
    version: str
    nights: int
    left_out: int
    summary: ExposureSummary


def accumulated_exposure(entries: Iterable[ResultEntry]) -> list[AccumulatedExposure]:
    """Return the exposure of each campaign on each system, by name."""
    groups: dict[tuple[str, str, str], list[VerdictDocument]] = {}
    for one in entries:
        if one.document is not None:
            version = (one.document.system == BUNDLED and one.document.versions.ackproof) or ""
            groups.setdefault((one.campaign, one.system, version), []).append(one.document)
    found = []
    for (campaign, system, version), of in sorted(groups.items()):
        known = [one for one in of if one.exposure is not None]
        whole = of_documents(known)
        if whole.lines:
            found.append(
                AccumulatedExposure(
                    campaign=campaign,
                    system=system,
                    version=version,
                    nights=len(known),
                    left_out=len(of) - len(known),
                    summary=whole,
                )
            )
    return found


def kinds_in_words(kinds: Iterable[str]) -> str:
    """Return the number of runs of each verdict, the worst first: ``2 fail, 1 no verdict``."""
    counts = Counter(kinds)
    order = [*(one.value for one in WORST_FIRST), NO_VERDICT]
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in order if counts[kind])


def write(root: Path) -> None:
    """Write the index of ``root``. Raises OSError. Several processes may write it at once: each
    waits for the one before and reads the results again, so that the last one includes them all."""
    with _locked(root):
        write_text(root / FILE, render(root))


def wanted(root: Path) -> bool:
    """Return whether ``root`` is a directory of results, and not the place of a single run's
    results. No index is written, for example, into a home directory."""
    return root == RESULTS.absolute() or (root / "latest").is_symlink()


def render(root: Path, *, served: bool = False, known: KnownEntries | None = None) -> str:
    """Return the page. If it is ``served``, the server compares two runs that the reader chooses;
    otherwise the page names the command. ``known`` are the entries of former pages."""
    found = entries(root, known)
    page = (
        templates()
        .get_template("index.html")
        .render(
            entries=found,
            failures=newest_failures(found),
            kinds=kinds_in_words(one.kind for one in found),
            exposure=accumulated_exposure(found),
            trends=list(trends(one.occasion for one in found)),
            choices={
                "campaign": sorted({one.campaign for one in found}),
                "system": sorted({one.system for one in found} - {""}),
                "verdict": sorted({one.kind for one in found}),
            },
            chosen=_to_compare(found),
            matrices=_matrices(root),
            number=number,
            served=served,
            charts=assets(),
            script=Markup((resources.files(__package__) / "index.js").read_text(encoding="utf-8")),
        )
    )
    return printable(page)


def _to_compare(newest_first: Sequence[ResultEntry]) -> tuple[str, str]:
    """Return the places of two results that are worth comparing: the newest, and the one before it
    of the same campaign and system, if possible. Return empty places if there are no two."""
    checked = [one for one in newest_first if one.document is not None]
    if len(checked) < 2:
        return "", ""
    last, *others = checked
    alike = (one for one in others if (one.campaign, one.system) == (last.campaign, last.system))
    return next(alike, others[0]).place, last.place


def _matrices(root: Path) -> list[tuple[str, str]]:
    """Return the name and the page of each campaign on several systems, by name."""
    return [
        (printable(path.parent.name), f"{quote(os.fsencode(path.parent.name))}/{path.name}")
        for path in sorted(root.glob(f"*/{MATRIX_PAGE}"))
        if not path.parent.is_symlink()
    ]


def entries(root: Path, known: KnownEntries | None = None) -> list[ResultEntry]:
    """Return every results directory in ``root``, the newest first."""
    read = (KnownEntries() if known is None else known).entry
    found = (read(path) for path in root.iterdir() if _is_results(path))
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


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with (root / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
