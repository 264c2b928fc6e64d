"""Which Apache Kafka: a release whose jars are known, or one that is unpacked in a directory (as
those of images are: :mod:`infra.systems.kafka.images`).

What is known of a release is in ``<version>.json``, made of the release itself
(``tests/support/clusters/kafka_release.py``): its jars with their SHA-256, and its properties."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def cached(*names: str) -> Path:
    """A place below ``$XDG_CACHE_HOME/ackproof``, by default ``~/.cache/ackproof``."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache.joinpath("ackproof", *names)


def put(partial: Path, place: Path) -> None:
    """Have there, at once and whole, what ``partial`` is. Somebody else may have been quicker."""
    try:
        partial.rename(place)
    except OSError:
        if not place.is_dir():
            raise


# --- releases ---------------------------------------------------------------------------------


VERSIONS = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.0", "2.0.1", "3.3.2", "3.9.1", "4.1.1")
"""Of which the jars are known."""
FIRST = (2, 4)
"""Before, what is unpacked lacks what Java no longer has."""

_CORE = re.compile(r"kafka_2\.[0-9]+-([0-9][0-9.]*)(-ccs)?\.jar")
_CONFLUENT = 7, 3
"""From Confluent Platform 7.0 on, which is Apache Kafka 3.0, the one counts as the other does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An Apache Kafka that can be deployed.

    Attributes:
        directory: Of its jars, where somebody else has put them; None: to be fetched.
    """

    version: str
    directory: Path | None = None

    @property
    def links(self) -> Sequence[str]:
        """Its jars that lie elsewhere in truth, where somebody else has put them."""
        found = [] if self.directory is None else sorted(self.directory.glob("*.jar"))
        return [path.name for path in found if path.is_symlink()]

    def is_before(self, numbers: tuple[int, ...]) -> bool:
        """Whether it was released before the one with these numbers, ``(2, 4)``."""
        return _numbers(self.version) < numbers


def released(version: str) -> Release:
    """Raises ValueError for one that cannot be deployed."""
    if version not in VERSIONS:
        raise ValueError(
            f"of Apache Kafka {version} the jars are not known, but of {', '.join(VERSIONS)}; any "
            "other is unpacked by you: kafka:/DIRECTORY"
        )
    return Release(version=version)


def unpacked(directory: Path) -> Release:
    """What ``directory`` holds, as Apache Kafka's archives are laid out. Raises ValueError where it
    is none of them."""
    libs = directory / "libs"
    if not libs.is_dir():
        raise ValueError(f"{directory} is no unpacked Apache Kafka: there is no {libs}")
    found = [found for path in libs.iterdir() if (found := _CORE.fullmatch(path.name))]
    if len(found) != 1:
        raise ValueError(f"{len(found)} jars in {libs} are Kafka's broker (kafka_2.13-....jar)")
    version = found[0][1] if found[0][2] is None else _apache(found[0][1])
    _check(version)
    return Release(version=version, directory=libs)


def described(version: str) -> Mapping[str, Any] | None:
    """What is known of a release: its ``jars``, and properties of ``broker`` and ``topic``; None
    where nothing is."""
    if version not in VERSIONS:
        return None
    page = Path(__file__).with_name(f"{version}.json")
    found: Mapping[str, Any] = json.loads(page.read_text(encoding="utf-8"))
    return found


def _apache(confluent: str) -> str:
    """Which Apache Kafka a version of Confluent's Community Software (``-ccs``) is."""
    major, *rest = confluent.split(".")
    first, same = _CONFLUENT
    if int(major) < first:
        raise ValueError(f"Confluent Platform {confluent} is too old: {first}.0 or newer")
    return ".".join([str(int(major) - first + same), *rest])


def _check(version: str) -> None:
    if _numbers(version) < FIRST:
        first = ".".join(map(str, FIRST))
        raise ValueError(f"Apache Kafka {version} is too old: {first} or newer")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
