"""Copies of the sources: the sound one, as it was when the selftest began, and broken ones of it.

All of it is copied, and not the broker alone: every process of a campaign, those on nodes of any
backend included, finds its modules where the harness that deployed it has its own. Who runs a copy
puts it first on PYTHONPATH (:func:`environment`).
"""

import hashlib
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import ackproof
from ackproof.harness.selftest.attempt import Way
from ackproof.harness.selftest.catalogue import Bug
from ackproof.harness.selftest.patches import StalePatch, changed

SIMULATION = "simulation"
"""A development tool: in the sources, and not in the wheel."""

_PACKAGE = "ackproof"
_ROOMS = (
    *("broker", "history", "infra", "nemesis", "workloads", "checkers", "harness"),
    *("plugins", "testing"),
)
_BESIDE = ("pyproject.toml", "constraints.txt")
"""What the image of the backend docker is made of besides."""

_DECIDE: Mapping[Way, tuple[str, ...]] = {
    Way.SIMULATOR: ("broker", SIMULATION),
    Way.CAMPAIGN: (
        *("broker", "infra", "nemesis", "workloads", "checkers", "history"),
        *("harness/campaign", "harness/running"),
    ),
}
"""On what it depends what is found."""

_HERE = Path(ackproof.__file__).parents[1]
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")


def place(name: str, root: Path) -> Path:
    """Return where a file or folder of the sources is below ``root``: a room, which the catalogue
    names without its package, in the package, and all else beside it."""
    room = name.partition("/")[0]
    return root / _PACKAGE / name if room in _ROOMS else root / name


def has_simulation(root: Path = _HERE) -> bool:
    """Whether the simulation is among the sources that we run from."""
    return (root / SIMULATION / "__main__.py").is_file()


def copy_sound(to: Path, root: Path = _HERE) -> None:
    """A copy of the sources that we run from, in place of whatever is there. Raises OSError."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for room in (SIMULATION, *_ROOMS):
        if place(room, root).is_dir():
            shutil.copytree(place(room, root), place(room, to), ignore=_LEFT_OUT)
    for name in (f"{_PACKAGE}/__init__.py", *_BESIDE):
        if (root / name).is_file():
            shutil.copyfile(root / name, to / name)


def copy_broken(sound: Path, bug: Bug, to: Path) -> None:
    """A copy of the copy ``sound`` with that bug. Raises StalePatch, OSError."""
    copy_sound(to, sound)
    apply(bug, to)


def apply(bug: Bug, root: Path) -> None:
    """Breaks the sources below ``root``. Raises StalePatch, OSError."""
    for name, text in broken(bug, root).items():
        place(name, root).write_text(text, encoding="utf-8")


def broken(bug: Bug, root: Path) -> Mapping[str, str]:
    """What becomes of the files below ``root`` that the bug is in; nothing is changed. Raises
    StalePatch, OSError."""
    texts: dict[str, str] = {}
    for hunk in bug.hunks:
        text = texts.get(hunk.file) or place(hunk.file, root).read_text(encoding="utf-8")
        try:
            texts[hunk.file] = changed(text, hunk)
        except StalePatch as stale:
            raise StalePatch(f"{bug.name}: {stale}") from None
    return texts


class Fingerprints:
    """What the copy ``sound`` and the broken ones of it are known by."""

    def __init__(self, sound: Path) -> None:
        self._sound = {way: _digest(sound, rooms) for way, rooms in _DECIDE.items()}

    def of(self, bug: Bug | None, way: Way) -> str:
        """Of the sources that count for ``way``, with that bug."""
        both = self._sound[way] + ("" if bug is None else bug.text)
        return hashlib.sha256(both.encode()).hexdigest()[:16]


def _digest(root: Path, rooms: Collection[str]) -> str:
    known = hashlib.sha256()
    for room in sorted(rooms):
        for path in sorted(place(room, root).rglob("*.py")):
            for part in (path.relative_to(root).as_posix().encode(), path.read_bytes()):
                known.update(len(part).to_bytes(8))
                known.update(part)
    return known.hexdigest()


def environment(root: Path) -> dict[str, str]:
    """In which Python finds the copy ``root`` and no other sources, wherever it is started."""
    return {**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
