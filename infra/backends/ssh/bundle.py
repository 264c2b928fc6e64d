"""The packages that are put on hosts, in files that are named after their content.

The agent is a zip file that Python runs. The sources are one of the rooms that run on nodes, and
the jars one of ZooKeeper's. The same content gives the same bytes and therefore the same name.
"""

import hashlib
import io
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import TypeVar

from ackproof.infra.machine.software import zookeeper_jars

T = TypeVar("T")


def once(find: Callable[[], T]) -> Callable[[], T]:
    """Return ``find`` with a memory of its result.

    When several threads call it at the same time, one computes and the others wait. With
    ``functools.cache`` alone each would compute.
    """
    kept = cache(find)
    lock = threading.Lock()

    @wraps(find)
    def found() -> T:
        with lock:
            return kept()

    return found


# --- packages ---------------------------------------------------------------------------------


PROJECT = Path(__file__).parents[4]
ROOMS = ("ackproof/broker", "ackproof/history", "ackproof/plugins", "ackproof/workloads")
"""The rooms that run on nodes, and those that they import."""

_TOP = "ackproof/__init__.py"
_AGENT = (
    _TOP, "ackproof/infra/__init__.py", "ackproof/infra/agent/*.py",
    "ackproof/infra/machine/__init__.py", "ackproof/infra/machine/identity.py",
    "ackproof/infra/machine/waiting.py", "ackproof/infra/backends/__init__.py",
    "ackproof/infra/backends/ssh/__init__.py", "ackproof/infra/backends/ssh/remote/*.py",
)  # fmt: skip
_MAIN = b"""\
import sys
from ackproof.infra.backends.ssh.remote.main import main
main(sys.argv[1:])
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Package:
    """A package for hosts, whose ``name`` has a hash of its content."""

    name: str
    content: bytes


@once
def agent() -> Package:
    """Return the agent, which runs as ``python3 -I -S <file> serve``."""
    files = {str(path.relative_to(PROJECT)): path.read_bytes() for path in _matching(_AGENT)}
    files["__main__.py"] = _MAIN
    return Package(f"agent-{_digest(files)}.pyz", _zipped(files))


@once
def sources() -> Package:
    """Return the rooms that run on nodes, for PYTHONPATH."""
    files = {str(path.relative_to(PROJECT)): path.read_bytes() for path in room_sources()}
    return _package("sources", files)


@once
def jars() -> Package:
    """Return ZooKeeper and what it needs. Raises InfraError without PySpark."""
    return _package("zookeeper", {path.name: path.read_bytes() for path in zookeeper_jars()})


def room_sources() -> list[Path]:
    """Return the modules of the rooms that run on nodes."""
    modules = (path for room in ROOMS for path in (PROJECT / room).rglob("*.py"))
    return [PROJECT / _TOP, *sorted(modules)]


def digest_of(names: Iterable[str]) -> str:
    """Return a name for a set of names."""
    return _digest(dict.fromkeys(names, b""))


def _matching(patterns: Iterable[str]) -> Iterable[Path]:
    return (path for pattern in patterns for path in PROJECT.glob(pattern))


def _package(kind: str, files: Mapping[str, bytes]) -> Package:
    return Package(f"{kind}-{_digest(files)}", _zipped(files))


def _zipped(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return packed.getvalue()


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
