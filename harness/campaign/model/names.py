"""The names that a campaign file gives to its cells.

In the file either one name, for every cell, or entries: ``{where: {acks: 1}, name: orders}`` is for
the cells with these settings. A name may hold settings in braces, ``{acks}``, for the values of the
cell. Of several names that are for a cell the last one counts. A cell without one is called after
its settings (:func:`harness.campaign.model.cells.combinations`).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from ackproof.config.documents import Worded
from ackproof.harness.campaign.model.section import Section
from ackproof.harness.campaign.model.values.short import Short
from ackproof.harness.campaign.model.values.where import Where, holds_for
from ackproof.history.cell import Value, as_text

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9-]+")
_IN_BRACES = re.compile(r"\{([^{}]*)\}")
_PATTERN = r"^([a-zA-Z0-9._-]|\{[a-zA-Z0-9._-]+\})+$"


class CellName(Section):
    """The name of the cells with these settings; of all without `where`."""

    where: Where = {}
    """Settings of the cells that it is for."""
    name: Annotated[
        str,
        Worded(_PATTERN, "letters, digits, dots, _ and -, and settings in braces, as {acks}"),
        Field(max_length=200),
    ]
    """The name of the cell and of its topic. A setting in braces, as `{acks}` or
    `{producer.linger.ms}`, stands for its value in the cell."""


CellNames = Annotated[
    tuple[CellName, ...], Short("name", {"type": "string", "pattern": _PATTERN, "maxLength": 200})
]
"""A pydantic field type."""


def entry_for(names: Sequence[CellName], settings: Mapping[str, Value]) -> int | None:
    """Return which of ``names`` counts for a cell with ``settings``, None if none is for it."""
    found = [index for index, one in enumerate(names) if holds_for(one.where, settings)]
    return found[-1] if found else None


def settings_in(name: str) -> Sequence[str]:
    """Return the settings that stand in braces in a name."""
    return _IN_BRACES.findall(name)


def filled_in(name: str, settings: Mapping[str, Value]) -> str:
    """Return a name with the values of a cell in place of the settings in braces. What is no
    setting of the cell stays as it is."""
    return _IN_BRACES.sub(
        lambda found: as_part(settings[found[1]]) if found[1] in settings else found[0], name
    )


def as_part(value: Value | str) -> str:
    """Return a value as a part of a name: each run of other characters than letters, digits and
    dashes becomes a dash."""
    return _NOT_IN_A_NAME.sub("-", as_text(value))
