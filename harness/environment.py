"""What a campaign ran with and on: ``environment.json``, written before its first run.

Whoever checks a history later, perhaps on another machine, must not say that it was made with what
is installed there. Versions and machine are the harness's: with the backend ssh, hosts have kernels
of their own, and with docker the image has a Java of its own.
"""

import os
import platform
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from ackproof.history.storage import AnyPath, write_text
from ackproof.infra.agent.facts import release
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.software import find_java, zookeeper_jars

FILE = "environment.json"


class _Told(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )


class Versions(_Told):
    """Of what a campaign ran with; null for what is not known."""

    ackproof: str | None = None
    """Of Ackproof, and so of the bundled broker."""
    python: str | None = None
    """Of Python, that of clients and bundled brokers, too."""
    java: str | None = None
    """Of the Java that ZooKeeper and Spark run on."""
    spark: str | None = None
    """Of PySpark."""
    zookeeper: str | None = None
    """Of the ZooKeeper that PySpark ships."""
    librdkafka: str | None = None
    """Of the clients' library."""
    kernel: str | None = None
    """Of the operating system's kernel: `uname -sr`."""
    distribution: str | None = None
    """The operating system's name, from os-release."""


class Machine(_Told):
    """What a campaign ran on."""

    cores: int
    """Processors that the harness might use."""
    memory_mb: int
    """Its memory, in units of 2^20 bytes."""
    architecture: str
    """Of its processors: `uname -m`."""


class Environment(_Told):
    """Versions and machine."""

    versions: Versions = Versions()
    machine: Machine | None = None


def found() -> Environment:
    """What this process runs with and on."""
    return Environment(
        versions=Versions(
            ackproof=_known(lambda: version("ackproof")),
            python=platform.python_version(),
            java=_known(_java),
            spark=_known(lambda: version("pyspark")),
            zookeeper=_known(_zookeeper),
            librdkafka=_known(_librdkafka),
            kernel=f"{platform.system()} {platform.release()}",
            distribution=_known(lambda: platform.freedesktop_os_release()["PRETTY_NAME"]),
        ),
        machine=Machine(
            cores=len(os.sched_getaffinity(0)),
            memory_mb=psutil.virtual_memory().total >> 20,
            architecture=platform.machine(),
        ),
    )


def write(directory: Path) -> None:
    """Write what is found into a campaign's results. Raises OSError."""
    write_text(directory / FILE, found().model_dump_json(indent=1) + "\n")


def read(directory: AnyPath) -> Environment:
    """What was written there; nothing is known where it was not, or not by us: that is for show,
    and no verdict waits for it."""
    try:
        return Environment.model_validate_json((directory / FILE).read_bytes())
    except (OSError, ValidationError):
        return Environment()


def _known(ask: Callable[[], str | None]) -> str | None:
    try:
        return ask()
    except (InfraError, PackageNotFoundError, OSError, KeyError, ImportError):
        return None


def _java() -> str | None:
    told = re.search(r'^JAVA_VERSION="(.*)"', release(str(find_java())) or "", re.MULTILINE)
    return told[1] if told else None


def _zookeeper() -> str | None:
    named = (re.fullmatch(r"zookeeper-(\d.*)\.jar", jar.name) for jar in zookeeper_jars())
    return next((match[1] for match in named if match), None)


def _librdkafka() -> str:
    from confluent_kafka import libversion

    return str(libversion()[0])
