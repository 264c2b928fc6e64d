"""Damage to a log's files: a bit that flips, a file that is gone, a tail that is torn.

What was done is remembered, by log directory, and looked at again when somebody asks: whether the
damage is there is what the file says, not what was meant.
"""

import os
import random
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from ackproof.infra.agent.wire import Refused

_PARTITION = re.compile(r"(?!__).+-\d+")
"""Of what somebody sent: topics of the brokers' own begin with two underscores."""

_LOG = ".log"
_LENGTH_AT = 8
_BATCH_BEGINS_WITH = 12
"""Base offset (8 bytes) and length (4) of a record batch; the length counts what follows it."""

_ENTRY_PARTS = {"index": (4, 8), "timeindex": (8, 12)}
"""Where the parts of an index entry end, bytes."""
_LOW_BITS = 12

_SEGMENTS = ("closed-segment", "active-segment")
_WINDOW = 1 << 20
_ZEROS = 512

_done: dict[str, list["Done"]] = {}


class Done(Protocol):
    """What was done to a log directory."""

    def told(self, directory: str) -> dict[str, Any]:
        """``file``, ``what`` was done to it, and ``there``: whether it is so now, read again."""


class Damage:
    """``now``: what was put at ``at`` in the file; None: the file was removed."""

    def __init__(self, file: str, at: int, now: bytes | None) -> None:
        self.file = file
        self.at = at
        self.now = now

    def told(self, directory: str) -> dict[str, Any]:
        path = os.path.join(directory, self.file)
        if self.now is None:
            return {"file": self.file, "what": "gone", "there": not os.path.exists(path)}
        with suppress(FileNotFoundError), open(path, "rb") as file:
            there = os.pread(file.fileno(), len(self.now), self.at) == self.now
            return {"file": self.file, "what": f"bytes at {self.at}", "there": there}
        return {"file": self.file, "what": f"bytes at {self.at}", "there": False}


class DamageOfEach:
    """Of every file of a ``kind``."""

    def __init__(self, kind: str, of: Sequence[Damage]) -> None:
        self.kind = kind
        self.of = of

    def told(self, directory: str) -> dict[str, Any]:
        there = all(damage.told(directory)["there"] for damage in self.of)
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
        draw: From 0 to 1, exclusive: which file, byte and bit.

    Raises Refused where there is no such file with something in it.
    """
    found = _files(directory, kind)
    if not found:
        raise Refused(f"no {kind} in {directory} has anything in it")
    path = found[int(draw * len(found))]
    # What the choice of the file has left of the draw.
    at, bit = divmod(int(draw * len(found) % 1 * os.path.getsize(path) * 8), 8)
    _remember(directory, _flip(directory, path, at, bit))


def flip_bits(directory: str, kind: str, draw: float) -> None:
    """Flip one bit of every index of a log directory, and sync them.

    It is one of the low bits of a part of an entry: mostly the entry stays in its order, and who
    opens the index sees nothing.

    Args:
        directory: A log directory.
        kind: ``index`` or ``timeindex``.
        draw: From 0 to 1, exclusive: which entry, part and bit of each.

    Raises Refused where there is no such file with something in it.
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
        raise Refused(f"no {kind} in {directory} has anything in it")
    _remember(directory, DamageOfEach(kind, done))


def remove(directory: str, name: str) -> None:
    """Remove the file ``name`` of a log directory, or of every partition in it. Raises Refused
    where there is none."""
    places = [directory, *_partitions(directory)]
    found = [path for place in places if os.path.exists(path := os.path.join(place, name))]
    if not found:
        raise Refused(f"no {name} in {directory} yet")
    for path in found:
        os.unlink(path)
        _remember(directory, Damage(os.path.relpath(path, directory), 0, None))


def seen(directory: str) -> list[dict[str, Any]]:
    """All damage that was ever done below a log directory, and whether it is there now."""
    return [damage.told(directory) for damage in _done.get(directory, ())]


def tails(directory: str) -> dict[str, tuple[int, bytes]]:
    """Of every partition's last segment: how long it is, and its last megabyte. Read before the
    power fails."""
    found = {}
    for path in _files(directory, "active-segment"):
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            window = min(size, _WINDOW)
            found[path] = (size, os.pread(file.fileno(), window, size - window))
    return found


def tear(directory: str, before: dict[str, tuple[int, bytes]], kind: str) -> None:
    """Leave at the end of every last segment what a write leaves that was under way when the power
    failed: ``torn``, its first half; ``zeroed``, its length in zeros (the size had reached the
    disk, the data had not); ``half-zeroed``, its first half and then zeros, of which a batch comes
    whose header is right and whose records are not. It is made of what was lost. Where nothing was,
    it is one more batch: what was synced is never touched.

    Args:
        before: :func:`tails`, from before.
    """
    for path, (size, window) in before.items():
        if not os.path.exists(path):  # its name was not synced
            continue
        with open(path, "r+b", buffering=0) as file:
            kept = os.pread(file.fileno(), len(window), size - len(window))
            whole = _kept(kept, window)
            piece = _torn(window[whole:] or _first_batch(file.fileno()), kind)
            at = size - len(window) + whole
            os.pwrite(file.fileno(), piece, at)
            os.fsync(file.fileno())
        _remember(directory, Damage(os.path.relpath(path, directory), at, piece))


def _kept(found: bytes, before: bytes) -> int:
    """How many bytes are as they were. The length may have been kept, with zeros for what is lost:
    they begin where a batch does, which begins with zeros, too."""
    pairs = enumerate(zip(found, before, strict=False))
    parts = next((at for at, (one, other) in pairs if one != other), None)
    if parts is None:
        return min(len(found), len(before))
    return max((end for end in _ends(before) if end <= parts), default=0)


def _torn(lost: bytes, kind: str) -> bytes:
    if kind == "zeroed":
        return bytes(len(lost) or _ZEROS)
    half = max(1, len(lost) // 2)
    # Two batches of the same length: the half of both is a whole one, and nothing is torn.
    left = lost[: half - (half > 1 and half in _ends(lost))] or b"\0"
    return left.ljust(len(lost), b"\0") if kind == "half-zeroed" else left


def _ends(batches: bytes) -> set[int]:
    """Where the batches end that these bytes begin with."""
    ends, end = set(), 0
    while (end := end + _length(batches[end : end + _BATCH_BEGINS_WITH])) <= len(batches):
        ends.add(end)
    return ends


def _first_batch(file: int) -> bytes:
    return os.pread(file, min(_WINDOW, _length(os.pread(file, _BATCH_BEGINS_WITH, 0))), 0)


def _length(batch: bytes) -> int:
    """Of a record batch that begins so, all of it; at least what tells its length."""
    length = int.from_bytes(batch[_LENGTH_AT:_BATCH_BEGINS_WITH], "big", signed=True)
    return _BATCH_BEGINS_WITH + max(0, length)


def _flip(directory: str, path: str, at: int, bit: int) -> Damage:
    with open(path, "r+b", buffering=0) as file:
        flipped = bytes([os.pread(file.fileno(), 1, at)[0] ^ (1 << bit)])
        os.pwrite(file.fileno(), flipped, at)
        os.fsync(file.fileno())
    return Damage(os.path.relpath(path, directory), at, flipped)


def _files(directory: str, kind: str) -> Sequence[str]:
    """Sorted; those with nothing in them are left out."""
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


def _remember(directory: str, damage: Done) -> None:
    _done.setdefault(directory, []).append(damage)
