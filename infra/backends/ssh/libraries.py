"""The libraries that the rooms on nodes need, in the versions that run on this machine.

Wheels are downloaded on this machine, for the host's Python and architecture, and kept in the
user's cache. Hosts need no access to a package index.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import (
    PackageNotFoundError,
    packages_distributions,
    requires,
    version,
)
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.ssh import bundle
from ackproof.infra.backends.ssh.bundle import once

_OLDEST_GLIBC = 5
_DOWNLOADED_WITHIN_S = 600
_downloading = threading.Lock()


def unavailable() -> str | None:
    """Return why this machine cannot prepare hosts and the remedy, or None if it can."""
    if find_spec("pip") is None:
        return f"pip, which fetches the hosts' libraries, is missing: {sys.executable} -m ensurepip"
    return None


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform that wheels must fit. ``python`` is (3, 11), and ``libc`` glibc's version,
    ``2.36``."""

    python: tuple[int, int]
    machine: str
    libc: str

    @property
    def tag(self) -> str:
        return "cp{}{}".format(*self.python)

    @property
    def options(self) -> list[str]:
        """Return the options of ``pip download``."""
        minor = int(self.libc.partition(".")[2] or _OLDEST_GLIBC)
        platforms = [f"manylinux_2_{n}_{self.machine}" for n in range(_OLDEST_GLIBC, minor + 1)]
        old = [f"manylinux{year}_{self.machine}" for year in (1, 2010, 2014)]
        return [
            "--implementation=cp",
            "--python-version={}.{}".format(*self.python),
            *(f"--abi={abi}" for abi in (self.tag, "abi3", "none")),
            *(f"--platform={platform}" for platform in [*old, *platforms]),
        ]


@once
def imported() -> Sequence[str]:
    """Return the distributions that the rooms on nodes import from, by their sources; sorted.

    Raises InfraError for a module that belongs to none.
    """
    known = packages_distributions()
    foreign = set(foreign_modules())
    if absent := foreign - known.keys():
        raise InfraError(f"not installed on this machine: {', '.join(sorted(absent))}: make setup")
    return sorted({known[name][0] for name in foreign})


def foreign_modules() -> Sequence[str]:
    """Return the modules that the rooms on nodes import from other distributions.

    The result is kept in the user's cache while the sources are the same. Parsing them takes longer
    than to prepare a host again.
    """
    kept = _cache() / "imports.json"
    with suppress(OSError, ValueError, LookupError, TypeError):
        known: dict[str, list[str]] = json.loads(kept.read_text())
        return known[bundle.sources().name]
    found = sorted(_imports() - {*sys.stdlib_module_names, "ackproof"})
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside = kept.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps({bundle.sources().name: found}))
        aside.replace(kept)
    return found


def _imports() -> set[str]:
    """Return the top-level names of every module that the rooms on nodes import."""
    modules: set[str] = set()
    for path in bundle.room_sources():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module)
    return {name.partition(".")[0] for name in modules}


@once
def locked() -> Sequence[str]:
    """Return the distributions that the rooms on nodes import, and all that those require.

    Each is ``name==version`` as it is installed here; sorted. Raises InfraError for one that is not
    installed.
    """
    found: dict[str, str] = {}
    pending = list(imported())
    while pending:
        name = canonicalize_name(pending.pop())
        if name in found:
            continue
        try:
            found[name] = f"{name}=={version(name)}"
        except PackageNotFoundError as error:
            raise InfraError(f"{name} is not installed on this machine: make setup") from error
        needed = [Requirement(text) for text in requires(name) or ()]
        pending += [r.name for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]
    return sorted(found.values())


def name_for(platform: Platform) -> str:
    """Return the name of the libraries for ``platform``, with a hash of their versions."""
    return (
        f"libraries-{platform.tag}-{bundle.digest_of([*locked(), platform.machine, platform.libc])}"
    )


def wheels(platform: Platform) -> Sequence[Path]:
    """Return a wheel for each of :func:`locked`, downloaded if they are not in the cache yet.

    Raises InfraError with pip's complaint.
    """
    directory = _cache() / name_for(platform)
    with _downloading:
        if not directory.exists():
            directory.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=directory.parent) as aside:
                _download(platform, Path(aside) / "wheels")
                (Path(aside) / "wheels").rename(directory)
    return sorted(directory.glob("*.whl"))


def _download(platform: Platform, directory: Path) -> None:
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary=:all:", "--dest", str(directory), *platform.options, *locked(),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DOWNLOADED_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfraError(f"pip download: {error}") from error
    if done.returncode != 0:
        raise InfraError(
            f"the libraries for hosts cannot be fetched: {done.stderr.strip()[-2000:]}"
        )


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "ackproof"
