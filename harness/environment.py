"""The environment of a campaign: ``environment.json``, written before its first run.

A history may be checked later on another machine, and the report must not name the software of that
machine. Versions and machine are those of the harness. With the backend ssh, hosts have kernels of
their own, and with docker the image has its own Java.
"""

import os
import platform
import re
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from ackproof.history.storage import AnyPath, write_text
from ackproof.infra.agent.facts import release
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.software import find_java, zookeeper_jars

FILE = "environment.json"


class _EnvironmentDocument(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )


class Versions(_EnvironmentDocument):
    """The versions of the software that a campaign ran with; null for unknown ones."""

    ackproof: str | None = None
    """The version of Ackproof, and so of the bundled broker."""
    commit: str | None = None
    """The commit of the checkout that it ran from, such as `98a943f41c2d`, with `+` after it if
    files of it were changed; null for an installed package."""
    python: str | None = None
    """The version of Python, also of clients and bundled brokers."""
    java: str | None = None
    """The version of the Java that ZooKeeper and Spark run on."""
    spark: str | None = None
    """The version of PySpark."""
    zookeeper: str | None = None
    """The version of the ZooKeeper in PySpark."""
    kafka: str | None = None
    """The releases of the brokers of an external cluster, by the features that they support, such
    as `4.3`; null for other systems."""
    librdkafka: str | None = None
    """The version of the clients' library."""
    aiokafka: str | None = None
    """The version of aiokafka, for `client: aiokafka`."""
    kernel: str | None = None
    """The version of the operating system's kernel: `uname -sr`."""
    distribution: str | None = None
    """The operating system's name, from os-release."""

    @property
    def build(self) -> str:
        """The version and the commit of Ackproof: ``0.2.0 (98a943f41c2d)``. What is unknown is left
        out."""
        commit = self.commit and f"({self.commit})"
        return " ".join(filter(None, (self.ackproof, commit)))


class Machine(_EnvironmentDocument):
    """The machine that a campaign ran on."""

    cores: int
    """The number of processors that the harness could use."""
    memory_mb: int
    """Its memory, in units of 2^20 bytes."""
    architecture: str
    """The architecture of its processors: `uname -m`."""


class Environment(_EnvironmentDocument):
    """The versions and the machine."""

    versions: Versions = Versions()
    machine: Machine | None = None


def found(kafka: str | None = None) -> Environment:
    """Return the versions and the machine of this process. ``kafka``: as in :class:`Versions`."""
    return Environment(
        versions=Versions(
            ackproof=_known(lambda: version("ackproof")),
            commit=_known(lambda: commit_of(Path(str(files("ackproof"))))),
            python=platform.python_version(),
            java=_known(_java),
            spark=_known(lambda: version("pyspark")),
            zookeeper=_known(_zookeeper),
            kafka=kafka,
            librdkafka=_known(_librdkafka),
            aiokafka=_known(lambda: version("aiokafka")),
            kernel=f"{platform.system()} {platform.release()}",
            distribution=_known(lambda: platform.freedesktop_os_release()["PRETTY_NAME"]),
        ),
        machine=Machine(
            cores=len(os.sched_getaffinity(0)),
            memory_mb=psutil.virtual_memory().total >> 20,
            architecture=platform.machine(),
        ),
    )


def write(directory: Path, kafka: str | None = None) -> None:
    """Write the environment into a campaign's results. ``kafka``: as in :class:`Versions`. Raises
    OSError."""
    write_text(directory / FILE, found(kafka).model_dump_json(indent=1) + "\n")


def read(directory: AnyPath) -> Environment:
    """Return the environment in a campaign's results. If it is missing or invalid, everything in it
    is unknown, because no verdict depends on it."""
    try:
        return Environment.model_validate_json((directory / FILE).read_bytes())
    except (OSError, ValidationError):
        return Environment()


def commit_of(package: Path) -> str | None:
    """Return the commit of the checkout that a package is in, with ``+`` after it if files were
    changed, or None for an installed package. Raises OSError without Git."""
    # An installed package may be in the checkout of something else. In ours it consists of links.
    if not ((package.parent / ".git").exists() and (package / "harness").is_symlink()):
        return None
    asked = subprocess.run(
        ["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"],
        cwd=package.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() if asked.returncode == 0 else None


def _known(ask: Callable[[], str | None]) -> str | None:
    try:
        return ask()
    except (InfraError, PackageNotFoundError, OSError, KeyError, ImportError):
        return None


def _java() -> str | None:
    version = re.search(r'^JAVA_VERSION="(.*)"', release(str(find_java())) or "", re.MULTILINE)
    return version[1] if version else None


def _zookeeper() -> str | None:
    named = (re.fullmatch(r"zookeeper-(\d.*)\.jar", jar.name) for jar in zookeeper_jars())
    return next((match[1] for match in named if match), None)


def _librdkafka() -> str:
    from confluent_kafka import libversion

    return str(libversion()[0])
