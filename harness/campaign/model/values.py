"""The notation of values in a campaign file: durations, amounts, thresholds, one value or several,
and selections of cells.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ackproof.checkers.thresholds import OPERATORS, ThresholdMeasure, Unit
from ackproof.config.documents import Problem
from ackproof.config.suggestions import unknown
from ackproof.history.cell import SETTINGS, Value, as_text

# --- sections -------------------------------------------------------------------------------------


def _dotted(field_name: str) -> str:
    return field_name.replace("_", ".")


class Section(BaseModel):
    model_config = ConfigDict(
        defer_build=True,
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=_dotted,
        use_attribute_docstrings=True,
    )


# --- one value or several -------------------------------------------------------------------------


def several(value: object) -> tuple[object, ...]:
    """Return a list as a tuple, and a single value as a tuple of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _written(values: tuple[Value, ...] | None) -> object:
    return values[0] if values and len(values) == 1 else values


@dataclass(frozen=True, slots=True)
class _OneOrMany:
    """An annotation that lets a list field also take a single value."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(several, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return one_or_several(handler(schema)["items"])


def one_or_several(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of one value or a list of values, given the schema of one."""
    return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}


def _scalar(value: object) -> object:
    if not isinstance(value, str | int | float):
        raise PydanticCustomError("scalar_type", "Input should be text, a number, true or false")
    return value


Several = _OneOrMany()
AsWritten = PlainSerializer(_written)
"""A serializer that writes a list of one back into the file as the value alone."""

Scalar = Annotated[Value, BeforeValidator(_scalar)]
"""A pydantic field type: a value of a property. A value of a wrong type is one problem, not one for
each type that it might have had."""

OneOrSeveral = Annotated[tuple[Scalar, ...], Field(min_length=1), Several, AsWritten]
"""A pydantic field type: values of a property."""


# --- durations ------------------------------------------------------------------------------------
#
# A bare number is refused, because it could mean seconds or milliseconds.

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)")
DURATION_MS_MAX = 7 * 24 * 3_600_000
"""The longest duration in a file, in milliseconds. A longer one is a mistake."""


def parse_ms(text: object) -> int:
    """Return ``text`` in whole milliseconds, for example 1500 for ``1.5s``. Raises as
    :func:`parse_exact_ms`."""
    return round(parse_exact_ms(text))


def parse_exact_ms(text: object) -> float:
    """Return ``text`` in milliseconds, for example 0.5 for ``0.5ms``.

    Raises ValueError, with an example, for anything but a number and a unit, and for more than
    :data:`DURATION_MS_MAX`.
    """
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"a length of time needs a number and a unit, like 5s or 300ms: {text!r}")
    duration_ms = float(match[1]) * _UNITS_MS[match[2]]
    if duration_ms > DURATION_MS_MAX:  # float has room for infinity, and round has not
        raise ValueError(f"{match[0]} is too long: at most {format_ms(DURATION_MS_MAX)}")
    return duration_ms


def format_ms(duration_ms: int) -> str:
    """Return ``duration_ms`` in the notation of :func:`parse_ms`, in the largest unit that fits
    exactly."""
    for unit in ("h", "m", "s"):
        if duration_ms and duration_ms % _UNITS_MS[unit] == 0:
            return f"{duration_ms // _UNITS_MS[unit]}{unit}"
    return f"{duration_ms}ms"


def _parse_range(value: object) -> tuple[int, int]:
    bounds = value if isinstance(value, list) else [value, value]
    if len(bounds) != 2:
        raise ValueError("a range of times is [shortest, longest], like [4s, 7s]")
    shortest, longest = parse_ms(bounds[0]), parse_ms(bounds[1])
    if shortest > longest:
        raise ValueError(f"the shortest time comes first, like [{bounds[1]}, {bounds[0]}]")
    return shortest, longest


def _format_range(bounds_ms: tuple[int, int]) -> list[str]:
    return [format_ms(bound) for bound in bounds_ms]


_SCHEMA: dict[str, Any] = {
    "title": "duration",
    "type": "string",
    "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h)\s*$",
}
_RANGE: dict[str, Any] = {
    "title": "[shortest, longest]",
    "type": "array",
    "items": _SCHEMA,
    "minItems": 2,
    "maxItems": 2,
}

Duration = Annotated[
    int, BeforeValidator(parse_ms), PlainSerializer(format_ms), WithJsonSchema(_SCHEMA)
]
"""A pydantic field type: ``5s`` in the file, milliseconds in the model."""

DurationRange = Annotated[
    tuple[int, int],
    BeforeValidator(_parse_range),
    PlainSerializer(_format_range),
    WithJsonSchema({"anyOf": [_SCHEMA, _RANGE]}),
]
"""A pydantic field type: ``[4s, 7s]`` in the file, or ``5s`` for exactly that. In the model it is
the shortest and the longest duration in milliseconds."""


# --- amounts --------------------------------------------------------------------------------------

FLAT_OUT = "flat-out"
RATE_MAX = 1_000_000


def _rate(value: object, number: ValidatorFunctionWrapHandler) -> object:
    return math.inf if value == FLAT_OUT else number(value)


def _written_rate(rate: float) -> float | str:
    return FLAT_OUT if math.isinf(rate) else rate


def _sizes(value: object) -> tuple[int, int]:
    written = list(value) if isinstance(value, list | tuple) else [value, value]
    bounds = [one for one in written if isinstance(one, int) and one is not True and one >= 1]
    if not len(written) == len(bounds) == 2:
        raise ValueError(
            f"a size is a whole number of bytes from 1, or [smallest, largest], not {value!r}"
        )
    smallest, largest = bounds
    if smallest > largest:
        raise ValueError(f"the smallest size comes first, like [{largest}, {smallest}]")
    return smallest, largest


def _written_sizes(sizes: tuple[int, int]) -> int | list[int]:
    smallest, largest = sizes
    return smallest if smallest == largest else [smallest, largest]


_RATE: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0, "maximum": RATE_MAX}
_SIZE: dict[str, Any] = {"type": "integer", "minimum": 1}
_SIZES: dict[str, Any] = {
    "title": "[smallest, largest]",
    "type": "array",
    "items": _SIZE,
    "minItems": 2,
    "maxItems": 2,
}

Rate = Annotated[
    float,
    Field(gt=0, le=RATE_MAX, allow_inf_nan=False),
    WrapValidator(_rate),
    PlainSerializer(_written_rate),
    WithJsonSchema({"anyOf": [_RATE, {"const": FLAT_OUT}]}),
]
"""A pydantic field type: records per second, or infinity for ``flat-out``."""

Sizes = Annotated[
    tuple[int, int],
    BeforeValidator(_sizes),
    PlainSerializer(_written_sizes),
    WithJsonSchema({"anyOf": [_SIZE, _SIZES]}),
]
"""A pydantic field type: ``100`` or ``[100, 2000]`` in the file. In the model it is the smallest
and the largest size in bytes."""


# --- thresholds -----------------------------------------------------------------------------------

_BOUND = re.compile(r"(<=|>=|<|>)\s*(.+)")
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_VALUES: Mapping[Unit, str] = {
    Unit.RECORDS: r"([0-9]{1,15})",
    Unit.MILLISECONDS: rf"({_NUMBER}\s*(?:ms|s|m|h))",
    Unit.PERCENT: rf"({_NUMBER})\s*%",
    Unit.RECORDS_PER_SECOND: rf"({_NUMBER})\s*(?:/s)?",
}
_EXAMPLES: Mapping[Unit, str] = {
    Unit.RECORDS: "<= 0",
    Unit.MILLISECONDS: "<= 10s",
    Unit.PERCENT: "<= 5%",
    Unit.RECORDS_PER_SECOND: ">= 90/s",
}
_KINDS: Mapping[Unit, str] = {
    Unit.RECORDS: "a whole number of records",
    Unit.MILLISECONDS: "a length of time",
    Unit.PERCENT: "a share in percent",
    Unit.RECORDS_PER_SECOND: "a number of records a second",
}
_TITLES: Mapping[Unit, str] = {
    Unit.RECORDS: "records",
    Unit.MILLISECONDS: "time",
    Unit.PERCENT: "percent",
    Unit.RECORDS_PER_SECOND: "records a second",
}
_LARGEST: Mapping[Unit, float] = {Unit.PERCENT: 100, Unit.RECORDS_PER_SECOND: RATE_MAX}


def parse_threshold(text: object, unit: Unit) -> tuple[str, float]:
    """Return the operator and the limit, in ``unit``, of a threshold.

    Raises ValueError, with an example, for any other text, and for a threshold that every value
    meets or that none can meet.
    """
    match = _BOUND.fullmatch(text.strip()) if isinstance(text, str) else None
    value = re.fullmatch(_VALUES[unit], match[2]) if match else None
    if match is None or value is None:
        raise ValueError(
            f"a threshold is one of {', '.join(OPERATORS)} and {_KINDS[unit]}, in quotes, like "
            f'"{_EXAMPLES[unit]}", not {text!r}'
        )
    limit = parse_exact_ms(value[1]) if unit is Unit.MILLISECONDS else float(value[1])
    how, largest = match[1], _LARGEST.get(unit, math.inf)
    if limit > largest:
        raise ValueError(f"{match[0]} is too large: at most {unit.words(largest)}")
    most = largest if unit is Unit.PERCENT else math.inf
    if (how, limit) in ((">=", 0), ("<=", most)):
        raise ValueError(f"every value is {match[0]}, so this threshold checks nothing")
    if (how, limit) in (("<", 0), (">", most)):
        raise ValueError(f"no value is {match[0]}, so this threshold can never be met")
    return how, limit


def _checked(measure: ThresholdMeasure, written: object) -> tuple[object, ...]:
    texts = several(written)
    if not texts:
        raise ValueError("should be a list with at least one value")
    for text in texts:
        _, limit = parse_threshold(text, measure.unit)
        if 0 < limit < (least := measure.none_up_to):
            words = measure.unit.words(least)
            raise ValueError(f"up to {words} counts as 0: give 0s or at least {words}, not {text}")
    return texts


def threshold_type(measure: ThresholdMeasure) -> Any:
    """Return the pydantic field type of a threshold on ``measure``, or of a list of thresholds that
    must all be met. Its value is None without a threshold. It keeps thresholds as they are
    written."""
    unit = measure.unit
    schema = {
        "title": _TITLES[unit],
        "type": "string",
        "pattern": rf"^\s*(<=|<|>=|>)\s*{_VALUES[unit]}\s*$",
    }
    return Annotated[
        tuple[str, ...] | None,
        BeforeValidator(partial(_checked, measure)),
        AsWritten,
        WithJsonSchema(one_or_several(schema)),
    ]


# --- choices of cells -----------------------------------------------------------------------------

Where = Mapping[str, Scalar]
"""A pydantic field type: settings by name, all of which a cell must have."""


def holds_for(where: Where, settings: Mapping[str, Value]) -> bool:
    """Return whether a cell with ``settings`` has all settings of ``where``."""
    return all(
        name in settings and _text(name, value) == _text(name, settings[name])
        for name, value in where.items()
    )


def where_problems(
    field: str, where: Where, cells: Sequence[Mapping[str, Value]]
) -> Iterator[Problem]:
    """Yield the problems of ``where``, which stands at ``field``, given all settings of each cell.
    A selection that matches no cell is a mistake."""
    known = sorted({name for settings in cells for name in settings})
    if strange := [name for name in where if name not in known]:
        for name in strange:
            yield Problem(field=f"{field}.{name}", reason=unknown("setting", name, known), key=True)
    elif not any(holds_for(where, settings) for settings in cells):
        asked = ", ".join(f"{name}: {as_text(value)}" for name, value in where.items())
        yield Problem(field=field, reason=f"no cell has {asked}")


def _text(name: str, value: Value) -> str:
    """Return a value as text. ``acks: 1`` and ``acks: "1"`` give the same text."""
    try:
        return as_text(SETTINGS[name].parse(value)) if name in SETTINGS else as_text(value)
    except ValueError:
        return as_text(value)


# --- short forms ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shorthand:
    """An annotation of a list of entries. A single entry counts as a list of one, and a single text
    as an entry for every cell.

    Attributes:
        key: The key of an entry to which the text belongs.
        text: The JSON Schema of the text.
        needs_key: Whether each entry must have the key.
    """

    key: str
    text: Mapping[str, Any]
    needs_key: bool = True

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._entries, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        listed = handler(schema)
        return {"anyOf": [dict(self.text), listed["items"], listed]}

    def _entries(self, written: object) -> object:
        if isinstance(written, str):
            return ({self.key: written},)
        if isinstance(written, dict) and (self.key in written or not self.needs_key):
            return (written,)
        if isinstance(written, dict):  # `{acks}` without quotes is one, too
            raise PydanticCustomError(
                "short", "text in quotes, or an entry with the key {key}", {"key": self.key}
            )
        return tuple(written) if isinstance(written, list) else written
