"""Checking a campaign: list the work, let Spark reconcile it, have it judged.

Works on whatever a campaign left behind, finished or killed: what is readable is checked, what is
lacking makes a verdict inconclusive, with the reason.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import yaml
from pyspark.sql import SparkSession

from checkers.evidence import RunEvidence, gather
from checkers.items import work_items
from checkers.judge import campaign_result
from checkers.reconcile import WorkItem
from checkers.result import ANOMALIES, CampaignResult
from checkers.session import session
from checkers.totals import Totals, reconcile_all
from history import manifest, reader
from history.errors import DamagedFiles

SCRATCH = ".checking"
"""Directory for everything temporary, in the results; removed at the end, or by the next check."""


def check(
    directory: Path,
    *,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] | None = None,
) -> CampaignResult:
    """Check every run of a campaign and write ``<directory>/anomalies.parquet``.

    Args:
        directory: Results of a campaign: ``campaign.yaml`` and ``runs/<n>/history``.
        spark: A session to use; without one, one is started and ended.
        progress: Is told, in a line each, what is being done.

    Raises:
        NotADirectoryError: There is no such directory.
        OSError: ``anomalies.parquet`` cannot be written.
    """
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is no directory of results")
    tell = progress or _silent
    runs = _runs(directory)
    gaps = tuple(_campaign_gaps(directory, len(runs)))
    items, unlisted = _list(runs)
    tell(f"checking {len(items)} partitions of {len(runs)} runs")
    scratch = directory / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        totals, failure = _reconcile(spark, items, scratch)
        _write_anomalies(directory, scratch / "rows", whole=not failure)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    tell("judging")
    return replace(
        campaign_result(runs, totals, unlisted=unlisted, gaps=gaps + failure),
        infrastructure_failed=not runs or any(_failed(run) for run in runs),
        baseline=_baseline(directory),
    )


def _baseline(directory: Path) -> bool:
    try:
        return manifest.read(directory).baseline
    except DamagedFiles:
        return False


def _failed(run: RunEvidence) -> bool:
    rows = reader.read(run.history, "phases", ["phase", "event"]).to_pylist()
    events = [(row["phase"], row["event"]) for row in rows]
    ours = ("deploy", "ready", "collect", "teardown")
    return ("teardown", "end") not in events or any((step, "failed") in events for step in ours)


def _silent(_: str) -> None:
    pass


def _runs(directory: Path) -> list[RunEvidence]:
    numbered = [path for path in directory.glob("runs/*") if path.name.isdecimal()]
    return [
        gather(path / "history", int(path.name))
        for path in sorted(numbered, key=lambda path: int(path.name))
    ]


def _campaign_gaps(directory: Path, runs: int) -> Iterator[str]:
    """What the campaign as a whole lacks."""
    try:
        campaign = yaml.safe_load((directory / "campaign.yaml").read_text(encoding="utf-8"))
        planned = int(campaign.get("runs", 1))
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        yield f"campaign.yaml does not tell how many runs there should be: {error}"
        planned = 1
    if runs < planned:
        yield f"{runs} of {planned} runs are there"


def _list(runs: Sequence[RunEvidence]) -> tuple[list[WorkItem], dict[int, str]]:
    """The work of all runs, and by run why it could not be listed."""
    items: list[WorkItem] = []
    unlisted = {}
    for run in runs:
        try:
            items += work_items(run)
        except DamagedFiles as error:
            unlisted[run.number] = str(error)
    return items, unlisted


def _reconcile(
    spark: SparkSession | None, items: Sequence[WorkItem], scratch: Path
) -> tuple[Totals, tuple[str, ...]]:
    """What reconciling found; and, where Spark gave up, why."""
    if not items:
        return Totals(), ()
    with ExitStack() as stack:
        spark = spark or stack.enter_context(session(scratch / "spark"))
        try:
            return reconcile_all(spark, items, scratch / "rows"), ()
        except Exception as error:  # noqa: BLE001 - a failed check is a verdict, not a crash
            return Totals(), (f"the checkers failed: {error}",)


def _write_anomalies(directory: Path, rows: Path, *, whole: bool) -> None:
    """Write the anomalies among ``rows``, in their order, batch by batch, aside and renamed."""
    aside = directory / ".anomalies.parquet"
    with pq.ParquetWriter(aside, ANOMALIES, compression="zstd") as writer:
        if whole and rows.is_dir():
            found = ds.dataset(rows, format="parquet").scanner(
                columns=ANOMALIES.names, filter=ds.field("anomaly").is_valid()
            )
            for batch in found.to_batches():
                writer.write_batch(pa.record_batch(batch.columns, schema=ANOMALIES))
    aside.replace(directory / "anomalies.parquet")
