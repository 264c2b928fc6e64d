"""Any message of the protocol, with any values in its fields, for property-based tests."""

import datetime
import uuid
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta, i64Timedelta

EPOCH = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
TOPIC = "fuzzed"
"""A topic name that comes up often."""


def _ms(number: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=number)


PRIMITIVES = {
    "bool": st.booleans(),
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "string": st.sampled_from(("", TOPIC, "a" * 200)) | st.text(max_size=9),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "uuid": st.uuids(version=4) | st.just(uuid.UUID(int=2**64)),
    "error_code": st.sampled_from(list(ErrorCode)),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: i32Timedelta.parse(_ms(ms))),
    "timedelta_i64": st.integers(-(2**40), 2**40).map(lambda ms: i64Timedelta.parse(_ms(ms))),
    "datetime_i64": st.just(EPOCH),
}


def values(kind: str | None, type_: Any, *, tagged: bool = True) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a field of this type."""
    options = get_args(type_)
    if get_origin(type_) is tuple:
        return st.lists(values(kind, options[0], tagged=tagged), max_size=3).map(tuple)
    if NoneType in options:
        rest = next(option for option in options if option is not NoneType)
        return st.none() | values(kind, rest, tagged=tagged)
    return entities(type_, tagged=tagged) if is_dataclass(type_) else PRIMITIVES[str(kind)]


@cache
def entities(type_: Any, *, tagged: bool = True) -> st.SearchStrategy[Any]:
    """Instances of a kio entity, or of one like it; tagged fields have their defaults unless they
    are wanted."""
    return st.builds(
        type_,
        **{
            f.name: values(f.metadata.get("kafka_type"), f.type, tagged=tagged)
            for f in fields(type_)
            if tagged or "tag" not in f.metadata
        },
    )
