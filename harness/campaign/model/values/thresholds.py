"""Thresholds as campaign files write them: ``<= 10s``, ``< 5%``, ``>= 90/s``, ``<= 0``."""

import math
import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from ackproof.checkers.thresholds import OPERATORS, Measure, Unit
from ackproof.harness.campaign.model.values.amounts import RATE_MAX
from ackproof.harness.campaign.model.values.durations import parse_exact_ms
from ackproof.harness.campaign.model.values.sweep import AsWritten, one_or_several, several

_PATTERN = re.compile(r"(<=|>=|<|>)\s*(.+)")
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


def parse(text: object, unit: Unit) -> tuple[str, float]:
    """Return the operator and the limit, in ``unit``, of a threshold.

    Raises ValueError, saying what would be right, for anything else, and for a threshold that
    every value meets or that none can meet.
    """
    match = _PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
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


def _checked(measure: Measure, written: object) -> tuple[object, ...]:
    texts = several(written)
    if not texts:
        raise ValueError("should be a list with at least one value")
    for text in texts:
        _, limit = parse(text, measure.unit)
        if 0 < limit < (least := measure.none_up_to):
            words = measure.unit.words(least)
            raise ValueError(f"up to {words} counts as 0: give 0s or at least {words}, not {text}")
    return texts


def field_type(measure: Measure) -> Any:
    """Return the pydantic field type of a threshold on ``measure``, or a list of them that must all
    be met; None where there is none. It keeps them as they are written."""
    unit = measure.unit
    schema = {
        "title": f"threshold in {_TITLES[unit]}",
        "type": "string",
        "pattern": rf"^\s*(<=|<|>=|>)\s*{_VALUES[unit]}\s*$",
    }
    return Annotated[
        tuple[str, ...] | None,
        BeforeValidator(partial(_checked, measure)),
        AsWritten,
        WithJsonSchema(one_or_several(schema)),
    ]
