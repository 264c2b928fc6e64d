"""Encode records of KRaft's metadata log, by the schemas of a release: the inverse of
``infra/systems/kafka/kraft/records.py``, for its tests."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ackproof.infra.systems.kafka.kraft.records import Record, RecordSchemas

_SIZES = {"INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "UINT16": 2, "BOOLEAN": 1}


def encoded(schemas: RecordSchemas, record: Record, version: str) -> bytes:
    """Return a record as a controller writes it. Fields that the record's class does not have are
    0, empty or null."""
    name = f"{type(record).__name__}Record"
    ((key, known),) = (pair for pair in schemas.records.items() if pair[1]["name"] == name)
    fields = known["versions"][version]["fields"]
    header = b"".join(_varint(number) for number in (1, int(key), int(version)))
    return header + _structure(fields, asdict(record))


def _structure(fields: Sequence[Any], values: Mapping[str, Any]) -> bytes:
    found = b""
    for name, kind in fields:
        if isinstance(kind, dict) and "tags" in kind:
            found += _tagged(kind["tags"], values)
        else:
            found += _value(kind, values.get(name))
    return found


def _tagged(tags: Mapping[str, Any], values: Mapping[str, Any]) -> bytes:
    """Encode the tagged fields that have a value, and one that no release knows."""
    given = [(tag, kind, values[name]) for tag, (name, kind) in tags.items() if name in values]
    pieces = [(int(tag), _value(kind, value)) for tag, kind, value in given]
    pieces.append((99, b"unknown"))
    return _varint(len(pieces)) + b"".join(
        _varint(tag) + _varint(len(piece)) + piece for tag, piece in pieces
    )


def _value(kind: Any, value: Any) -> bytes:
    if isinstance(kind, dict) and "array" in kind:
        if value is None:
            return _varint(0)
        return _varint(len(value) + 1) + b"".join(_value(kind["array"], one) for one in value)
    if isinstance(kind, dict):
        return _structure(kind["fields"], value or {})
    if kind in _SIZES:
        return int(value or 0).to_bytes(_SIZES[kind], "big", signed=kind[:3] == "INT")
    if kind == "UUID":
        return bytes((value or uuid.UUID(int=0)).bytes)
    if value is None:
        return _varint(0)
    return _varint(len(value.encode()) + 1) + bytes(value.encode())


def _varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])
