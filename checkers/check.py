"""Checking a campaign: list the work, let Spark reconcile it, have it judged.

Works on whatever a campaign left behind, finished or killed: what is readable is checked, what the
manifest names and the history lacks makes a verdict inconclusive, with the reason.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from ackproof.checkers.checks.check_transactions import look_at_all
from ackproof.checkers.checks.plugin_examination import examine_cells
from ackproof.checkers.context.run import RunEvidence, gather
from ackproof.checkers.engine.results import Totals
from ackproof.checkers.engine.spark.jobs import anomalies, autopsies, reconcile_all
from ackproof.checkers.engine.spark.session import is_local, require_workers, session
from ackproof.checkers.engine.tasks import carry_out_here
from ackproof.checkers.engine.work_items import WorkItem, work_items
from ackproof.checkers.guarantees.judge import campaign_result
from ackproof.checkers.root_cause.rows import AUTOPSIES
from ackproof.checkers.verdict import ANOMALIES, CampaignResult
from ackproof.history import manifest
from ackproof.history.errors import DamagedFiles
from ackproof.history.manifest import Manifest
from ackproof.history.storage import AnyPath, matching, remove_tree, whole

SCRATCH = ".checking"
"""Directory for everything temporary, in the results; removed at the end, or by the next check."""


def check(
    directory: AnyPath,
    *,
    only: int | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    progress: Callable[[str], None] | None = None,
    in_process: bool = False,
) -> CampaignResult:
    """Check every run of a campaign and write ``anomalies.parquet`` and ``autopsies.parquet``.

    Args:
        directory: Results of a campaign: ``manifest.json`` and ``runs/<n>/history``; here, or in a
            store, where everything is written, too.
        only: The number of the one run to check; without it, all that the manifest plans.
        spark: A session to use; without one, one is started and ended.
        master: Spark's URL of the cluster to start it on, or of a Spark Connect server
            (:func:`checkers.engine.spark.session.session`). Its workers must reach the directory by
            the same name.
        progress: Is told, in a line each, what is being done.
        in_process: Whether to reconcile in this process, all partitions at once and without Spark:
            for small histories.

    Raises:
        NotADirectoryError: There is no such directory.
        SparkUnavailable: The session cannot be started, or its workers do not reach the directory.
        OSError: They cannot be written.
    """
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is no directory of results")
    directory = directory.absolute()
    tell = progress or _silent
    runs, gaps = evidence(directory, only)
    items = [item for run in runs for item in work_items(run)]
    tell(f"checking {len(items)} partitions of {len(runs)} runs")
    scratch = directory / SCRATCH
    _remove(scratch)
    try:
        totals = _reconcile(spark, master, items, scratch, in_process=in_process)
        transactions = look_at_all(runs, tell)
        cells = examine_cells(runs, tell)
        of_cells = [
            *(one.rows for one in transactions.values()),
            *(one.rows for cell in cells.values() for one in cell.values()),
        ]
        _write_anomalies(directory, totals.rows, of_cells)
        _write_autopsies(directory, totals.rows)
    finally:
        _remove(scratch)
    tell("judging")
    findings = tuple(_unplanned_runs(directory, runs)) if runs and only is None else ()
    return campaign_result(runs, totals, transactions, cells, gaps=gaps, findings=findings)


def evidence(
    directory: AnyPath, only: int | None = None
) -> tuple[list[RunEvidence], tuple[str, ...]]:
    """The evidence of each run that the manifest plans, or of that one alone; and why there is
    none, where it cannot be read: without the plan nobody knows what is missing, and nothing can be
    concluded."""
    try:
        plan = manifest.read(directory)
    except DamagedFiles as error:
        if (directory / manifest.FILE).exists() or (directory / "runs").exists():
            return [], (str(error),)
        none = f"neither {manifest.FILE} nor runs is there"
        return [], (f"{directory}: the campaign ended before any history was written: {none}",)
    return [
        gather(_history(directory, run.number), run, baseline=_is_baseline(plan))
        for run in plan.runs
        if only in (None, run.number)
    ], ()


def _silent(_: str) -> None:
    pass


def _is_baseline(plan: Manifest) -> bool:
    """A manifest that plans faults all the same is none."""
    return plan.baseline and not any(run.faults for run in plan.runs)


def _history(directory: AnyPath, run: int) -> AnyPath:
    return directory / "runs" / str(run) / "history"


def _unplanned_runs(directory: AnyPath, runs: Sequence[RunEvidence]) -> Iterator[str]:
    planned = {str(run.number) for run in runs}
    for path in matching(directory, "runs/*"):
        if path.name not in planned:
            yield f"{path}: the manifest plans no such run"


def _reconcile(
    spark: SparkSession | None,
    master: str | None,
    items: Sequence[WorkItem],
    scratch: AnyPath,
    *,
    in_process: bool,
) -> Totals:
    if not items:
        return Totals()
    # Without any file no session is worth it.
    if in_process or (spark is None and not any(item.recorded for item in items)):
        return carry_out_here(items, scratch / "rows")
    with ExitStack() as stack:
        if spark is None:
            spark = stack.enter_context(session(_here(scratch, stack), master=master))
            if not is_local(master):
                require_workers(spark, scratch.parent)
        return reconcile_all(spark, items, scratch / "rows")


def _here(scratch: AnyPath, stack: ExitStack) -> Path:
    """A directory of this machine, for a session's files; it goes with the stack."""
    if isinstance(scratch, Path):
        return scratch / "spark"
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ackproof-")))


def _remove(scratch: AnyPath) -> None:
    """Remove it. Of a link the link alone: where it leads is not ours."""
    linked = isinstance(scratch, Path) and scratch.is_symlink()
    if scratch.is_dir() and not linked:
        remove_tree(scratch)
    else:
        scratch.unlink(missing_ok=True)


def _write_anomalies(
    directory: AnyPath, rows: Iterable[AnyPath], of_cells: Iterable[pa.Table]
) -> None:
    """Write the anomalies among ``rows``, in their order, batch by batch, then those of
    whole cells, aside and renamed."""
    with (
        whole(directory / "anomalies.parquet") as file,
        pq.ParquetWriter(file, ANOMALIES, compression="zstd") as writer,
    ):
        for some in rows:
            for batch in anomalies(some, ANOMALIES.names):
                writer.write_batch(pa.record_batch(batch.columns, schema=ANOMALIES))
        for found in of_cells:
            writer.write_table(found)


def _write_autopsies(directory: AnyPath, rows: Iterable[AnyPath]) -> None:
    """Likewise the autopsies of those that are lost."""
    with (
        whole(directory / "autopsies.parquet") as file,
        pq.ParquetWriter(file, AUTOPSIES, compression="zstd") as writer,
    ):
        for batch in (batch for some in rows for batch in autopsies(some)):
            writer.write_batch(batch)
