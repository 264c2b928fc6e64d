"""A check that starts its own Spark, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from made_histories import AFTER, BEFORE, DURING, MadeRun, kept, write_campaign
from pyspark.sql import SparkSession

from ackproof.checkers.spark.session import CLASSES, KEPT_MEMORY

ALONE = """
import pathlib, sys, psutil
from ackproof.checkers.check import check
print(check(pathlib.Path(sys.argv[1])).verdict.value)
print([child.name() for child in psutil.Process().children(recursive=True)])
"""

WITHOUT = """
import pathlib, sys
from ackproof.checkers.spark import session
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
        env={**os.environ, "TMPDIR": str(temporary)},
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
        "autopsies.parquet",
    }


@pytest.mark.long  # a matter of speed
@pytest.mark.spark
def test_workers_keep_the_memory_that_they_free(spark: SparkSession) -> None:
    def told(_: int) -> tuple[str, dict[str, str | None]]:
        return pa.default_memory_pool().backend_name, {n: os.environ.get(n) for n in names}

    names = list(KEPT_MEMORY)
    (found,) = spark.sparkContext.parallelize([0], 1).map(told).collect()
    assert found == ("system", KEPT_MEMORY)


@pytest.mark.spark
def test_sessions_share_their_classes(spark: SparkSession) -> None:
    assert CLASSES.is_file(), "python -m ackproof.checkers.spark.class_data"
    assert str(CLASSES) in Path(f"/proc/{_jvm(spark)}/maps").read_text()


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


def _jvm(spark: SparkSession) -> int:
    pid: int = spark.sparkContext._gateway.proc.pid
    return pid
