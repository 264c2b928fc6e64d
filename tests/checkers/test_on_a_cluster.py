"""A check on a cluster of Spark's own: a standalone master and two workers, on this machine; of
results that are here, and of results in a store."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

import pyarrow.parquet as pq
import pyspark
import pytest
from made_histories import (
    AFTER,
    BEFORE,
    DURING,
    MadeRun,
    a_fault,
    cell,
    kept,
    losing,
    write_campaign,
)
from patience import PATIENCE_S
from pyspark.sql import SparkSession
from s3_store import SECRET, Store, store

from ackproof.checkers.check import check
from ackproof.infra.machine.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

HOME = Path(pyspark.__file__).parent
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
WELL = kept(BEFORE, DURING, AFTER)

CHECK = """
import sys
from ackproof.checkers.check import check
from ackproof.history.storage import located
result = check(located(sys.argv[1]), master=sys.argv[2])
print(result.verdict.value)
"""
IN_SLICES = """
import pathlib, sys
from ackproof.checkers.check import evidence
from ackproof.checkers.reconciling.items import work_items
from ackproof.checkers.spark.session import session
from ackproof.checkers.spark.jobs import reconcile_all
from ackproof.history.storage import located
directory = located(sys.argv[1])
(run,), _ = evidence(directory)
with session(pathlib.Path(sys.argv[3]), master=sys.argv[2]) as spark:
    totals = reconcile_all(spark, work_items(run), directory / "rows", slice_rows=1)
print([path.name for path in totals.rows])
print([found.counts["lost"] for _, found in sorted(totals.partitions.items())])
"""
WHERE = """
import pathlib, sys
from ackproof.checkers.spark.session import session
def where(_):
    from ackproof import checkers
    return checkers.__file__
with session(pathlib.Path(sys.argv[1]), master=sys.argv[2]) as spark:
    print(spark.sparkContext.parallelize([0], 1).map(where).first())
"""


@contextmanager
def server(
    kind: str, log: Path, *arguments: str, told: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Path]:
    """A server of Spark's, whose output goes to ``log``. ``told``: in its environment."""
    environment = {**os.environ, **told, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(HOME)}
    # Of this project they are to know what is shipped, and nothing else.
    environment.pop("PYTHONPATH", None)
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=log.parent, env=environment, stdout=output, stderr=output
        )
    try:
        yield log
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with store(tmp_path_factory.mktemp("store") / "log") as found:
        yield found


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory, there: Store) -> Iterator[str]:
    """The URL of a cluster with two workers of one core each, which are told of the store."""
    directory = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        free = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = stack.enter_context(server("master.Master", directory / "master.log", *free))
        wait_until(lambda: MASTER.search(log.read_text()) is not None, PATIENCE_S, "the master")
        (url,) = MASTER.findall(log.read_text())
        for number in (1, 2):
            its = directory / f"worker-{number}"
            arguments = (*free, "--cores", "1", "--memory", "1g", "--work-dir", str(its), url)
            stack.enter_context(
                server(
                    "worker.Worker",
                    directory / f"worker-{number}.log",
                    *arguments,
                    told=there.environment,
                )
            )
        wait_until(
            lambda: log.read_text().count("Registering worker") == 2, PATIENCE_S, "the workers"
        )
        yield url


def by_itself(
    program: str, *arguments: str | Path, told: Mapping[str, str] = MappingProxyType({})
) -> str:
    """What a program says, in a process of its own. ``told``: in its environment."""
    spark = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **told, **spark},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def found(directory: Path) -> Sequence[str]:
    rows = pq.read_table(directory / "anomalies.parquet").to_pylist()
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def campaign(directory: Path) -> Path:
    """Of three cells, of which the last two lost a record."""
    topics = {"t": WELL, "u": losing(WELL, 1), "v": losing(WELL, 2)}
    made = MadeRun(
        partitions={(topic, 0): of for topic, of in topics.items()},
        cells=[cell(name=topic, topic=topic) for topic in topics],
        faults=a_fault(partitions=[f"{topic}-0" for topic in topics]),
    )
    return write_campaign(directory, made)


def test_it_finds_there_what_it_finds_here(
    tmp_path: Path, master: str, spark: SparkSession
) -> None:
    directory = campaign(tmp_path / "results")
    verdict = by_itself(CHECK, directory, master)
    there = found(directory)
    assert check(directory, spark=spark).verdict.value == verdict == "fail"
    assert found(directory) == there
    assert len(there) == 2


SPLIT = ["['giant-0', 'giant-1', 'giant-2']", "[0, 1, 1]"]


def test_partitions_are_split_there_too(tmp_path: Path, master: str) -> None:
    results, scratch = campaign(tmp_path / "results"), tmp_path / "spark"
    assert by_itself(IN_SLICES, results, master, scratch).splitlines() == SPLIT


def test_results_in_a_store_are_checked_there(
    tmp_path: Path, master: str, there: Store, spark: SparkSession
) -> None:
    """Everything that is written is there, too, and nothing of what lets us in."""
    directory = campaign(tmp_path / "results")
    uri = there.copy(directory, "run")
    before = there.holds("run")
    verdict = by_itself(CHECK, uri, master, told=there.environment)
    held = there.holds("run")
    assert held.keys() - before.keys() == {"anomalies.parquet", "autopsies.parquet"}
    assert not [name for name, content in held.items() if SECRET.encode() in content]
    assert check(directory, spark=spark).verdict.value == verdict == "fail"
    copied = tmp_path / "copied"
    copied.mkdir()
    (copied / "anomalies.parquet").write_bytes(held["anomalies.parquet"])
    assert found(copied) == found(directory)


def test_partitions_in_a_store_are_split_there(tmp_path: Path, master: str, there: Store) -> None:
    uri = there.copy(campaign(tmp_path / "results"), "split")
    scratch = tmp_path / "spark"
    assert by_itself(IN_SLICES, uri, master, scratch, told=there.environment).splitlines() == SPLIT


def test_workers_run_what_was_shipped(tmp_path: Path, master: str) -> None:
    """And not what happens to be installed there."""
    assert "ackproof.zip" in by_itself(WHERE, tmp_path, master)
