"""The section ``cells`` of a campaign file, and the cells that it stands for.

Which settings there are, which values they take and what they are when nobody says is told by
:data:`history.cell.SETTINGS` alone: the section's fields are made of it.
"""

import itertools
import math
import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from ackproof.harness.campaign.model.section import Section
from ackproof.harness.campaign.model.values.sweep import (
    AsWritten,
    OneOrSeveral,
    one_or_several,
    several,
)
from ackproof.harness.campaign.model.values.where import Where, holds_for
from ackproof.history.cell import SETTINGS, Cell, Scope, Setting, Value, as_text
from ackproof.infra.worded import Worded

CELLS_MAX = 200
"""Of one campaign: each has a topic and clients of its own, in one cluster."""

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9-]+")
_FURTHER = (Scope.TOPIC, Scope.PRODUCER)


class Sweep(Section):
    """What is told apart: topics and clients. Each value may be a list, and every combination of
    the lists is a cell, with a topic of its own; all live in the same cluster, through the same
    faults."""

    prefix: Annotated[
        str, Worded(r"^[a-zA-Z0-9._-]*$", "letters, digits, dots, _ and -"), Field(max_length=60)
    ] = ""
    """What the names of all topics begin with; on a cluster of your own `ackproof-`, the seed and a
    dash, where nobody says. Whoever gives one names topics with it in targets, too."""
    alone: bool = False
    """Whether each cell has a run of its own, one after the other, and with it the cluster to
    itself: where speed is compared, cells that share one take it from each other."""
    exclude: tuple[Where, ...] = ()
    """Combinations to leave out: `[{acks: 0, enable.idempotence: true}]` leaves out every cell with
    both."""
    topic: Mapping[str, OneOrSeveral] = {}
    """Further properties of the topics, by Kafka's names, such as ``segment.bytes``."""
    producer: Mapping[str, OneOrSeveral] = {}
    """Further properties of the producers, by librdkafka's names, such as ``linger.ms``; where
    there are cells of another ``client``, those that [all have](client-protocol.md#properties)."""

    @property
    def dimensions(self) -> Mapping[str, tuple[Value, ...]]:
        """The values of each setting and property that the file names, by its name in a cell."""
        known = {name: getattr(self, _field(name)) for name in SETTINGS}
        further = {
            f"{scope}.{name}": values
            for scope in _FURTHER
            for name, values in getattr(self, scope).items()
        }
        return {name: values for name, values in (known | further).items() if values is not None}

    @property
    def size(self) -> int:
        """The number of cells. Above :data:`CELLS_MAX` combinations, the number of combinations,
        excluded ones included: they are never expanded, since a file may ask for billions."""
        combined = math.prod(map(len, self.dimensions.values()))
        return combined if combined > CELLS_MAX else len(expand(self))


def _field(name: str) -> str:
    return name.replace(".", "_")


def _values(setting: Setting[Any], written: object) -> tuple[Value, ...]:
    return tuple(setting.parse(value) for value in several(written))


def _known(setting: Setting[Any]) -> tuple[Any, Any]:
    """A field of the section: its type, and what else there is to say of it."""
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
    """The model of the section, given the settings that there are."""
    fields: dict[str, Any] = {_field(name): _known(one) for name, one in settings.items()}
    return create_model("Cells", __base__=Sweep, __doc__=Sweep.__doc__, **fields)


class Cells(section(SETTINGS)):  # type: ignore[misc]  # its fields are SETTINGS
    __doc__ = Sweep.__doc__


def expand(sweep: Sweep) -> tuple[Cell, ...]:
    """Every combination that is not excluded, in the order of the file's lists, with what the file
    leaves out filled in."""
    return tuple(
        cell
        for cell in combinations(sweep)
        if not any(holds_for(excluded, cell.settings) for excluded in sweep.exclude)
    )


def clients_of(sweep: Sweep) -> tuple[str, ...]:
    """What its cells have as their ``client``, each once."""
    return tuple(dict.fromkeys(cell.client for cell in expand(sweep)))


def only(sweep: Sweep, cell: Cell) -> Sweep:
    """A sweep of that cell alone, which is called what it is called in ``sweep``."""
    others = (other.settings for other in expand(sweep) if other.name != cell.name)
    return sweep.model_copy(update={"alone": False, "exclude": (*sweep.exclude, *others)})


def combinations(sweep: Sweep) -> tuple[Cell, ...]:
    """Every combination as a cell.

    A cell is called after the settings that always are in its name, and after whatever else is
    swept: ``acks-all.minisr-2.rf-3``; its topic likewise, with dashes.
    """
    dimensions = sweep.dimensions
    swept = {name for name, values in dimensions.items() if len(values) > 1}
    return tuple(
        _cell(dict(zip(dimensions, values, strict=True)), swept, sweep.prefix)
        for values in itertools.product(*dimensions.values())
    )


def _cell(given: Mapping[str, Value], swept: set[str], prefix: str) -> Cell:
    bare = Cell(name="", topic="", settings=given)
    known = {name: setting.__get__(bare, Cell) for name, setting in SETTINGS.items()}
    settings = {**known, **given}
    name = ".".join(
        _named(setting, value) for setting, value in settings.items() if _names(setting, swept)
    )
    return Cell(name=name, topic=prefix + name.replace(".", "-"), settings=settings)


def _names(setting: str, swept: set[str]) -> bool:
    return setting in swept or (setting in SETTINGS and SETTINGS[setting].named)


def _named(setting: str, value: Value) -> str:
    short = SETTINGS[setting].short if setting in SETTINGS else setting.partition(".")[2]
    return _NOT_IN_A_NAME.sub("-", f"{short or setting}-{as_text(value)}")
