"""A Spark session of our own: local, small, quiet, and gone without a trace.

Everything Spark and its JVM put on disk goes to a scratch directory of the caller's. The JVM dies
with this process, by kill -9 too: it ends when the pipe to it closes.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

DRIVER_MEMORY = "1g"
"""Heap of the JVM. It holds work items and sums; histories are read by the Python workers."""

CLASSES = Path(sys.prefix) / "var" / "ackproof" / f"spark-{pyspark.__version__}.jsa"
"""The classes that sessions share (:mod:`checkers.class_data`), some 200 MB. Where it is missing,
or another Java made it, a session takes twice as long to start."""

_ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


@contextmanager
def session(scratch: Path, java_options: Sequence[str] | None = None) -> Iterator[SparkSession]:
    """A session on all cores of this machine, with files in ``scratch`` (made when not there).

    ``java_options``, further ones, are by default those that have it share its classes.

    Ends the session and, if it was started here, the JVM. Raises what PySpark raises when there is
    no Java 17 or newer.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    ours = SparkContext._gateway is None
    if java_options is None:
        java_options = [f"-XX:SharedArchiveFile={CLASSES}"] if CLASSES.exists() else []
    log_settings = files("checkers") / "log4j2.properties"
    with as_file(log_settings) as log_file, _environment(_ENVIRONMENT):
        builder = SparkSession.builder.master("local[*]").appName("ackproof")
        for name, value in _settings(scratch.resolve(), log_file, java_options).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
        if ours:
            _end_jvm()


def _settings(scratch: Path, log_file: Path, java_options: Sequence[str]) -> dict[str, str]:
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
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
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


def _end_jvm() -> None:
    """PySpark keeps its JVM for the next session; ours would keep files open in a scratch
    directory that is about to go."""
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
