"""The pictures of a checked result: of one of its anomalies, and of its causes for the report."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.checks.catalogue import SKIPPED, SKIPPED_BY_COMMIT, UNSEEN
from ackproof.checkers.context.run import RunEvidence, gather
from ackproof.checkers.pictures.facts import number_of, picture, subject_of_cause, subject_of_row
from ackproof.checkers.pictures.log_picture import LogPicture, Subject
from ackproof.checkers.root_cause.causes import MORE
from ackproof.checkers.verdict import Cause
from ackproof.harness.report import losses
from ackproof.history import manifest
from ackproof.history.errors import HistoryError
from ackproof.history.storage import AnyPath

log = logging.getLogger(__name__)

DRAWN_MAX = 20
"""The most pictures of a report. ``ackproof explain`` draws the others."""

OPENED_MAX = 5
"""The most pictures of a report that are not folded."""

GAPS = (SKIPPED, UNSEEN, SKIPPED_BY_COMMIT)
"""The anomalies of records that a consumer was not given. They have no cause."""

_NUMBER_MAX = 1 << 63


class NotDrawn(ValueError):
    """An anomaly that has no picture. The message is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a check that pictures are drawn from.

    Attributes:
        anomalies, root_causes: The rows of ``anomalies.parquet`` and ``root-causes.parquet``.
        run: Returns the evidence of the run with a number, or None if the manifest has no such run.
    """

    anomalies: pa.Table
    root_causes: pa.Table
    run: Callable[[int], RunEvidence | None]

    def of_row(self, number: int) -> LogPicture:
        """Return the picture of a row of ``anomalies.parquet``, which are numbered from 1. Raises
        NotDrawn."""
        if not 1 <= number <= len(self.anomalies):
            raise NotDrawn(f"there is no anomaly {number}: {self._many}")
        return self._picture(subject_of_row(self.anomalies, self.root_causes, number))

    def of_cause(self, cause: Cause) -> LogPicture:
        """Return the picture of a cause. Raises NotDrawn."""
        subject = self._subject(cause)
        if subject is None:
            raise NotDrawn("it has no row in root-causes.parquet")
        return self._picture(subject)

    def of_first(self, row: losses.Row) -> LogPicture:
        """Return the picture of a row of ``anomalies.parquet``. Raises NotDrawn."""
        number = number_of(self.anomalies, row)
        if number is None:
            raise NotDrawn("it has no row in anomalies.parquet")
        return self.of_row(number)

    def number_of(self, cause: Cause) -> int | None:
        """Return the number of the row of a cause's first record in ``anomalies.parquet``, or None
        if it has none."""
        subject = self._subject(cause)
        return None if subject is None else subject.row

    def numbers_of(self, cell: str, producer: int, sequence: int, run: int | None) -> list[int]:
        """Return the numbers of the rows of ``anomalies.parquet`` about a record, those of lost
        records first."""
        rows = self.anomalies
        if max(producer, sequence) >= _NUMBER_MAX:
            return []
        is_it = pc.and_(
            pc.equal(rows["cell"], cell),
            pc.and_(pc.equal(rows["producer"], producer), pc.equal(rows["sequence"], sequence)),
        )
        if run is not None:
            is_it = pc.and_(is_it, pc.equal(rows["run"], run))
        found = pc.indices_nonzero(pc.fill_null(is_it, False)).to_pylist()
        names = rows["anomaly"].take(pa.array(found, pa.int64())).to_pylist()
        ordered = sorted(zip(found, names, strict=True), key=lambda one: one[1] != losses.LOST)
        return [number + 1 for number, _ in ordered]

    @property
    def _many(self) -> str:
        many = len(self.anomalies)
        return f"anomalies.parquet has the rows 1 to {many:,}" if many else "no anomaly was found"

    def _subject(self, cause: Cause) -> Subject | None:
        place = {
            "run": cause.run,
            "cell": cause.cell,
            "anomaly": cause.anomaly,
            "topic": cause.topic,
            "partition": cause.partition,
        }
        return subject_of_cause(self.anomalies, self.root_causes, place, cause.number)

    def _picture(self, subject: Subject) -> LogPicture:
        if subject.partition < 0:
            raise NotDrawn(f"{subject.anomaly} concerns no single partition: {subject.detail}")
        run = self.run(subject.run)
        if run is None:
            raise NotDrawn(f"the manifest has no run {subject.run}")
        try:
            return picture(run, subject, self.anomalies)
        except LookupError as error:
            raise NotDrawn(str(error)) from error


def read(directory: AnyPath) -> Results:
    """Return the results of a check. The manifest and the history of a run are read when they are
    needed first. Raises DamagedFiles if they are missing or cannot be read."""

    @cache
    def run(number: int) -> RunEvidence | None:
        planned = (one for one in manifest.read(directory).runs if one.number == number)
        history = directory / "runs" / str(number) / "history"
        return next((gather(history, one) for one in planned), None)

    return Results(losses.anomalies(directory), losses.root_causes(directory), run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """The pictures of a report. Where there is none, its reason stands in its place.

    Attributes:
        causes: The pictures of causes.
        gaps: The pictures of records that consumers were not given.
    """

    causes: Mapping[Cause, LogPicture | str] = field(default_factory=dict)
    gaps: Sequence[LogPicture | str] = ()


def of_report(
    directory: AnyPath, causes: Iterable[Cause], first_rows: Iterable[losses.Row]
) -> Pictures:
    """Return the pictures of a report.

    Args:
        directory: The directory of the campaign.
        causes: The causes on the page. Those beyond :data:`DRAWN_MAX` have no picture.
        first_rows: The earliest anomaly of each kind in each cell. Those of :data:`GAPS` have a
            picture, as far as there are at most :data:`OPENED_MAX`.
    """
    chosen = [cause for cause in causes if cause.kind != MORE][:DRAWN_MAX]
    gaps = [row for row in first_rows if row["anomaly"] in GAPS][:OPENED_MAX]
    if not chosen and not gaps:
        return Pictures()
    try:
        results = read(directory)
    except (HistoryError, OSError, ValueError) as error:
        return Pictures(causes=dict.fromkeys(chosen, str(error)))
    return Pictures(
        causes={cause: _drawn(partial(results.of_cause, cause)) for cause in chosen},
        gaps=[_drawn(partial(results.of_first, row)) for row in gaps],
    )


def _drawn(draw: Callable[[], LogPicture]) -> LogPicture | str:
    try:
        return draw()
    except NotDrawn as error:
        return str(error)
    except Exception as error:  # a picture must not cost a result its report
        log.warning("a picture cannot be drawn", exc_info=error)
        return f"{type(error).__name__}: {error}"
