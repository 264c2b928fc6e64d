"""Damage to the files of a log: a flipped bit, a removed file, a torn tail.

The damage is remembered by log directory, and read again on request. Whether the damage is there is
decided by the content of the file, not by what was intended.
"""

import os
import random
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from ackproof.infra.agent.wire import RefusedByNode

_PARTITION = re.compile(r"(?!__).+-\d+")
"""The name of a partition of users' topics. The brokers' own topics begin with two underscores."""

_LOG = ".log"
_LENGTH_AT = 8
_BATCH_BEGINS_WITH = 12
"""The base offset (8 bytes) and the length (4) of a record batch, which counts what follows it."""

_ENTRY_PARTS = {"index": (4, 8), "timeindex": (8, 12)}
"""The ends of the parts of an index entry, in bytes."""
_LOW_BITS = 12

_SEGMENTS = ("closed-segment", "active-segment")
_WINDOW = 1 << 20
_ZEROS = 512

_done: dict[str, list["DamageDone"]] = {}


class DamageDone(Protocol):
    """Damage that was done to a log directory."""

    def as_document(self, directory: str) -> dict[str, Any]:
        """Return the ``file``, ``what`` was done, and ``there``: whether it is so now, read
        again."""


class FileDamage:
    """Damage to one file. ``now`` is what was put at ``at`` in the file, or None for a removed
    file."""

    def __init__(self, file: str, at: int, now: bytes | None) -> None:
        self.file = file
        self.at = at
        self.now = now

    def as_document(self, directory: str) -> dict[str, Any]:
        path = os.path.join(directory, self.file)
        if self.now is None:
            return {"file": self.file, "what": "gone", "there": not os.path.exists(path)}
        with suppress(FileNotFoundError), open(path, "rb") as file:
            there = os.pread(file.fileno(), len(self.now), self.at) == self.now
            return {"file": self.file, "what": f"bytes at {self.at}", "there": there}
        return {"file": self.file, "what": f"bytes at {self.at}", "there": False}


class DamageOfEach:
    """Damage to every file of a ``kind``."""

    def __init__(self, kind: str, of: Sequence[FileDamage]) -> None:
        self.kind = kind
        self.of = of

    def as_document(self, directory: str) -> dict[str, Any]:
        there = all(damage.as_document(directory)["there"] for damage in self.of)
        return {
            "file": f"*.{self.kind}",
            "what": f"a bit of each of {len(self.of)}",
            "there": there,
        }


def flip_bit(directory: str, kind: str, draw: float) -> None:
    """Flip one bit of one file of a partition, and sync it.

    Args:
        directory: A log directory.
        kind: ``closed-segment`` (not the last of its partition), ``active-segment`` (the last),
            ``index`` or ``timeindex`` (of any segment).
        draw: A number from 0 to 1, exclusive, which chooses file, byte and bit.

    Raises Refused if every such file is empty or none exists.
    """
    found = _files(directory, kind)
    if not found:
        raise RefusedByNode(f"every {kind} in {directory} is empty")
    path = found[int(draw * len(found))]
    # The part of the draw that the choice of the file has not used.
    at, bit = divmod(int(draw * len(found) % 1 * os.path.getsize(path) * 8), 8)
    _remember(directory, _flip(directory, path, at, bit))


def flip_bits(directory: str, kind: str, draw: float) -> None:
    """Flip one bit of every index of a log directory, and sync them.

    It is one of the low bits of a part of an entry. Mostly the entry stays in its order, and a
    program that opens the index sees nothing wrong.

    Args:
        directory: A log directory.
        kind: ``index`` or ``timeindex``.
        draw: A number from 0 to 1, exclusive, which chooses entry, part and bit of each.

    Raises Refused if every such file is empty or none exists.
    """
    drawn, parts = random.Random(draw), _ENTRY_PARTS[kind]
    done = []
    for path in _files(directory, kind):
        if not (entries := os.path.getsize(path) // parts[-1]):
            continue
        entry = drawn.randrange(entries)
        behind = entry * parts[-1] + drawn.choice(parts)
        byte, bit = divmod(drawn.randrange(_LOW_BITS), 8)
        done.append(_flip(directory, path, behind - 1 - byte, bit))
    if not done:
        raise RefusedByNode(f"every {kind} in {directory} is empty")
    _remember(directory, DamageOfEach(kind, done))


def remove(directory: str, name: str) -> None:
    """Remove the file ``name`` of a log directory, or of every partition in it.

    Raises Refused if there is none.
    """
    places = [directory, *_partitions(directory)]
    found = [path for place in places if os.path.exists(path := os.path.join(place, name))]
    if not found:
        raise RefusedByNode(f"no {name} in {directory} yet")
    for path in found:
        os.unlink(path)
        _remember(directory, FileDamage(os.path.relpath(path, directory), 0, None))


def seen(directory: str) -> list[dict[str, Any]]:
    """Return all damage that was ever done below a log directory, and whether it is there now."""
    return [damage.as_document(directory) for damage in _done.get(directory, ())]


def tails(directory: str) -> dict[str, tuple[int, bytes]]:
    """Return the size and the last megabyte of every partition's last segment, before a power
    failure."""
    found = {}
    for path in _files(directory, "active-segment"):
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            window = min(size, _WINDOW)
            found[path] = (size, os.pread(file.fileno(), window, size - window))
    return found


def tear(directory: str, before: dict[str, tuple[int, bytes]], kind: str) -> None:
    """Leave at the end of every last segment what an unfinished write leaves in a power failure.

    - ``torn`` leaves the first half of the write.
    - ``zeroed`` leaves its length in zeros: the size had reached the disk, the data had not.
    - ``half-zeroed`` leaves the first half and then zeros. The result is a batch with a correct
      header and wrong records.

    The data is taken from what was lost. If nothing was lost, it is one more batch. What was synced
    is never touched.

    Args:
        before: The result of :func:`tails` before the power failure.
    """
    for path, (size, window) in before.items():
        if not os.path.exists(path):  # the file's name was not synced
            continue
        with open(path, "r+b", buffering=0) as file:
            kept = os.pread(file.fileno(), len(window), size - len(window))
            whole = _kept(kept, window)
            piece = _torn(window[whole:] or _first_batch(file.fileno()), kind)
            at = size - len(window) + whole
            os.pwrite(file.fileno(), piece, at)
            os.fsync(file.fileno())
        _remember(directory, FileDamage(os.path.relpath(path, directory), at, piece))


def _kept(found: bytes, before: bytes) -> int:
    """Return how many bytes are unchanged.

    The length may have been kept, with zeros for what is lost. Zeros also begin a batch, so the
    count stops at the end of a batch.
    """
    pairs = enumerate(zip(found, before, strict=False))
    parts = next((at for at, (one, other) in pairs if one != other), None)
    if parts is None:
        return min(len(found), len(before))
    return max((end for end in _ends(before) if end <= parts), default=0)


def _torn(lost: bytes, kind: str) -> bytes:
    if kind == "zeroed":
        return bytes(len(lost) or _ZEROS)
    half = max(1, len(lost) // 2)
    # Half of two batches of the same length is one whole batch, which is not torn.
    left = lost[: half - (half > 1 and half in _ends(lost))] or b"\0"
    return left.ljust(len(lost), b"\0") if kind == "half-zeroed" else left


def _ends(batches: bytes) -> set[int]:
    """Return the ends of the whole batches with which these bytes begin."""
    ends, end = set(), 0
    while (end := end + _length(batches[end : end + _BATCH_BEGINS_WITH])) <= len(batches):
        ends.add(end)
    return ends


def _first_batch(file: int) -> bytes:
    return os.pread(file, min(_WINDOW, _length(os.pread(file, _BATCH_BEGINS_WITH, 0))), 0)


def _length(batch: bytes) -> int:
    """Return the length of a whole record batch from its beginning; at least that of its header."""
    length = int.from_bytes(batch[_LENGTH_AT:_BATCH_BEGINS_WITH], "big", signed=True)
    return _BATCH_BEGINS_WITH + max(0, length)


def _flip(directory: str, path: str, at: int, bit: int) -> FileDamage:
    with open(path, "r+b", buffering=0) as file:
        flipped = bytes([os.pread(file.fileno(), 1, at)[0] ^ (1 << bit)])
        os.pwrite(file.fileno(), flipped, at)
        os.fsync(file.fileno())
    return FileDamage(os.path.relpath(path, directory), at, flipped)


def _files(directory: str, kind: str) -> Sequence[str]:
    """Return the sorted paths of the files of a kind that are not empty."""
    suffix = _LOG if kind in _SEGMENTS else f".{kind}"
    found: list[str] = []
    for partition in _partitions(directory):
        names = sorted(name for name in os.listdir(partition) if name.endswith(suffix))
        if kind == "closed-segment":
            names = names[:-1]
        elif kind == "active-segment":
            names = names[-1:]
        found += (os.path.join(partition, name) for name in names)
    return [path for path in found if os.path.getsize(path)]


def _partitions(directory: str) -> Sequence[str]:
    names = sorted(name for name in os.listdir(directory) if _PARTITION.fullmatch(name))
    return [path for name in names if os.path.isdir(path := os.path.join(directory, name))]


def _remember(directory: str, damage: DamageDone) -> None:
    _done.setdefault(directory, []).append(damage)
