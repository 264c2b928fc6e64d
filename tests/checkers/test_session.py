"""A check that starts its own Spark, in a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

from ackproof.checkers.engine.spark.session import (
    CLASSES,
    KEPT_MEMORY,
    SparkUnavailable,
    is_same_release,
    require_workers,
)
from ackproof.checkers.engine.spark.tasks import cause, runner
from tests.support.builders.histories import AFTER, BEFORE, DURING, MadeRun, kept, write_campaign

ALONE = """
import pathlib, sys, psutil
from ackproof.checkers.check import check
print(check(pathlib.Path(sys.argv[1])).verdict.value)
print([child.name() for child in psutil.Process().children(recursive=True)])
"""

WITHOUT = """
import pathlib, sys
from ackproof.checkers.engine.spark import session
session.CLASSES = pathlib.Path(sys.argv[1])
with session.session(pathlib.Path(sys.argv[2])) as spark:
    print(spark.range(10).count())
"""


@pytest.mark.spark
def test_a_check_on_its_own_ends_its_jvm_and_leaves_nothing(tmp_path: Path) -> None:
    directory = write_campaign(
        tmp_path / "results", MadeRun(partitions={("t", 0): kept(BEFORE, DURING, AFTER)})
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE, directory],
        cwd=tmp_path,
        # Spark Connect is asked only by --spark-master.
        env={**os.environ, "TMPDIR": str(temporary), "SPARK_REMOTE": "sc://127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.splitlines() == ["pass", "[]"], ended.stderr
    assert "log level" not in ended.stderr
    assert [*temporary.iterdir()] == []
    assert {path.name for path in tmp_path.iterdir()} == {"results", "tmp"}
    assert {path.name for path in directory.iterdir()} == {
        "campaign.yaml",
        "manifest.json",
        "runs",
        "anomalies.parquet",
        "root-causes.parquet",
    }


@pytest.mark.long  # a matter of speed
@pytest.mark.spark
def test_workers_keep_the_memory_that_they_free(spark: SparkSession) -> None:
    def told(_: int) -> tuple[str, dict[str, str | None]]:
        return pa.default_memory_pool().backend_name, {n: os.environ.get(n) for n in names}

    names = list(KEPT_MEMORY)
    (found,) = runner(spark)(told, [0])
    assert found == ("system", KEPT_MEMORY)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_sessions_share_their_classes() -> None:
    assert CLASSES.is_file(), "python -m ackproof.checkers.engine.spark.class_data"
    assert str(CLASSES.resolve()) in Path(f"/proc/{_jvm()}/maps").read_text()


@pytest.mark.long
@pytest.mark.spark
def test_a_session_goes_without_classes_that_are_of_no_use(tmp_path: Path) -> None:
    classes = tmp_path / "classes.jsa"
    classes.write_bytes(b"of another Java" * 1000)
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT, classes, tmp_path / "spark"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.splitlines() == ["10"], ended.stderr
    assert "archive" not in ended.stderr


LOCAL_RELATION_MAX = "spark.sql.execution.arrow.localRelationThreshold"


@pytest.mark.spark
@pytest.mark.parametrize("bytes_max", ["48MB", "1"])
def test_each_task_is_a_partition_of_its_own(spark: SparkSession, bytes_max: str) -> None:
    """And results are in the order of the tasks, also of tasks too large for a local relation."""

    def told(task: str) -> tuple[str, int | None]:
        context = TaskContext.get()
        return task, context and context.partitionId()

    before = spark.conf.get(LOCAL_RELATION_MAX)
    spark.conf.set(LOCAL_RELATION_MAX, bytes_max)
    try:
        found = runner(spark)(told, ["a", "b", "c", "d", "e"])
    finally:
        spark.conf.set(LOCAL_RELATION_MAX, before)
    assert found == [("a", 0), ("b", 1), ("c", 2), ("d", 3), ("e", 4)]


@pytest.mark.spark
@pytest.mark.parametrize("own", [None, "7"])
def test_session_keeps_its_own_parallelism(spark: SparkSession, own: str | None) -> None:
    name = "spark.sql.leafNodeDefaultParallelism"
    if own is not None:
        spark.conf.set(name, own)
    try:
        assert runner(spark)(str, [1, 2, 3]) == ["1", "2", "3"]
        assert spark.conf.get(name, None) == own
    finally:
        spark.conf.unset(name)


@pytest.mark.spark
def test_no_tasks_have_no_results(spark: SparkSession) -> None:
    assert runner(spark)(str, []) == []


@pytest.mark.spark
def test_cause_of_a_failed_task_is_the_exception_it_raised(spark: SparkSession) -> None:
    def fails(_: int) -> None:
        try:
            {}["missing"]
        except KeyError as error:
            raise OSError("the disk\nis full") from error

    with pytest.raises(Exception, match="the disk") as raised:
        runner(spark)(fails, [0])
    assert cause(raised.value) == "OSError: the disk"


@pytest.mark.spark
def test_cause_of_a_dead_worker_is_that_it_died(spark: SparkSession) -> None:
    def dies(task: str) -> str:
        if task == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    with pytest.raises(Exception, match="crashed") as raised:
        runner(spark)(dies, ["lives", "dies"])
    assert cause(raised.value).startswith("SparkException: Python worker exited unexpectedly")
    assert runner(spark)(dies, ["lives"]) == ["lives"]


def test_cause_of_an_error_in_the_jvm_is_its_exception() -> None:
    error = "An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.\n"
    error += ": java.lang.IllegalStateException: stopped SparkContext\n\tat org.apache.Spark"
    assert cause(RuntimeError(error)) == "IllegalStateException: stopped SparkContext"


def test_cause_of_another_error_is_its_first_line() -> None:
    assert cause(ValueError("\n  no such master\n  at org.apache")) == "ValueError: no such master"
    assert cause(ValueError("")) == "ValueError: "


@pytest.mark.spark
def test_workers_that_do_not_find_the_results_are_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    require_workers(spark, tmp_path)
    with pytest.raises(SparkUnavailable, match="put the results on storage that the driver"):
        require_workers(spark, tmp_path / "elsewhere")


def test_servers_of_the_same_feature_release_are_accepted() -> None:
    assert is_same_release("4.3.2", "4.3.0")
    assert not is_same_release("4.0.1", "4.3.0")
    assert not is_same_release("3.5.1", "4.3.0")


START = """
import pathlib, sys
from ackproof.checkers.engine.spark.session import SparkUnavailable, session
try:
    with session(pathlib.Path(sys.argv[1])):
        print("started")
except SparkUnavailable as error:
    print(error)
"""


@pytest.mark.spark
def test_session_without_java_names_the_required_version(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", START, tmp_path / "spark"],
        env={**os.environ, "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.startswith("Spark's JVM did not start; Spark needs Java 17"), ended.stderr


def _jvm() -> int:
    gateway = SparkContext._gateway
    assert gateway is not None
    pid: int = gateway.proc.pid
    return pid
