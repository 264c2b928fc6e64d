"""Copies of the sources: the sound copy, made when a session begins, and broken copies of it.

All sources are copied and not the broker alone: every process of a campaign, also on the nodes of
any backend, takes its modules from where the harness that deployed it has its own. A process that
runs a copy has it first on PYTHONPATH (:func:`environment`).
"""

import hashlib
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import ackproof
from tools.mutation.mutants import Mutant
from tools.mutation.patches import StalePatch, apply
from tools.mutation.results import Method

SIMULATION = "simulation"
ROOT = Path(ackproof.__file__).parents[1]

_PACKAGE = "ackproof"
_ROOMS = (
    *("broker", "history", "config", "infra", "nemesis", "workloads", "checkers", "harness"),
    *("plugins", "testing"),
)
_SUPPORT = "tests/support"

SUITES: Mapping[Method, tuple[str, ...]] = {
    Method.CONFORMANCE: ("tests/conformance",),
    Method.PROPERTIES: ("tests/properties",),
    Method.PARTS: (
        *("tests/log", "tests/replication", "tests/groups", "tests/controller"),
        *("tests/coordination", "tests/server"),
    ),
}
"""The folders of tests that examine a broker."""

_TESTS = ("protocol", _SUPPORT, *(folder for folders in SUITES.values() for folder in folders))
_BESIDE = ("pyproject.toml", "constraints.txt", "tests/conftest.py", "docs/broker-properties.md")
"""Files that the image of the docker backend is built from, and that the tests run with."""

_RELEVANT: Mapping[Method, tuple[str, ...]] = {
    Method.SIMULATOR: ("broker", SIMULATION),
    **{method: ("broker", SIMULATION, _SUPPORT, *folders) for method, folders in SUITES.items()},
    Method.CAMPAIGN: (
        *("broker", "config", "infra", "nemesis", "workloads", "checkers", "history"),
        *("harness/campaign", "harness/running"),
    ),
}
"""The sources on which the result of a method depends."""

_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")


def locate(name: str, root: Path) -> Path:
    """Return the path of a file or folder of the sources below ``root``. The catalogue names rooms
    without their package."""
    room = name.partition("/")[0]
    return root / _PACKAGE / name if room in _ROOMS else root / name


def copy_sound(to: Path, root: Path = ROOT) -> None:
    """Copy the sources below ``root`` to ``to``, and replace what is there. Raises OSError."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for room in (SIMULATION, *_ROOMS, *_TESTS):
        if locate(room, root).is_dir():
            shutil.copytree(locate(room, root), locate(room, to), ignore=_LEFT_OUT)
    for name in (f"{_PACKAGE}/__init__.py", *_BESIDE):
        if (root / name).is_file():
            (to / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(root / name, to / name)


def copy_broken(sound: Path, mutant: Mutant, to: Path) -> None:
    """Copy the copy ``sound`` and apply the mutant's patch. Raises StalePatch, OSError."""
    copy_sound(to, sound)
    for name, text in broken(mutant, to).items():
        locate(name, to).write_text(text, encoding="utf-8")


def broken(mutant: Mutant, root: Path) -> Mapping[str, str]:
    """Return the patched texts of the files that the mutant changes; no file is written.

    Raises:
        StalePatch: the patch does not apply to the sources below ``root``.
        OSError: a file cannot be read.
    """
    texts: dict[str, str] = {}
    for hunk in mutant.hunks:
        text = texts.get(hunk.file) or locate(hunk.file, root).read_text(encoding="utf-8")
        try:
            texts[hunk.file] = apply(text, hunk)
        except StalePatch as stale:
            raise StalePatch(f"{mutant.name}: {stale}") from None
    return texts


def fingerprint(method: Method, root: Path = ROOT) -> str:
    """Return a digest of the sources below ``root`` on which the results of ``method`` depend."""
    return _digest(root, _RELEVANT[method])[:12]


class Fingerprints:
    """Digests of the sound copy and of the mutants made of it."""

    def __init__(self, sound: Path) -> None:
        self._sound = {method: _digest(sound, rooms) for method, rooms in _RELEVANT.items()}

    def of(self, mutant: Mutant | None, method: Method) -> str:
        """Return the digest for a mutant, or for the sound broker if it is None."""
        both = self._sound[method] + ("" if mutant is None else mutant.text)
        return hashlib.sha256(both.encode()).hexdigest()[:16]


def _digest(root: Path, rooms: Collection[str]) -> str:
    known = hashlib.sha256()
    for room in sorted(rooms):
        for path in sorted(locate(room, root).rglob("*.py")):
            for part in (path.relative_to(root).as_posix().encode(), path.read_bytes()):
                known.update(len(part).to_bytes(8))
                known.update(part)
    return known.hexdigest()


def environment(root: Path) -> dict[str, str]:
    """Return an environment in which Python imports the copy ``root`` from any directory."""
    return {**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
