"""Cells picked by their settings: ``where: {acks: 1}``, ``exclude: [{acks: 0}]``."""

from collections.abc import Iterator, Mapping, Sequence

from ackproof.config.documents import Problem
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign.model.values.sweep import Scalar
from ackproof.history.cell import SETTINGS, Value, as_text

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
