"""The execution of functions on Spark's workers, one Spark task each.

Tasks go through Spark's DataFrame API, so that the same code serves a session in this process, a
cluster, and Spark Connect, which has no RDDs. Each task is one row of a local relation: its place,
and its pickled argument. A Python UDF runs it and returns the pickled result. Spark partitions a
local relation by ``spark.sql.leafNodeDefaultParallelism``. With one partition for each row, each
task is a Spark task of its own.

The UDF exchanges bytes instead of Arrow batches. ``mapInArrow`` needs pandas in the driver of a
classic session, and every process with pandas imports it as soon as it uses Arrow.
"""

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

from ackproof.checkers.engine.oversized_partitions import TaskRunner

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_PARALLELISM = "spark.sql.leafNodeDefaultParallelism"

_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:(?:[ \t].*)?\n)*(\S.*)")
"""The exception at the end of a Python traceback."""

_LAST_ATTEMPT = re.compile(
    r"most recent failure: (?:Lost task \S+ in stage \S+ \(TID \d+\) \(.*?\): )?(\S.*)"
)
"""The reason that Spark gives for the last attempt of a failed task."""

_JAVA = re.compile(r"^: (\S.*)", re.MULTILINE)
"""The Java exception that Py4J reports, below the method that was called."""

_PACKAGE = re.compile(r"^(?:[a-z]\w*\.)+(?=[A-Z])")
"""The Java package before the name of an exception."""

CAUSE_MAX = 300
"""The greatest length of a cause in a message."""


def runner(spark: SparkSession) -> TaskRunner:
    """Return a function that runs tasks in one job of this session.

    It raises what PySpark raises if a task fails as often as Spark tries it (:func:`cause`).
    """

    def run(function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        if not tasks:
            return []

        def carried_out(task: bytes) -> bytes:
            return pickle.dumps(function(pickle.loads(task)))

        # Each task is a chunk of its own. If all are too large for a local relation
        # (spark.sql.execution.arrow.localRelationThreshold), Spark makes a partition of each chunk.
        pickled = pa.chunked_array([[pickle.dumps(task)] for task in tasks], pa.binary())
        frame = spark.createDataFrame(pa.table({"place": range(len(tasks)), "task": pickled}))
        result = udf(carried_out, BinaryType(), useArrow=False)("task")
        with _partitions(spark, len(tasks)):
            rows = frame.select("place", result.alias("result")).collect()
        return [pickle.loads(row["result"]) for row in sorted(rows, key=itemgetter("place"))]

    return run


@contextmanager
def _partitions(spark: SparkSession, number: int) -> Iterator[None]:
    """Make Spark divide a local relation into this many partitions. The session may be the
    caller's, so its own setting is restored."""
    before = spark.conf.get(_PARALLELISM, None)
    spark.conf.set(_PARALLELISM, number)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_PARALLELISM)
        else:
            spark.conf.set(_PARALLELISM, before)


def cause(error: Exception) -> str:
    """Return in one line why Spark failed: the exception that Python code raised, the reason for
    the last attempt of a task, the exception of the JVM, or else the first line of the message."""
    text = str(error)
    for pattern in (_RAISED, _LAST_ATTEMPT, _JAVA):
        if found := pattern.findall(text):
            return _PACKAGE.sub("", found[-1].strip())[:CAUSE_MAX]
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}"[:CAUSE_MAX]
