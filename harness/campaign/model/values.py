"""How a campaign file writes keys and values: durations, amounts, thresholds, one value or several,
and choices of cells.
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
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=_dotted,
        use_attribute_docstrings=True,
    )


# --- one value or several -------------------------------------------------------------------------


def several(value: object) -> tuple[object, ...]:
    """A value alone is a list of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _written(values: tuple[Value, ...] | None) -> object:
    return values[0] if values and len(values) == 1 else values


@dataclass(frozen=True, slots=True)
class _Several:
    """Makes a list field take a value alone, too."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(several, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return one_or_several(handler(schema)["items"])


def one_or_several(item: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of one value or a list of them, given that of one."""
    return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}


def _scalar(value: object) -> object:
    if not isinstance(value, str | int | float):
        raise PydanticCustomError("scalar_type", "Input should be text, a number, true or false")
    return value


Several = _Several()
AsWritten = PlainSerializer(_written)
"""A list of one goes back into the file as the value alone."""

Scalar = Annotated[Value, BeforeValidator(_scalar)]
"""A pydantic field type: a value of a property. What is none is one problem, not one for each type
that it might have had."""

OneOrSeveral = Annotated[tuple[Scalar, ...], Field(min_length=1), Several, AsWritten]
"""A pydantic field type: values of a property."""


# --- durations ------------------------------------------------------------------------------------
#
# A bare number is refused: whether it meant seconds or milliseconds nobody could tell.

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)")
DURATION_MS_MAX = 7 * 24 * 3_600_000
"""Of one length of time in a file: more is a slip of the pen."""


def parse_ms(text: object) -> int:
    """Whole milliseconds of ``text``, e.g. 1500 of ``1.5s``. Raises as :func:`parse_exact_ms`."""
    return round(parse_exact_ms(text))


def parse_exact_ms(text: object) -> float:
    """Milliseconds of ``text``, e.g. 0.5 of ``0.5ms``.

    Raises ValueError, saying what would be right, for anything else than number and unit, and for
    more than :data:`DURATION_MS_MAX`.
    """
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"a length of time needs a number and a unit, like 5s or 300ms: {text!r}")
    duration_ms = float(match[1]) * _UNITS_MS[match[2]]
    if duration_ms > DURATION_MS_MAX:  # float has room for infinity, and round has not
        raise ValueError(f"{match[0]} is too long: at most {format_ms(DURATION_MS_MAX)}")
    return duration_ms


def format_ms(duration_ms: int) -> str:
    """``duration_ms`` as :func:`parse_ms` reads it, in the largest unit that fits exactly."""
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
"""A pydantic field type: ``[4s, 7s]``, or ``5s`` for exactly that, in the file; shortest and
longest in milliseconds in the model."""


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
"""A pydantic field type: records a second; infinity for ``flat-out``."""

Sizes = Annotated[
    tuple[int, int],
    BeforeValidator(_sizes),
    PlainSerializer(_written_sizes),
    WithJsonSchema({"anyOf": [_SIZE, _SIZES]}),
]
"""A pydantic field type: ``100``, or ``[100, 2000]``, in the file; smallest and largest, bytes."""


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

    Raises ValueError, saying what would be right, for anything else, and for a threshold that
    every value meets or that none can meet.
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
        raise ValueError(f"every value is {match[0]}, so that this threshold checks nothing")
    if (how, limit) in (("<", 0), (">", most)):
        raise ValueError(f"no value is {match[0]}, so that this threshold can never be met")
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
    """Return the pydantic field type of a threshold on ``measure``, or a list of them that must all
    be met; None where there is none. It keeps them as they are written."""
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
    """Whether a cell with ``settings`` has all of ``where``."""
    return all(
        name in settings and _text(name, value) == _text(name, settings[name])
        for name, value in where.items()
    )


def where_problems(
    field: str, where: Where, cells: Sequence[Mapping[str, Value]]
) -> Iterator[Problem]:
    """What is wrong with ``where``, which stands at ``field``, given all settings of each cell:
    what picks none of them is a slip of the pen."""
    known = sorted({name for settings in cells for name in settings})
    if strange := [name for name in where if name not in known]:
        for name in strange:
            yield Problem(field=f"{field}.{name}", reason=unknown("setting", name, known), key=True)
    elif not any(holds_for(where, settings) for settings in cells):
        asked = ", ".join(f"{name}: {as_text(value)}" for name, value in where.items())
        yield Problem(field=field, reason=f"no cell has {asked}")


def _text(name: str, value: Value) -> str:
    """``acks: 1`` and ``acks: "1"`` are the same."""
    try:
        return as_text(SETTINGS[name].parse(value)) if name in SETTINGS else as_text(value)
    except ValueError:
        return as_text(value)


# --- short forms ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Short:
    """An annotation of a list of entries: an entry alone is a list of one, and a text alone an
    entry for every cell.

    Attributes:
        key: The key of an entry that the text belongs to.
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
