"""The catalogue of broken brokers: ``bugs/<name>.patch``, each a header and a unified diff.

The header is what one must know of a fault to judge whether it should have been found::

    family: log
    breaks: a flush does not sync the files
    seen by: replica logs, producers
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ackproof.harness.selftest.patches import Hunk, parse

BUGS = Path(__file__).parent / "bugs"

FAMILIES = ("replication", "controller", "log", "groups", "server")
OBSERVATIONS = ("producers", "consumers", "groups", "replica logs", "liveness")
"""What could show a fault: what producers were told beside what is in the logs at the end; what
consumers were given meanwhile; what groups committed; the logs of all replicas, one beside the
other; whether all works again when everything is healed."""

_HEADINGS = ("family", "breaks", "seen by")


class UnknownBug(ValueError):
    """A name that neither a bug nor a family has."""


@dataclass(frozen=True)
class Bug:
    """One way in which the broker is broken.

    Attributes:
        breaks: What is wrong, in words.
        seen_by: Of ``OBSERVATIONS``; any of them could show it.
        text: The file.
    """

    name: str
    family: str
    breaks: str
    seen_by: tuple[str, ...]
    text: str

    @cached_property
    def hunks(self) -> tuple[Hunk, ...]:
        return parse(self.text)


def catalogue(directory: Path = BUGS) -> Mapping[str, Bug]:
    """All bugs by name, family by family. ValueError, with the file, where one is malformed."""
    found = [read(path) for path in sorted(directory.glob("*.patch"))]
    found.sort(key=lambda bug: (FAMILIES.index(bug.family), bug.name))
    return {bug.name: bug for bug in found}


def read(path: Path) -> Bug:
    """The bug in that file. ValueError."""
    text = path.read_text(encoding="utf-8")
    header, _, _ = text.partition("\n\n")
    stated = dict(line.split(": ", 1) for line in header.splitlines() if ": " in line)
    try:
        if tuple(stated) != _HEADINGS:
            raise ValueError(f"its header has {', '.join(stated)}, not {', '.join(_HEADINGS)}")
        seen_by = tuple(stated["seen by"].split(", "))
        _check("family", [stated["family"]], FAMILIES)
        _check("seen by", seen_by, OBSERVATIONS)
        bug = Bug(path.stem, stated["family"], stated["breaks"], seen_by, text)
        _ = bug.hunks
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return bug


def digest(bugs: Mapping[str, Bug]) -> str:
    """Return what a catalogue is known by: another one, or another text of a bug, has another."""
    texts = sorted(f"{bug.name}\n{bug.text}" for bug in bugs.values())
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def chosen(names: Sequence[str], bugs: Mapping[str, Bug]) -> tuple[Bug, ...]:
    """The bugs that are called so, or whose family is; all, if no name is given. UnknownBug."""
    for name in names:
        if name not in bugs and name not in FAMILIES:
            raise UnknownBug(f"{name!r} is neither a bug nor a family: ackproof selftest --list")
    wanted = [bug for bug in bugs.values() if {bug.name, bug.family} & set(names)]
    return tuple(wanted if names else bugs.values())


def _check(heading: str, said: Collection[str], known: Collection[str]) -> None:
    for word in said:
        if word not in known:
            raise ValueError(f"{heading}: {word!r} is none of {', '.join(known)}")
