"""Java and the other programs of this machine that nodes run, and their paths."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ackproof.infra.agent.facts import release
from ackproof.infra.api.interface import InfraError, Software

JAVA_VERSION_MIN = 17
_REMEDY = (
    f"install Java {JAVA_VERSION_MIN} or newer (Debian, Ubuntu: apt-get install "
    "default-jre-headless) or point JAVA_HOME at one"
)


def find_java(environ: Mapping[str, str] | None = None) -> Path:
    """Return the ``java`` program of JAVA_HOME, or of PATH if that is not set.

    ``environ`` is by default the environment of the process. Raises InfraError if there is no Java,
    it does not run, or it is too old.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH"))
    if program is None:
        raise InfraError(f"java is not in PATH, and JAVA_HOME is not set: {_REMEDY}")
    version = _version(program)
    if version < JAVA_VERSION_MIN:
        raise InfraError(f"{program} is Java {version}: {_REMEDY}")
    return Path(program)


@cache
def _version(program: str) -> int:
    try:
        return parse_version(_told_version(program))
    except (OSError, subprocess.SubprocessError) as error:
        raise InfraError(f"{program} does not run ({error}): {_REMEDY}") from error


def _told_version(program: str) -> str:
    if (kept := release(program)) is not None:
        return kept
    answer = subprocess.run(
        [program, "-version"], capture_output=True, text=True, timeout=30, check=True
    )
    return answer.stderr + answer.stdout


def parse_version(text: str) -> int:
    """Return the feature release in the output of ``java -version`` or in the file ``release``.

    It is 17 for ``"17.0.15"``, and 8 for ``"1.8.0_402"``. Raises InfraError if there is no version
    in it.
    """
    found = re.search(r'(?:version |^JAVA_VERSION=)"(?:1\.)?(\d+)', text, re.MULTILINE)
    if found is None:
        raise InfraError(f"{text.strip()!r} contains no version of Java")
    return int(found[1])


# --- programs that nodes run ------------------------------------------------------------------


_JARS = (
    "zookeeper", "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl", "netty",
    "metrics-core", "snappy-java", "commons-io",
)  # fmt: skip
"""The jars that ZooKeeper needs among the 250 of PySpark. With all of them it starts four times
slower."""


def of_this_machine() -> Software:
    """Return this Python, Java, and PySpark's ZooKeeper. Raises InfraError with what is missing."""
    return Software(
        python=sys.executable,
        java=str(find_java()),
        zookeeper_class_path=":".join(map(str, zookeeper_jars())),
    )


def zookeeper_jars() -> list[Path]:
    """Return the jars of ZooKeeper and of what it needs, from PySpark. Raises InfraError without
    it."""
    jars = jars_of_spark(_JARS)
    if not any(path.name.startswith("zookeeper-") for path in jars):
        raise InfraError("the jars of PySpark contain no ZooKeeper: pip install pyspark")
    return jars


def jars_of_spark(names: Sequence[str]) -> list[Path]:
    """Return PySpark's jars of these names, in this order; none for a name that it does not have.

    Raises InfraError without PySpark.
    """
    # PySpark is not imported, since that takes a second, and only its files are needed.
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise InfraError("PySpark, whose jars are needed, is not installed: pip install pyspark")
    directory = Path(spark.origin).parent / "jars"
    return [path for name in names for path in sorted(directory.glob(f"{name}-*.jar"))]


def cached(*names: str) -> Path:
    """Return a place below ``$XDG_CACHE_HOME/ackproof``, by default ``~/.cache/ackproof``."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache.joinpath("ackproof", *names)
