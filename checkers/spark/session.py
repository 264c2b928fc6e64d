"""A Spark session of our own: small, quiet, and gone without a trace; on this machine, or on a
cluster of Spark's.

Everything Spark and its JVM put on this machine's disk goes to a scratch directory of the caller's.
The JVM dies with this process, by kill -9 too: it ends when the pipe to it closes.

Of a cluster the user's own settings hold, as of any application: ``SPARK_CONF_DIR`` with
``spark-defaults.conf``, ``PYSPARK_PYTHON`` for the Python of the workers. Whoever starts us with
``spark-submit`` has given master and settings there, and the JVM is his.
"""

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ackproof.checkers.spark.shipping import packed

DRIVER_MEMORY = "1g"
"""Heap of the JVM. It holds work items and sums; histories are read by the Python workers."""

CLASSES = Path(sys.prefix) / "var" / "ackproof" / f"spark-{pyspark.__version__}.jsa"
"""The classes that sessions share (:mod:`checkers.spark.class_data`), some 200 MB. Where it is
missing, or another Java made it, a session takes twice as long to start."""

LOCAL = "local[*]"
"""The master where none is given: all cores of this machine, in one JVM."""

_LOOPBACK = "127.0.0.1"
_OF_MODULES = b"WARNING: Using incubator modules"


@contextmanager
def session(
    scratch: Path, java_options: Sequence[str] | None = None, master: str | None = None
) -> Iterator[SparkSession]:
    """A session with files in ``scratch`` (made when not there).

    ``java_options``, further ones, are by default those that have it share its classes. ``master``:
    Spark's URL of a cluster, e.g. ``spark://host:7077``, ``yarn``; without it, all cores of this
    machine, or the master of ``spark-submit``.

    Ends the session and, if it was started here, the JVM. Raises what PySpark raises when there is
    no Java 17 or newer, or no such master.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    ours = SparkContext._gateway is None and not submitted
    local = (master or LOCAL).startswith("local") and not submitted
    if java_options is None:
        java_options = [f"-XX:SharedArchiveFile={CLASSES}"] if CLASSES.exists() else []
    log_settings = files("ackproof.checkers.spark") / "log4j2.properties"
    directory = scratch.resolve()
    with as_file(log_settings) as log_file, _environment(_of_driver(directory, local=local)):
        settings = {"spark.app.name": "ackproof", **_ALWAYS}
        if not submitted:
            settings["spark.master"] = master or LOCAL
            settings |= _settings(directory, log_file, java_options)
            settings |= _here(directory) if local else {}
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        if ours:
            _start_jvm(conf)
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    try:
        if not local:
            spark.sparkContext.addPyFile(str(packed(scratch / "ackproof.zip")))
        yield spark
    finally:
        spark.stop()
        if ours:
            _end_jvm()


def _of_driver(scratch: Path, *, local: bool) -> Mapping[str, str]:
    """Of its environment. What is said of the workers of a cluster is the user's to say."""
    if not local:
        return {"SPARK_LOCAL_DIRS": str(scratch)}
    return {"SPARK_LOCAL_IP": _LOOPBACK, "PYSPARK_PYTHON": sys.executable}


KEPT_MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the most that every glibc takes
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""The environment of the workers: what they free they keep (mallopt(3); Arrow with it). A worker
builds the same columns for one partition after the other, and the kernel would clear each page for
each of them anew: that was up to a third of its time. What it holds at most stays what its largest
partition takes."""

_ALWAYS = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
    **{f"spark.executorEnv.{name}": value for name, value in KEPT_MEMORY.items()},
    # Workers start in the user's working directory, and import nothing from it.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}


def _settings(scratch: Path, log_file: Path, java_options: Sequence[str]) -> dict[str, str]:
    """Of the JVM that we start."""
    options = (
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={log_file.as_uri()}",
        "-XX:-UsePerfData",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # the JVM only hands data on: a quick start beats hot code
        "-Xlog:cds*=error",  # nothing of an archive that cannot be used
        *java_options,
    )
    return {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
    }


def _here(scratch: Path) -> dict[str, str]:
    """Where nobody else is to reach it."""
    return {
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.local.dir": str(scratch),
    }


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """PySpark hands these to the JVM and to its workers through the environment alone."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start_jvm(conf: SparkConf) -> None:
    """As PySpark does, but for what the JVM says of Spark's modules each time, to everybody's
    terminal. Raises what PySpark raises."""
    said, saying = os.pipe()
    try:
        gateway = launch_gateway(conf, {"stderr": saying})  # type: ignore[no-untyped-call]
    finally:
        os.close(saying)
        threading.Thread(target=_relay, args=(said,), name="spark-stderr", daemon=True).start()
    SparkContext._ensure_initialized(gateway=gateway)


def _relay(said: int) -> None:
    with open(said, "rb") as lines:
        for line in lines:
            if not line.startswith(_OF_MODULES):
                sys.stderr.write(line.decode(errors="replace"))


def _end_jvm() -> None:
    """PySpark keeps its JVM for the next session; ours would keep files open in a scratch
    directory that is about to go."""
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
