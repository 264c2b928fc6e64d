"""The schema of a message over all required versions, from kio's classes.

kio has one dataclass for each version. The Kafka type of a field, its tag and its description are
in the field's metadata, annotation and source. Here the versions are combined: each field has the
versions that contain it, and the one type that it has in all of them.
"""

import ast
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import timedelta
from functools import cache
from graphlib import TopologicalSorter
from types import NoneType
from typing import Any, Final, get_args

from kio.static.constants import EntityType

NOMINAL: Final[Mapping[str, str]] = {
    "leader_epoch": "LeaderEpoch",
    "current_leader_epoch": "LeaderEpoch",
    "committed_leader_epoch": "LeaderEpoch",
    "base_offset": "Offset",
    "committed_offset": "Offset",
    "end_offset": "Offset",
    "fetch_offset": "Offset",
    "high_watermark": "Offset",
    "last_stable_offset": "Offset",
    "log_start_offset": "Offset",
    "low_watermark": "Offset",
    "offset": "Offset",
}
"""The types of ``broker.types`` for numeric fields, by the names of the fields."""

OURS: Final = frozenset({"BrokerId", "ControllerEpoch", "LeaderEpoch", "ProducerId", "ZkVersion"})
"""The types of ``broker.types`` that annotations name, here and in kio."""

MILLISECONDS: Final = frozenset({"timedelta_i32", "timedelta_i64", "datetime_i64"})
"""kio's types for numbers of milliseconds. They are numbers on the wire and in the broker's
classes."""

NO_API: Final = -1

DEFAULTS: Final[Mapping[str, object]] = {"throttle_time_ms": 0}
"""Defaults in addition to those of Kafka's schemas. The broker never throttles a client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOf:
    """A field of a struct.

    Attributes:
        kafka_type: The type of the value, or of an array's elements; "" for structs.
        struct: The class of the elements; "" for anything but structs.
        nominal: The type of ``broker.types`` for its numbers, or "".
        versions: The versions that have it.
        nullable: Those of these versions in which it may be null.
        default: The value if none is given, or ``MISSING`` if one must be given.
    """

    name: str
    kafka_type: str
    struct: str
    nominal: str
    is_array: bool
    versions: frozenset[int]
    nullable: frozenset[int]
    default: object
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """A class to generate: a message, or a part of one. ``versions`` has the versions that contain
    it."""

    name: str
    description: str
    versions: frozenset[int]
    fields: tuple[FieldOf, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request, a response or data in a record, with its parts. Each part precedes the ones that
    contain it.

    Attributes:
        api_key: ``NO_API`` for data.
        kind: "request", "response" or "data".
        flexible: The versions with varint lengths and tagged fields (KIP-482).
        header_flexible: The versions whose header has tagged fields.
    """

    api_key: int
    structs: tuple[Struct, ...]
    versions: frozenset[int]
    flexible: frozenset[int]
    header_flexible: frozenset[int]
    kind: str


def message(types: Mapping[int, Any]) -> Message:
    """Return the schema of one message from its classes by version."""
    newest = types[max(types)]
    return Message(
        api_key=int(getattr(newest, "__api_key__", NO_API)),
        structs=tuple(_structs(types)),
        versions=frozenset(types),
        flexible=frozenset(v for v, entity in types.items() if entity.__flexible__),
        header_flexible=frozenset(
            v
            for v, entity in types.items()
            if newest.__type__ is not EntityType.data and entity.__header_schema__.__flexible__
        ),
        kind=newest.__type__.name,
    )


def _structs(types: Mapping[int, Any]) -> Iterable[Struct]:
    """Yield the nested structs, and the struct itself at the end."""
    known: dict[str, Struct] = {}
    for nested in _nested(types):
        for struct in _structs(nested):
            if known.setdefault(struct.name, struct) != struct:
                raise ValueError(f"{struct.name} is two different things in one message")
    yield from known.values()
    yield Struct(
        name=types[max(types)].__name__,
        description=_descriptions(types[max(types)]).get("", ""),
        versions=frozenset(types),
        fields=tuple(_field(name, types) for name in _in_order(types)),
    )


def _nested(types: Mapping[int, Any]) -> Iterable[Mapping[int, Any]]:
    for name in _in_order(types):
        of_field = {v: _element(f) for v, f in _having(name, types).items()}
        by_name: dict[str, dict[int, Any]] = {}
        for version, element in of_field.items():
            if is_dataclass(element):
                by_name.setdefault(element.__name__, {})[version] = element  # type: ignore[union-attr]
        yield from by_name.values()


def _in_order(types: Mapping[int, Any]) -> Sequence[str]:
    """Return the names of all fields in their order over all versions.

    Tagged fields are left out. They concern KRaft (snapshots, features, the brokers' epochs) and
    mean nothing to this broker, so they are skipped when they are read.
    """
    after: dict[str, set[str]] = {}
    for version in sorted(types, reverse=True):
        names = [f.name for f in fields(types[version]) if "tag" not in f.metadata]
        for number, name in enumerate(names):
            after.setdefault(name, set()).update(names[:number])
    return list(
        TopologicalSorter(
            {n: sorted(a, key=list(after).index) for n, a in after.items()}
        ).static_order()
    )


def _having(name: str, types: Mapping[int, Any]) -> Mapping[int, Field[Any]]:
    return {
        version: field
        for version, entity in types.items()
        for field in fields(entity)
        if field.name == name
    }


def _field(name: str, types: Mapping[int, Any]) -> FieldOf:
    having = _having(name, types)
    newest = having[max(having)]
    kafka_type = _agreed({f.metadata.get("kafka_type", "") for f in having.values()}, name)
    element = _element(newest)
    title = f"{name}_ms" if kafka_type in MILLISECONDS else name
    return FieldOf(
        name=title,
        kafka_type=kafka_type,
        struct=element.__name__ if is_dataclass(element) else "",  # type: ignore[union-attr]
        nominal=_nominal(name, element, kafka_type),
        is_array=_agreed({_is_array(_value(f)) for f in having.values()}, name),
        versions=frozenset(having),
        nullable=frozenset(
            v
            for v, f in having.items()
            if NoneType in _options(f) and kafka_type not in ("uuid", "datetime_i64")
        ),
        default=_default(title, kafka_type, having, len(having) == len(types)),
        description=_descriptions(types[max(having)]).get(name, ""),
    )


def _agreed(values: set[Any], name: str) -> Any:
    if len(values) != 1:
        raise ValueError(f"{name} is {values} in versions of one message")
    return next(iter(values))


def _nominal(name: str, element: Any, kafka_type: str) -> str:
    called = getattr(element, "__name__", "")
    if called in OURS:
        return str(called)
    is_kio_s = getattr(element, "__module__", "").startswith("kio.")
    return NOMINAL.get(name, "") if is_kio_s and kafka_type in ("int32", "int64") else ""


def _default(title: str, kafka_type: str, having: Mapping[int, Field[Any]], always: bool) -> object:
    """Return the default of the newest version. A field that some version lacks always has a
    default: that of Kafka's fields without one in the schema, which is zero, empty or null."""
    newest = having[max(having)]
    if newest.default is not MISSING:
        value: object = newest.default
        if kafka_type == "datetime_i64":
            return -1
        return round(value / timedelta(milliseconds=1)) if isinstance(value, timedelta) else value
    if title in DEFAULTS:
        return DEFAULTS[title]
    if always:
        return MISSING
    if _is_array(_value(newest)):
        return ()
    if kafka_type == "uuid" or NoneType in _options(newest):
        return None
    return {"string": "", "bytes": b"", "records": b"", "bool": False}.get(kafka_type, 0)


# --- annotations ------------------------------------------------------------------------------


def _options(field: Field[Any]) -> tuple[Any, ...]:
    return (field.type,) if _is_array(field.type) else get_args(field.type) or (field.type,)


def _value(field: Field[Any]) -> Any:
    (value,) = (option for option in _options(field) if option is not NoneType)
    return value


def _element(field: Field[Any]) -> Any:
    value = _value(field)
    return get_args(value)[0] if _is_array(value) else value


def _is_array(option: Any) -> bool:
    return getattr(option, "__origin__", None) is tuple


@cache
def _descriptions(entity: Any) -> Mapping[str, str]:
    """Return the docstrings of a class's fields by their names, and that of the class itself under
    ""."""
    (body,) = (
        node.body
        for node in ast.parse(inspect.getsource(inspect.getmodule(entity) or entity)).body
        if isinstance(node, ast.ClassDef) and node.name == entity.__name__
    )
    found: dict[str, str] = {}
    name = ""
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.setdefault(name, inspect.cleandoc(str(node.value.value)))
    return found
