"""A check on Spark servers of this machine: a standalone master with two workers, and a Spark
Connect server; of results that are here, and of results in a store."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from ackproof.checkers.check import check
from ackproof.infra.machine.waiting import wait_until
from tests.support.builders.histories import (
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
from tests.support.fakes.s3_store import SECRET, Store, store
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = [pytest.mark.spark, pytest.mark.long]

HOME = Path(pyspark.__file__).parent
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
CONNECT_PORT = re.compile(r"Spark Connect server started at: \S+:(\d+)")
CONNECT_PACKAGES = Path(os.environ.get("ACKPROOF_CONNECT", Path(sys.prefix) / "connect"))
"""The packages of Spark Connect's client, beside the environment: with pandas in it, each process
that uses Arrow would import it."""
WELL = kept(BEFORE, DURING, AFTER)

CHECK = """
import sys
from ackproof.checkers.check import check
from ackproof.history.storage import located
result = check(located(sys.argv[2]), master=sys.argv[1])
print(result.verdict.value)
"""
IN_SLICES = """
import pathlib, sys
from ackproof.checkers.check import evidence
from ackproof.checkers.engine.work_items import work_items
from ackproof.checkers.engine.spark.session import session
from ackproof.checkers.engine.spark.jobs import reconcile_all
from ackproof.history.storage import located
directory = located(sys.argv[2])
(run,), _ = evidence(directory)
with session(pathlib.Path(sys.argv[3]), master=sys.argv[1]) as spark:
    totals = reconcile_all(spark, work_items(run), directory / "rows", slice_rows=1)
print([path.name for path in totals.rows])
print([found.counts["lost"] for _, found in sorted(totals.partitions.items())])
"""
WHERE = """
import pathlib, sys
from ackproof.checkers.engine.spark.session import session
from ackproof.checkers.engine.spark.tasks import runner
def where(_):
    from ackproof import checkers
    return checkers.__file__
with session(pathlib.Path(sys.argv[2]), master=sys.argv[1]) as spark:
    print(runner(spark)(where, [None]))
"""
FAILURES = """
import os, pathlib, signal, sys
from pyspark import TaskContext
from ackproof.checkers.engine.spark.session import SparkUnavailable, require_workers, session
from ackproof.checkers.engine.spark.tasks import cause, runner
def fail(task):
    if task == "raise":
        raise LookupError("no such record")
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return task, TaskContext.get().partitionId()
with session(pathlib.Path(sys.argv[2]), master=sys.argv[1]) as spark:
    run = runner(spark)
    for task in ("raise", "die"):
        try:
            run(fail, ["well", task])
        except Exception as error:
            print(cause(error))
    print(run(fail, ["a", "b", "c"]))
    try:
        require_workers(spark, pathlib.Path(sys.argv[2]) / "elsewhere")
    except SparkUnavailable as error:
        print(error)
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Spark server: its URL, and the environment of programs that ask it and know the store."""

    url: str
    environment: Mapping[str, str]


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


@pytest.fixture(
    scope="module", params=["standalone", pytest.param("connect", marks=pytest.mark.connect)]
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, there: Store
) -> Iterator[Cluster]:
    """A cluster that is told of the store."""
    directory = tmp_path_factory.mktemp("cluster")
    made = {"standalone": standalone, "connect": connect}[request.param]
    with made(directory, there) as found:
        yield found


@contextmanager
def standalone(directory: Path, there: Store) -> Iterator[Cluster]:
    """A standalone master with two workers of one core each."""
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
        yield Cluster(url, there.environment)


@contextmanager
def connect(directory: Path, there: Store) -> Iterator[Cluster]:
    """A Spark Connect server with workers on two cores, as sbin/start-connect-server.sh starts
    it."""
    assert CONNECT_PACKAGES.is_dir(), "make test-connect installs Spark Connect's packages"
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(directory),
    }
    arguments = [f"--conf={name}={value}" for name, value in settings.items()]
    service = "org.apache.spark.sql.connect.service.SparkConnectServer"
    started = server(
        "SparkSubmit",
        directory / "connect.log",
        *("--class", service, "--master", "local[2]", *arguments, "spark-internal"),
        told={**there.environment, "PYSPARK_PYTHON": sys.executable},
    )
    with started as log:
        wait_until(lambda: CONNECT_PORT.search(log.read_text()) is not None, PATIENCE_S, "Connect")
        (port,) = CONNECT_PORT.findall(log.read_text())
        path = os.pathsep.join([*sys.path, str(CONNECT_PACKAGES)])
        yield Cluster(f"sc://127.0.0.1:{port}", {**there.environment, "PYTHONPATH": path})


def by_itself(program: str, cluster: Cluster, *arguments: str | Path) -> str:
    """Run a program in a process of its own, with the cluster's URL as its first argument, and
    return what it prints."""
    spark = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(
        [sys.executable, "-c", program, cluster.url, *arguments],
        env={**os.environ, **cluster.environment, **spark},
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
    """Write a campaign of three cells, of which the last two lost a record."""
    topics = {"t": WELL, "u": losing(WELL, 1), "v": losing(WELL, 2)}
    made = MadeRun(
        partitions={(topic, 0): of for topic, of in topics.items()},
        cells=[cell(name=topic, topic=topic) for topic in topics],
        faults=a_fault(partitions=[f"{topic}-0" for topic in topics]),
    )
    return write_campaign(directory, made)


def test_check_on_a_cluster_finds_the_same_anomalies_as_a_local_check(
    tmp_path: Path, cluster: Cluster, spark: SparkSession
) -> None:
    directory = campaign(tmp_path / "results")
    verdict = by_itself(CHECK, cluster, directory)
    there = found(directory)
    assert check(directory, spark=spark).verdict.value == verdict == "fail"
    assert found(directory) == there
    assert len(there) == 2


SPLIT = ["['oversized-0', 'oversized-1', 'oversized-2']", "[0, 1, 1]"]


def test_partitions_are_split_on_a_cluster(tmp_path: Path, cluster: Cluster) -> None:
    results, scratch = campaign(tmp_path / "results"), tmp_path / "spark"
    assert by_itself(IN_SLICES, cluster, results, scratch).splitlines() == SPLIT


def test_results_in_a_store_are_checked_there(
    tmp_path: Path, cluster: Cluster, there: Store, spark: SparkSession
) -> None:
    """Everything that is written is there, too, and nothing of what lets us in."""
    directory = campaign(tmp_path / "results")
    uri = there.copy(directory, "run")
    before = there.holds("run")
    verdict = by_itself(CHECK, cluster, uri)
    held = there.holds("run")
    assert held.keys() - before.keys() == {"anomalies.parquet", "root-causes.parquet"}
    assert not [name for name, content in held.items() if SECRET.encode() in content]
    assert check(directory, spark=spark).verdict.value == verdict == "fail"
    copied = tmp_path / "copied"
    copied.mkdir()
    (copied / "anomalies.parquet").write_bytes(held["anomalies.parquet"])
    assert found(copied) == found(directory)


def test_partitions_in_a_store_are_split_there(
    tmp_path: Path, cluster: Cluster, there: Store
) -> None:
    uri = there.copy(campaign(tmp_path / "results"), "split")
    scratch = tmp_path / "spark"
    assert by_itself(IN_SLICES, cluster, uri, scratch).splitlines() == SPLIT


def test_workers_run_the_shipped_code(tmp_path: Path, cluster: Cluster) -> None:
    """And not what happens to be installed there."""
    assert "ackproof.zip" in by_itself(WHERE, cluster, tmp_path)


def test_cluster_names_the_cause_of_a_failed_task(tmp_path: Path, cluster: Cluster) -> None:
    """And carries out the next job, whose tasks are partitions of their own."""
    raised, died, well, unreachable = by_itself(FAILURES, cluster, tmp_path).splitlines()
    assert raised == "LookupError: no such record"
    assert "Python worker exited unexpectedly" in died
    assert well == "[('a', 0), ('b', 1), ('c', 2)]"
    assert unreachable.startswith(f"Spark's workers cannot find {tmp_path / 'elsewhere'}")


@pytest.mark.connect
def test_check_names_a_spark_connect_server_that_does_not_answer(tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "ackproof.harness", "check"),
            *(campaign(tmp_path / "results"), "--spark-master", "sc://127.0.0.1:1/;user_id=us"),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(CONNECT_PACKAGES)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 5, ended.stdout
    assert "no Spark Connect server answered at sc://127.0.0.1:1 within" in ended.stderr
    assert "Traceback" not in ended.stderr
