"""The check of a campaign: list the work, reconcile it on Spark, and judge the result.

It works on whatever a campaign left, finished or killed. Everything that is readable is checked.
Evidence that the manifest names and the history lacks makes a verdict inconclusive, with the
reason.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from ackproof.checkers.checks.check_transactions import check_all_transactions
from ackproof.checkers.checks.plugin_examination import examine_cells
from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.context.run import RunEvidence, gather
from ackproof.checkers.engine.results import Totals
from ackproof.checkers.engine.spark.jobs import anomalies, reconcile_all, root_causes
from ackproof.checkers.engine.spark.session import is_local, require_workers, session
from ackproof.checkers.engine.tasks import carry_out_here
from ackproof.checkers.engine.work_items import WorkItem, work_items
from ackproof.checkers.guarantees.judge import campaign_result
from ackproof.checkers.root_cause.rows import FILE as ROOT_CAUSES_FILE
from ackproof.checkers.root_cause.rows import ROOT_CAUSES
from ackproof.checkers.verdict import CampaignResult
from ackproof.history import manifest
from ackproof.history.errors import DamagedFiles
from ackproof.history.manifest import Manifest
from ackproof.history.storage import AnyPath, matching, remove_tree, whole

SCRATCH = ".checking"
"""The directory for temporary files in the results. It is removed at the end, or by the next check.
"""


def check(
    directory: AnyPath,
    *,
    only: int | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    progress: Callable[[str], None] | None = None,
    in_process: bool = False,
) -> CampaignResult:
    """Check every run of a campaign and write ``anomalies.parquet`` and ``root-causes.parquet``.

    Args:
        directory: The results of a campaign: ``manifest.json`` and ``runs/<n>/history``. The
            directory may be in a store; the output is then written there, too.
        only: The number of the one run to check. Without it, all runs of the manifest are checked.
        spark: The session to use. Without one, a session is started and ended.
        master: The Spark URL of the cluster on which to start the session, or of a Spark Connect
            server (:func:`checkers.engine.spark.session.session`). Its workers must reach the
            directory by the same name.
        progress: Receives a line of text at the start of each stage.
        in_process: Whether to reconcile all partitions at once in this process, without Spark. This
            is meant for small histories.

    Raises:
        NotADirectoryError: The directory does not exist.
        SparkUnavailable: The session cannot be started, or its workers do not reach the directory.
        OSError: The results cannot be written.
    """
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a results directory")
    directory = directory.absolute()
    tell = progress or _silent
    runs, gaps = evidence(directory, only)
    items = [item for run in runs for item in work_items(run)]
    tell(f"checking {len(items)} partitions of {len(runs)} runs")
    scratch = directory / SCRATCH
    _remove(scratch)
    try:
        totals = _reconcile(spark, master, items, scratch, in_process=in_process)
        transactions = check_all_transactions(runs, tell)
        cells = examine_cells(runs, tell)
        of_cells = [
            *(one.rows for one in transactions.values()),
            *(one.rows for cell in cells.values() for one in cell.values()),
        ]
        _write_anomalies(directory, totals.rows, of_cells)
        _write_root_causes(directory, totals.rows)
    finally:
        _remove(scratch)
    tell("judging")
    findings = tuple(_unplanned_runs(directory, runs)) if runs and only is None else ()
    return campaign_result(runs, totals, transactions, cells, gaps=gaps, findings=findings)


def evidence(
    directory: AnyPath, only: int | None = None
) -> tuple[list[RunEvidence], tuple[str, ...]]:
    """Return the evidence of each run that the manifest plans, or of the run ``only``. If the
    manifest cannot be read, return no evidence and the reason: without the plan it is unknown what
    is missing, and nothing can be concluded."""
    try:
        plan = manifest.read(directory)
    except DamagedFiles as error:
        if (directory / manifest.FILE).exists() or (directory / "runs").exists():
            return [], (str(error),)
        none = f"it has neither {manifest.FILE} nor runs"
        return [], (f"{directory}: the campaign ended before it wrote any history: {none}",)
    return [
        gather(_history(directory, run.number), run, baseline=_is_baseline(plan))
        for run in plan.runs
        if only in (None, run.number)
    ], ()


def _silent(_: str) -> None:
    pass


def _is_baseline(plan: Manifest) -> bool:
    """Return whether the plan is a baseline. A manifest that plans faults is not one, whatever it
    says."""
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
    # A session is not worth its start without any file.
    if in_process or (spark is None and not any(item.recorded for item in items)):
        return carry_out_here(items, scratch / "rows")
    with ExitStack() as stack:
        if spark is None:
            spark = stack.enter_context(session(_here(scratch, stack), master=master))
            if not is_local(master):
                require_workers(spark, scratch.parent)
        return reconcile_all(spark, items, scratch / "rows")


def _here(scratch: AnyPath, stack: ExitStack) -> Path:
    """Return a local directory for the files of a session. The stack removes it if it is not in the
    results."""
    if isinstance(scratch, Path):
        return scratch / "spark"
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ackproof-")))


def _remove(scratch: AnyPath) -> None:
    """Remove the temporary files. Of a symbolic link, remove only the link, because its
    target is not ours."""
    linked = isinstance(scratch, Path) and scratch.is_symlink()
    if scratch.is_dir() and not linked:
        remove_tree(scratch)
    else:
        scratch.unlink(missing_ok=True)


def _write_anomalies(
    directory: AnyPath, rows: Iterable[AnyPath], of_cells: Iterable[pa.Table]
) -> None:
    """Write the anomalies among ``rows`` in their order, batch by batch, then those of whole cells.
    The file appears only when it is complete."""
    with (
        whole(directory / "anomalies.parquet") as file,
        pq.ParquetWriter(file, ANOMALIES, compression="zstd") as writer,
    ):
        for some in rows:
            for batch in anomalies(some, ANOMALIES.names):
                writer.write_batch(pa.record_batch(batch.columns, schema=ANOMALIES))
        for found in of_cells:
            writer.write_table(found)


def _write_root_causes(directory: AnyPath, rows: Iterable[AnyPath]) -> None:
    """Write the root causes of lost records to a file that appears only when it is complete."""
    with (
        whole(directory / ROOT_CAUSES_FILE) as file,
        pq.ParquetWriter(file, ROOT_CAUSES, compression="zstd") as writer,
    ):
        for batch in (batch for some in rows for batch in root_causes(some)):
            writer.write_batch(batch)
