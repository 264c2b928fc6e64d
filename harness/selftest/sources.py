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

import harness
from harness.selftest.attempt import Way
from harness.selftest.catalogue import Bug
from harness.selftest.patches import StalePatch, changed

SIMULATION = "simulation"
"""A development tool: in the sources, and not in the wheel."""

_ROOMS = (
    "broker", "history", "infra", "nemesis", "workloads", "checkers", "harness", SIMULATION,
)  # fmt: skip
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

_HERE = Path(harness.__file__).parents[1]
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")


def has_simulation(root: Path = _HERE) -> bool:
    """Whether the simulation is among the sources that we run from."""
    return (root / SIMULATION / "__main__.py").is_file()


def copy_sound(to: Path, root: Path = _HERE) -> None:
    """A copy of the sources that we run from, in place of whatever is there. Raises OSError."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for room in _ROOMS:
        if (root / room).is_dir():
            shutil.copytree(root / room, to / room, ignore=_LEFT_OUT)
    for name in _BESIDE:
        if (root / name).is_file():
            shutil.copyfile(root / name, to / name)


def copy_broken(sound: Path, bug: Bug, to: Path) -> None:
    """A copy of the copy ``sound`` with that bug. Raises StalePatch, OSError."""
    copy_sound(to, sound)
    apply(bug, to)


def apply(bug: Bug, root: Path) -> None:
    """Breaks the sources below ``root``. Raises StalePatch, OSError."""
    for name, text in broken(bug, root).items():
        (root / name).write_text(text, encoding="utf-8")


def broken(bug: Bug, root: Path) -> Mapping[str, str]:
    """What becomes of the files below ``root`` that the bug is in; nothing is changed. Raises
    StalePatch, OSError."""
    texts: dict[str, str] = {}
    for hunk in bug.hunks:
        text = texts.get(hunk.file) or (root / hunk.file).read_text(encoding="utf-8")
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
        for path in sorted((root / room).rglob("*.py")):
            for part in (path.relative_to(root).as_posix().encode(), path.read_bytes()):
                known.update(len(part).to_bytes(8))
                known.update(part)
    return known.hexdigest()


def environment(root: Path) -> dict[str, str]:
    """In which Python finds the copy ``root`` and no other sources, wherever it is started."""
    return {**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
