"""Spark sessions: in this process, on a cluster, or of a Spark Connect server.

A local session is small and quiet and leaves nothing behind. All files that Spark and its JVM write
on this machine are in a scratch directory of the caller. The JVM ends with this process, even after
kill -9, because it ends when its pipe closes.

On a cluster the user's own settings apply, as for any application: ``SPARK_CONF_DIR`` with
``spark-defaults.conf``, and ``PYSPARK_PYTHON`` for the Python of the workers. With
``spark-submit``, the master and the settings come from there, and the JVM is spark-submit's.

With Spark Connect there is no local JVM. Settings, scratch space and workers are those of the
server. Its client needs the packages of the extra ``connect``.
"""

import os
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ackproof.checkers.engine.spark.tasks import cause, runner
from ackproof.history.storage import AnyPath, located

DRIVER_MEMORY = "1g"
"""The heap of the JVM. It holds work items and sums. The Python workers read the histories."""

CLASSES = Path(sys.prefix) / "var" / "ackproof" / f"spark-{pyspark.__version__}.jsa"
"""The archive of classes that sessions share (:mod:`checkers.engine.spark.class_data`), some 200
MB. If it is missing or was created by another Java, a session takes twice as long to start."""

LOCAL = "local[*]"
"""The default master: all cores of this machine, in one JVM."""

CONNECT = "sc://"
"""The scheme of Spark Connect's URLs."""

_ANSWER_S = 15
"""The time in seconds within which a Spark Connect server must accept a connection. PySpark itself
retries for ten minutes."""

_SHIPPED = ("checkers", "history", "plugins")
"""The packages that tasks import. Libraries (PyArrow, NumPy, kio) must be installed on workers."""

_LOOPBACK = "127.0.0.1"
_OF_MODULES = b"WARNING: Using incubator modules"


class SparkUnavailable(ConnectionError):
    """A session that cannot be started, or whose workers cannot run a check. The message has the
    reason and what to do."""


@contextmanager
def session(
    scratch: Path, java_options: Sequence[str] | None = None, master: str | None = None
) -> Iterator[SparkSession]:
    """Start a session, and end it with the context.

    Args:
        scratch: Directory for the session's files on this machine, made if it is missing.
        java_options: Further options of a JVM that is started here. By default those that have it
            share its classes.
        master: Spark's URL of a cluster, e.g. ``spark://host:7077``, ``yarn``; or of a Spark
            Connect server, ``sc://host:15002``. Without it: all cores of this machine, or the
            master of ``spark-submit``.

    Raises:
        SparkUnavailable: There is no Java 17 or newer here, no such master or server, the server
            runs another release of Spark, or packages of Spark Connect are missing.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    if master is not None and master.startswith(CONNECT):
        started = _connected(master)
    else:
        started = _started(scratch.resolve(), java_options, master)
    with started as spark:
        if not is_local(master):
            with _unavailable(
                "the Python modules that Spark tasks need cannot be shipped to its workers"
            ):
                spark.addArtifacts(str(_packed(scratch / "ackproof.zip")), pyfile=True)
        yield spark


def is_local(master: str | None) -> bool:
    """Return whether the workers of a session with this master are local processes that it
    starts."""
    return (master or LOCAL).startswith("local") and not _is_submitted()


def _is_submitted() -> bool:
    """Return whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def require_workers(spark: SparkSession, directory: AnyPath) -> None:
    """Raise SparkUnavailable unless the session's workers can run a task with the shipped modules
    and find this directory."""
    with _unavailable("Spark's workers execute no task"):
        (there,) = runner(spark)(_is_directory, [str(directory)])
    if not there:
        raise SparkUnavailable(
            f"Spark's workers cannot find {directory}: put the results on storage that the "
            "driver and all workers have at the same path, or in a store (s3a:, gs:, hdfs:)"
        )


def _is_directory(name: str) -> bool:
    return located(name).is_dir()


def _packed(path: Path) -> Path:
    """Write the modules that tasks import into a zip file, for workers that do not have them.
    Raises OSError."""
    package = Path(str(files("ackproof")))
    modules = (found for room in _SHIPPED for found in sorted((package / room).rglob("*.py")))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packing:
        for module in (package / "__init__.py", *modules):
            packing.write(module, module.relative_to(package.parent))
    return path


@contextmanager
def _connected(url: str) -> Iterator[SparkSession]:
    """Start a session of the Spark Connect server at ``url``. Raises SparkUnavailable."""
    with _environment(_OF_CONNECT):
        endpoint = _answering(url)
        refused = f"the Spark Connect server at {endpoint} opened no session"
        with _unavailable(refused):
            spark = SparkSession.builder.remote(url).create()
        try:
            with _unavailable(refused):
                theirs = spark.version
            if not is_same_release(theirs, pyspark.__version__):
                # Functions are pickled here and run by the server's PySpark.
                raise SparkUnavailable(
                    f"{refused}: the server runs Spark {theirs}, but PySpark "
                    f"{pyspark.__version__} is installed here. Run pip install "
                    f"pyspark=={theirs}, or name another server"
                )
            yield spark
        finally:
            spark.stop()


_OF_CONNECT: Mapping[str, str | None] = {
    # PySpark sets this variable with the first such session and leaves it. Later sessions of this
    # process would then use Spark Connect, too.
    "SPARK_CONNECT_MODE_ENABLED": "1",
    # These variables would name another master or another server.
    "MASTER": None,
    "SPARK_REMOTE": None,
}


@contextmanager
def _unavailable(what: str) -> Iterator[None]:
    """Turn what PySpark raises into SparkUnavailable, with what failed and why."""
    try:
        yield
    except Exception as error:
        raise SparkUnavailable(f"{what}: {cause(error)}") from error


def _answering(url: str) -> str:
    """Return the host and port of the server once it accepts a connection. The URL itself may
    contain a token. Raises SparkUnavailable."""
    try:
        import grpc
        from pyspark.sql.connect.client import DefaultChannelBuilder
    except ImportError as error:
        raise SparkUnavailable(
            f"Spark Connect needs further packages: run pip install 'ackproof[connect]' ({error})"
        ) from error
    builder = DefaultChannelBuilder(url)
    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_ANSWER_S)
        except grpc.FutureTimeoutError:
            raise SparkUnavailable(
                f"no Spark Connect server answered at {CONNECT}{builder.endpoint} within "
                f"{_ANSWER_S} s: check that it is started (sbin/start-connect-server.sh) and "
                "that this is its port (spark.connect.grpc.binding.port)"
            ) from None
    return builder.endpoint


def is_same_release(theirs: str, ours: str) -> bool:
    """Return whether two versions of Spark are of one feature release (4.3.0 and 4.3.2 are)."""
    return theirs.split(".")[:2] == ours.split(".")[:2]


@contextmanager
def _started(
    directory: Path, java_options: Sequence[str] | None, master: str | None
) -> Iterator[SparkSession]:
    """Start a session with a driver on this machine. Its JVM is started here and ends with the
    context, or it is that of spark-submit or of a caller. Raises SparkUnavailable."""
    ours = SparkContext._gateway is None and not _is_submitted()
    try:
        spark = _start(directory, java_options, master, with_jvm=ours)
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        if ours:
            _end_jvm()


def _start(
    directory: Path, java_options: Sequence[str] | None, master: str | None, *, with_jvm: bool
) -> SparkSession:
    local = is_local(master)
    if java_options is None:
        java_options = [f"-XX:SharedArchiveFile={CLASSES}"] if CLASSES.exists() else []
    log_settings = files("ackproof.checkers.engine.spark") / "log4j2.properties"
    with as_file(log_settings) as log_file, _environment(_of_driver(directory, local=local)):
        settings = {"spark.app.name": "ackproof", **_ALWAYS}
        if not _is_submitted():
            settings["spark.master"] = master or LOCAL
            settings |= _settings(directory, log_file, java_options)
            settings |= _here(directory) if local else {}
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        if with_jvm:
            with _unavailable("Spark's JVM did not start; Spark needs Java 17 or newer"):
                _start_jvm(conf)
        with _unavailable(f"Spark did not start on {master or LOCAL}"):
            return SparkSession.builder.config(conf=conf).getOrCreate()


def _of_driver(scratch: Path, *, local: bool) -> Mapping[str, str | None]:
    """Return the environment of a driver. On a cluster, the user chooses the Python of the
    workers."""
    if not local:
        return {**_CLASSIC, "SPARK_LOCAL_DIRS": str(scratch)}
    return {**_CLASSIC, "SPARK_LOCAL_IP": _LOOPBACK, "PYSPARK_PYTHON": sys.executable}


_CLASSIC: Mapping[str, str | None] = {"SPARK_REMOTE": None, "SPARK_API_MODE": None}
"""Variables to unset. With them, PySpark would use a Spark Connect server, which only
``--spark-master`` may choose."""


KEPT_MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the greatest value that every glibc accepts
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""The environment of the workers, which makes them keep freed memory (mallopt(3), and the same
for Arrow). A worker builds the same columns for one partition after the other. Without these
settings the kernel would clear the pages for each of them again, which took up to a third of the
time. The greatest use of memory is still that of the largest partition."""

_ALWAYS = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
    # A plan runs once and on few rows. Compiling it takes longer than interpreting it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.showConsoleProgress": "false",
    **{f"spark.executorEnv.{name}": value for name, value in KEPT_MEMORY.items()},
    # Workers start in the user's working directory and must not import anything from it.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}


def _settings(scratch: Path, log_file: Path, java_options: Sequence[str]) -> dict[str, str]:
    """Return the settings of a JVM that is started here."""
    options = (
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={log_file.as_uri()}",
        "-XX:-UsePerfData",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # a quick start beats fast code here
        "-Xlog:cds*=error",  # no message about an archive that cannot be used
        *java_options,
    )
    return {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
    }


def _here(scratch: Path) -> dict[str, str]:
    """Return settings that make Spark reachable from this machine only."""
    return {
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.local.dir": str(scratch),
    }


@contextmanager
def _environment(settings: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables, or unset those that are None, and restore them at the end. PySpark
    passes some settings to the JVM and to its workers through the environment only."""
    before = {name: os.environ.get(name) for name in settings}
    _set_variables(settings)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _start_jvm(conf: SparkConf) -> None:
    """Start the JVM as PySpark does, but drop its warning about Spark's modules, which would appear
    on the terminal at every start. Raises what PySpark raises."""
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
    """End the JVM if it was started here. PySpark would keep it for the next session, with open
    files in a scratch directory that is about to be removed."""
    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
