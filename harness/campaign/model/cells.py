"""The section ``cells`` of a campaign file, and the cells that it stands for.

:data:`history.cell.SETTINGS` alone defines the settings, their values and their defaults. The
fields of the section are made of it.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from ackproof.config.documents import PatternDescription
from ackproof.harness.campaign.model.values import (
    AsWritten,
    OneOrSeveral,
    Section,
    Shorthand,
    Where,
    holds_for,
    one_or_several,
    several,
)
from ackproof.history.cell import SETTINGS, Cell, Scope, Setting, Value, as_text

# --- names of cells -------------------------------------------------------------------------------
#
# In the file, ``name`` is either one name for every cell, or a list of entries. The entry ``{where:
# {acks: 1}, name: orders}`` is for the cells with these settings. A name may hold settings in
# braces, ``{acks}``, for the values of the cell. If several names are for a cell, the last one
# counts. A cell without one is named after its settings
# (:func:`harness.campaign.model.cells.combinations`).

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9-]+")
_IN_BRACES = re.compile(r"\{([^{}]*)\}")
_PATTERN = r"^([a-zA-Z0-9._-]|\{[a-zA-Z0-9._-]+\})+$"


class CellName(Section):
    """The name of the cells with these settings."""

    where: Where = {}
    """[The cells](#values)."""
    name: Annotated[
        str,
        PatternDescription(
            _PATTERN, "letters, digits, dots, _ and -, and settings in braces, as {acks}"
        ),
        Field(max_length=200),
    ]
    """The name of the cell and its topic. `{acks}` or `{producer.linger.ms}` stands for the
    setting's value."""


CellNames = Annotated[
    tuple[CellName, ...],
    Shorthand("name", {"type": "string", "pattern": _PATTERN, "maxLength": 200}),
]
"""A pydantic field type."""


def entry_for(names: Sequence[CellName], settings: Mapping[str, Value]) -> int | None:
    """Return the index of the name in ``names`` that counts for a cell with ``settings``, or None
    if none is for it."""
    found = [index for index, one in enumerate(names) if holds_for(one.where, settings)]
    return found[-1] if found else None


def settings_in(name: str) -> Sequence[str]:
    """Return the settings that appear in braces in a name."""
    return _IN_BRACES.findall(name)


def filled_in(name: str, settings: Mapping[str, Value]) -> str:
    """Return a name with the values of a cell in place of the settings in braces. Braces around
    anything else stay as they are."""
    return _IN_BRACES.sub(
        lambda found: as_part(settings[found[1]]) if found[1] in settings else found[0], name
    )


def as_part(value: Value | str) -> str:
    """Return a value as a part of a name: each run of characters other than letters, digits and
    dashes becomes one dash."""
    return _NOT_IN_A_NAME.sub("-", as_text(value))


# --- the section ----------------------------------------------------------------------------------

CELLS_MAX = 200
"""The largest number of cells of one campaign. Each has a topic and clients of its own, in one
cluster."""

_FURTHER = (Scope.TOPIC, Scope.PRODUCER)


class Sweep(Section):
    """The topics and clients to compare. Each value may be a list. Every combination is a cell with
    a topic of its own; all share one cluster and its faults."""

    prefix: Annotated[
        str,
        PatternDescription(r"^[a-zA-Z0-9._-]*$", "letters, digits, dots, _ and -"),
        Field(max_length=60),
    ] = ""
    """Prefix of all topic names, also in targets. Default on an external cluster: `ackproof-`, the
    seed and a dash."""
    alone: bool = False
    """Give each cell a run of its own, to compare speed."""
    name: CellNames = ()
    """[Names of cells](#names-of-cells) and topics: `"{acks}-{client}"`, or `[{where: {acks: 1},
    name: orders}]`."""
    exclude: tuple[Where, ...] = ()
    """Combinations to leave out: `[{acks: 0, enable.idempotence: true}]`."""
    topic: Mapping[str, OneOrSeveral] = {}
    """Further topic properties, such as ``segment.bytes``."""
    producer: Mapping[str, OneOrSeveral] = {}
    """Further producer properties, such as ``linger.ms``; if cells have another ``client``,
    [those that all have](client-protocol.md#properties)."""

    @property
    def dimensions(self) -> Mapping[str, tuple[Value, ...]]:
        """Return the values of each setting and property that the file names, by its name in a
        cell."""
        known = {name: getattr(self, _field(name)) for name in SETTINGS}
        further = {
            f"{scope}.{name}": values
            for scope in _FURTHER
            for name, values in getattr(self, scope).items()
        }
        return {name: values for name, values in (known | further).items() if values is not None}

    @property
    def size(self) -> int:
        """Return the number of cells.

        Above :data:`CELLS_MAX` combinations, return the number of combinations, including excluded
        ones. They are then never expanded, because a file may ask for billions.
        """
        combined = math.prod(map(len, self.dimensions.values()))
        return combined if combined > CELLS_MAX else len(expand(self))


def _field(name: str) -> str:
    return name.replace(".", "_")


def _values(setting: Setting[Any], written: object) -> tuple[Value, ...]:
    return tuple(setting.parse(value) for value in several(written))


def _known(setting: Setting[Any]) -> tuple[Any, Any]:
    """Return a field of the section: its type and its pydantic definition."""
    parse = BeforeValidator(partial(_values, setting))
    values = Annotated[tuple[Value, ...], Field(min_length=1)]
    schema = WithJsonSchema(one_or_several(setting.written))
    if setting.default is None:
        return Annotated[values, parse, AsWritten, schema], Field(description=setting.meaning)
    unsaid = setting.default(Cell(name="", topic=""))
    left_out = Field(
        default=None, description=setting.meaning, json_schema_extra={"default": unsaid}
    )
    return Annotated[values | None, parse, AsWritten, schema], left_out


def section(settings: Mapping[str, Setting[Any]]) -> type[Sweep]:
    """Return the model of the section for ``settings``."""
    fields: dict[str, Any] = {_field(name): _known(one) for name, one in settings.items()}
    return create_model("Cells", __base__=Sweep, __doc__=Sweep.__doc__, **fields)


class Cells(section(SETTINGS)):  # type: ignore[misc]  # its fields are SETTINGS
    __doc__ = Sweep.__doc__


def expand(sweep: Sweep) -> tuple[Cell, ...]:
    """Return every combination that is not excluded, in the order of the file's lists, with
    defaults filled in."""
    return tuple(
        cell
        for cell in combinations(sweep)
        if not any(holds_for(excluded, cell.settings) for excluded in sweep.exclude)
    )


def clients_of_cells(sweep: Sweep) -> tuple[str, ...]:
    """Return the values of ``client`` among the cells of a sweep, each once."""
    return tuple(dict.fromkeys(cell.client for cell in expand(sweep)))


def only(sweep: Sweep, cell: Cell) -> Sweep:
    """Return a sweep of that cell alone, in which the cell has the same name as in ``sweep``."""
    others = (other.settings for other in expand(sweep) if other.name != cell.name)
    return sweep.model_copy(update={"alone": False, "exclude": (*sweep.exclude, *others)})


def combinations(sweep: Sweep) -> tuple[Cell, ...]:
    """Return every combination as a cell.

    A cell has the name that the file gives it. Without one, it is named after its settings, for
    example ``acks-all.minisr-2.rf-2``, and its topic is the same with dashes for dots. ``acks`` and
    ``min.insync.replicas`` are in each such name. Another setting is in it if the setting is swept
    and the cell's value is not the usual one. The usual value is the default, or the first value of
    the list if the list does not contain the default. A setting that is given as a single value is
    never in it.

    Therefore names do not change when another setting is swept. The cell with the former value of
    that setting keeps its name, if that value is the default or the first of a list without the
    default. In any case each former name is still there, and targets in ``faults`` find their
    topics. No two cells share a name, because only one value of each setting adds no part. Values
    that read alike as a part of a name are refused.
    """
    dimensions = sweep.dimensions
    return tuple(
        _cell(dict(zip(dimensions, values, strict=True)), dimensions, sweep)
        for values in itertools.product(*dimensions.values())
    )


def _cell(
    given: Mapping[str, Value], dimensions: Mapping[str, Sequence[Value]], sweep: Sweep
) -> Cell:
    bare = Cell(name="", topic="", settings=given)
    known = {name: setting.__get__(bare, Cell) for name, setting in SETTINGS.items()}
    settings = {**known, **given}
    if (entry := entry_for(sweep.name, settings)) is not None:
        name = topic = filled_in(sweep.name[entry].name, settings)
    else:
        name = ".".join(
            _part(setting, value)
            for setting, value in settings.items()
            if _stands_in_names(setting) or _is_unusual(setting, bare, dimensions.get(setting, ()))
        )
        topic = name.replace(".", "-")
    return Cell(name=name, topic=sweep.prefix + topic, settings=settings)


def _stands_in_names(setting: str) -> bool:
    return setting in SETTINGS and SETTINGS[setting].named


def _is_unusual(setting: str, cell: Cell, swept: Sequence[Value]) -> bool:
    """Return whether the cell's name must contain its value of a setting."""
    values = [as_text(value) for value in swept]
    if len(values) < 2:
        return False
    usual = values[0]
    if setting in SETTINGS and (default := SETTINGS[setting].default) is not None:
        usual = as_text(default(cell)) if as_text(default(cell)) in values else usual
    return as_text(cell.settings[setting]) != usual


def _part(setting: str, value: Value) -> str:
    """Return the part of a name that gives a setting and its value.

    A property of the topic stands without its scope and one of the producer with it, because both
    have a `compression.type`.
    """
    short = SETTINGS[setting].short if setting in SETTINGS else None
    label = short or setting.removeprefix(f"{Scope.TOPIC}.")
    return as_part(f"{label}-{as_text(value)}")
