"""The archive of classes that Spark sessions share, created by ``python -m
checkers.engine.spark.class_data``.

A JVM maps the archive instead of reading, verifying and linking some 15,000 classes (JEP 350,
dynamic CDS archives). A session then starts in half the time, with half of the work.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ackproof.checkers.context.final_reads import FinalRead
from ackproof.checkers.context.timeline import UNSEEN
from ackproof.checkers.engine.spark.jobs import reconcile_all
from ackproof.checkers.engine.spark.session import CLASSES, session
from ackproof.checkers.engine.work_items import WorkItem
from ackproof.checkers.root_cause.partition_context import NO_CONTEXT
from ackproof.history.storage import written_aside

_NOTHING = WorkItem(
    run=1,
    cell="",
    topic="",
    partition=0,
    sends=[],
    cut=[],
    log=[],
    sends_whole=True,
    log_whole=True,
    read=FinalRead(complete=True, start=0, end=0),
    records=0,
    deleted_before=0,
    fault_bounds=[],
    fault_labels=[None],
    unpromised_before=0,
    unknown_before=0,
    moments=[],
    moment_starts=[],
    moment_ends=[],
    shown_unpromised_before=0,
    shown_unknown_before=0,
    tiered=False,
    consumers=[],
    groups=[],
    brokers=[],
    copies=[],
    compared_to=0,
    uncompared=[],
    agreement="promised",
    timeline=UNSEEN,
    context=NO_CONTEXT,
)


def main() -> None:
    """Create the archive, which takes most of a minute. Raises what PySpark raises without Java,
    and OSError."""
    CLASSES.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(CLASSES) as aside:
        _reconcile([f"-XX:ArchiveClassesAtExit={aside}"])
        # A JVM ignores an archive that another Java created, but it ends if the archive is
        # incomplete, for example after a full disk. No check would ever start again.
        _reconcile([f"-XX:SharedArchiveFile={aside}"])


def _reconcile(java_options: Sequence[str]) -> None:
    """Use Spark as a check does, without any data."""
    with (
        tempfile.TemporaryDirectory(prefix="ackproof-") as scratch,
        session(Path(scratch) / "spark", java_options) as spark,
    ):
        reconcile_all(spark, [_NOTHING], Path(scratch) / "rows")


if __name__ == "__main__":
    main()
