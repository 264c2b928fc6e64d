"""Walks over a message before it is decoded: no lying lengths get through, no unknown tags.

kio's decoder takes an array's count at its word and reserves memory for it at once: a few bytes
that claim 2^31 elements make it ask for 16 GiB, and the process aborts when it does not get them.
And it refuses tagged fields that are not in its schema, which KIP-482 wants skipped. So each
message is walked first, along the same entity classes: every length must fit into what is there,
and unknown tags are cut out. The walk looks at lengths and nothing else; fields of fixed size that
follow each other are one step.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from broker.wire.fields import FieldKind, kind_of
from broker.wire.framing import BytesLike

ELEMENTS_MAX = 2**20
"""Array elements in one message. An element of two bytes becomes an object of some hundred, so
that without a bound a request of ``socket.request.max.bytes`` would take tens of gigabytes."""

_FIXED: Final[Mapping[str, int]] = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_VARINT_BYTES_MAX = 5
_NULL_ENTITY = 0xFF


class MalformedShape(ValueError):
    """Lengths that do not fit into the message."""


class _Walk:
    """One pass over ``data``; ``edits`` are the (start, end, replacement) that it found due."""

    __slots__ = ("data", "edits", "elements_left")

    def __init__(self, data: BytesLike, elements_left: int) -> None:
        self.data = data
        self.elements_left = elements_left
        self.edits: list[tuple[int, int, bytes]] = []

    def count(self, count: int, at: int) -> None:
        """Admits an array of ``count`` elements; each takes a byte at least."""
        self.elements_left -= count
        if count > len(self.data) - at or self.elements_left < 0:
            raise MalformedShape(f"an array at byte {at} claims {count} elements")

    def edited(self) -> BytesLike:
        """The data with all edits carried out; the very same object when there are none."""
        if not self.edits:
            return self.data
        parts: list[BytesLike] = []
        done = 0
        for start, end, replacement in self.edits:
            parts += (self.data[done:start], replacement)
            done = end
        return b"".join((*parts, self.data[done:]))


Skip: TypeAlias = Callable[[_Walk, int], int]
"""(walk, position) -> position behind what is skipped."""


class _Lengths(NamedTuple):
    """How lengths are written: ``read`` gives a length (-1: null) and where its contents begin."""

    string: Callable[[BytesLike, int], tuple[int, int]]
    large: Callable[[BytesLike, int], tuple[int, int]]


def checked(payload: BytesLike, *entity_types: Any) -> BytesLike:
    """``payload``, which holds these entities one after the other, without unknown tagged fields.

    Bytes behind the last entity are left as they are.

    Raises:
        MalformedShape: a length or count does not fit, or there are too many elements.
    """
    walk = _Walk(payload, ELEMENTS_MAX)
    at = 0
    try:
        for entity_type in entity_types:
            at = _entity(entity_type)(walk, at)
    except (IndexError, struct.error) as error:
        raise MalformedShape(f"{len(payload)} bytes end before their last field does") from error
    if at > len(payload):
        raise MalformedShape(f"{len(payload)} bytes, but a length in them asks for {at}")
    return walk.edited()


# --- entities to skips ------------------------------------------------------------------------


@cache
def _entity(entity_type: Any) -> Skip:
    steps: list[int | Skip] = []
    for field in fields(entity_type):
        if "tag" in field.metadata:
            continue
        step = _field(entity_type, field)
        if isinstance(step, int) and steps and isinstance(steps[-1], int):
            steps[-1] += step
        else:
            steps.append(step)
    if entity_type.__flexible__:
        tagged = [field for field in fields(entity_type) if "tag" in field.metadata]
        steps.append(_tags({f.metadata["tag"]: _field(entity_type, f) for f in tagged}))
    return _sequence(tuple(steps))


def _sequence(steps: tuple[int | Skip, ...]) -> Skip:
    def skip(walk: _Walk, at: int) -> int:
        for step in steps:
            at = at + step if isinstance(step, int) else step(walk, at)
        return at

    return skip


def _field(entity_type: type[Any], field: Field[Any]) -> int | Skip:
    """Bytes, or how to skip them."""
    kind = kind_of(entity_type, field)
    lengths = _COMPACT if kind.is_compact else _PLAIN
    if kind.is_array:
        return _array(lengths.large, _FIXED.get(kind.kafka_type) or _element(kind, lengths))
    if kind.kafka_type in _FIXED:
        return _FIXED[kind.kafka_type]
    if kind.entity is not None and kind.is_nullable:
        return _nullable(_entity(kind.entity))
    return _element(kind, lengths)


def _element(kind: FieldKind, lengths: _Lengths) -> Skip:
    if kind.entity is not None:
        return _entity(kind.entity)
    return _sized(lengths.string if kind.kafka_type == "string" else lengths.large)


# --- skips ------------------------------------------------------------------------------------


def _sized(read: Callable[[BytesLike, int], tuple[int, int]]) -> Skip:
    def skip(walk: _Walk, at: int) -> int:
        size, at = read(walk.data, at)
        return at + size if size > 0 else at

    return skip


def _array(read: Callable[[BytesLike, int], tuple[int, int]], element: int | Skip) -> Skip:
    def skip(walk: _Walk, at: int) -> int:
        count, at = read(walk.data, at)
        if count <= 0:
            return at
        walk.count(count, at)
        if isinstance(element, int):
            return at + count * element
        for _ in range(count):
            at = element(walk, at)
        return at

    return skip


def _nullable(entity: Skip) -> Skip:
    def skip(walk: _Walk, at: int) -> int:
        return at + 1 if walk.data[at] == _NULL_ENTITY else entity(walk, at + 1)

    return skip


def _tags(known: Mapping[int, int | Skip]) -> Skip:
    def skip(walk: _Walk, at: int) -> int:
        if walk.data[at] == 0:
            return at + 1
        start = at
        count, at = _varint(walk.data, at)
        walk.count(count, at)
        kept = []
        for _ in range(count):
            tag, at = _varint(walk.data, at)
            size, at = _varint(walk.data, at)
            value = walk.data[at : at + size]
            at += size
            if tag in known:
                value = _clean(value, known[tag], walk)
                kept.append(to_varint(tag) + to_varint(len(value)) + value)
        replacement = to_varint(len(kept)) + b"".join(kept)
        if replacement != walk.data[start:at]:
            walk.edits.append((start, at, replacement))
        return at

    return skip


def _clean(value: BytesLike, step: int | Skip, outer: _Walk) -> BytesLike:
    """The value of a known tagged field, itself without unknown ones."""
    walk = _Walk(value, outer.elements_left)
    end = step if isinstance(step, int) else step(walk, 0)
    if end != len(value):
        raise MalformedShape(f"a tagged field of {len(value)} bytes takes {end}")
    outer.elements_left = walk.elements_left
    return walk.edited()


# --- lengths ----------------------------------------------------------------------------------


def _int16(data: BytesLike, at: int) -> tuple[int, int]:
    (size,) = _INT16.unpack_from(data, at)
    return _not_below_null(size, at), at + 2


def _int32(data: BytesLike, at: int) -> tuple[int, int]:
    (size,) = _INT32.unpack_from(data, at)
    return _not_below_null(size, at), at + 4


def _compact(data: BytesLike, at: int) -> tuple[int, int]:
    size, at = _varint(data, at)
    return size - 1, at


def _not_below_null(size: int, at: int) -> int:
    if size < -1:
        raise MalformedShape(f"length {size} at byte {at}")
    return size


def _varint(data: BytesLike, at: int) -> tuple[int, int]:
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for number in range(1, _VARINT_BYTES_MAX):
        byte = data[at + number]
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value, at + number + 1
    raise MalformedShape(f"the varint at byte {at} does not end")


def to_varint(value: int) -> bytes:
    """``value``, which is not negative, as an unsigned varint."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_PLAIN = _Lengths(string=_int16, large=_int32)
_COMPACT = _Lengths(string=_compact, large=_compact)
