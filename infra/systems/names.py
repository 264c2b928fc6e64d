"""What a campaign calls the system that it puts to the test: ``bundled``, ``kafka:4.1.1``,
``kafka:/opt/kafka``, ``kafka:image:apache/kafka:4.1.1``, or ``external`` for one that was there
before."""

import re
from dataclasses import dataclass
from pathlib import Path

from ackproof.infra.systems.kafka import images, releases
from ackproof.infra.wording import unknown

BUNDLED = "bundled"
KAFKA = "kafka"
EXTERNAL = "external"
IMAGE = "image:"
"""What follows is an image's name. Of versions and directories none begins so."""
PATTERN = rf"^({BUNDLED}|{EXTERNAL}|{KAFKA}:.+)$"

_VERSION = re.compile(r"[0-9]+(\.[0-9]+){1,3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemName:
    """A name that can be deployed.

    Attributes:
        text: As it was written; of an image, with its digest.
        kafka: What of Apache Kafka; None for the bundled broker, and for a cluster that was there
            before.
    """

    text: str
    kafka: releases.Release | None


def parse(name: str) -> SystemName:
    """Raises ValueError saying what is wrong with it."""
    if name in (BUNDLED, EXTERNAL):
        return SystemName(text=name, kafka=None)
    kind, separator, which = name.partition(":")
    if kind != KAFKA:
        known = [BUNDLED, EXTERNAL, *(f"{KAFKA}:{version}" for version in releases.VERSIONS)]
        raise ValueError(unknown("system", name, known))
    if not separator or not which:
        raise ValueError(f"which Apache Kafka? {_ways()}")
    if which.startswith("/"):
        return SystemName(text=name, kafka=releases.unpacked(Path(which)))
    if which.startswith(IMAGE):
        image = images.taken(which.removeprefix(IMAGE))
        text = f"{KAFKA}:{IMAGE}{image.name}"
        return SystemName(text=text, kafka=releases.unpacked(image.directory))
    if not _VERSION.fullmatch(which):
        raise ValueError(f"{which!r} is neither a version nor the path of a directory; {_ways()}")
    return SystemName(text=name, kafka=releases.released(which))


def pinned(name: str) -> str:
    """The same system by a name that stays what it is: an image with its digest. Raises as
    :func:`parse`."""
    return parse(name).text if name.startswith(f"{KAFKA}:{IMAGE}") else name


def external(name: str) -> bool:
    """Whether the system of that name was there before, and is not deployed."""
    return name == EXTERNAL


def _ways() -> str:
    known = ", ".join(f"{KAFKA}:{version}" for version in releases.VERSIONS)
    return f"{known}, or {KAFKA}:/DIRECTORY of an unpacked release, or {KAFKA}:{IMAGE}NAME"
