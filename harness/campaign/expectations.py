"""What a campaign expects of its cells, where that is not that everything holds.

In the file either a verdict, for every cell, or a list: ``{where: {acks: 1}, verdict: fail}`` is
for the cells with these settings. ``where`` may name what is swept of the cluster, too, and a
cluster that is compared with others: ``cluster: <name>``. Of several that are for a cell the last
one counts. What chance decides may have several verdicts, ``verdict: [fail, pass]``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from checkers.verdict import Verdict
from harness.campaign.section import Section
from harness.campaign.sweep import AsWritten, Scalar, Several
from history.cell import SETTINGS, Value, as_text
from infra.documents import Problem
from infra.wording import unknown


class Expectation(Section):
    """The verdict of the cells with these settings; of all without ``where``."""

    where: Mapping[str, Scalar] = {}
    """Settings of the cells that it is for: their own, what is swept of the cluster, and
    `cluster: NAME` of clusters that are compared."""
    verdict: Annotated[
        tuple[Annotated[Verdict, Field(strict=False)], ...], Field(min_length=1), Several, AsWritten
    ]
    """What they are to come to: see the [guarantees](guarantees.md). Of a list each is right: for
    cells whose verdict depends on the seed."""

    def holds_for(self, settings: Mapping[str, Value]) -> bool:
        """Whether it is for a cell with ``settings``, its own and its cluster's."""
        return all(
            name in settings and _text(name, value) == _text(name, settings[name])
            for name, value in self.where.items()
        )


def _short(written: object) -> object:
    if isinstance(written, str):
        return ({"verdict": written},)
    return tuple(written) if isinstance(written, list) else written


class _Short:
    """Says in the JSON Schema that a verdict may stand for the list."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"enum": [verdict.value for verdict in Verdict]}, handler(schema)]}


Expectations = Annotated[tuple[Expectation, ...], BeforeValidator(_short), _Short()]
"""A pydantic field type."""


def expected(expectations: Sequence[Expectation], settings: Mapping[str, Value]) -> tuple[str, ...]:
    """The verdicts that are expected of a cell, each of them right; none when it is to hold."""
    found = [one.verdict for one in expectations if one.holds_for(settings)]
    return tuple(verdict.value for verdict in found[-1]) if found else ()


def problems(
    expectations: Sequence[Expectation], cells: Sequence[Mapping[str, Value]]
) -> Iterator[Problem]:
    """What is wrong with expectations of ``cells``, each all settings of a cell and its cluster:
    one that is for none of them is a slip of the pen."""
    known = sorted({name for settings in cells for name in settings})
    for index, one in enumerate(expectations):
        where = f"expect[{index}].where"
        if strange := [name for name in one.where if name not in known]:
            for name in strange:
                reason = unknown("setting", name, known)
                yield Problem(field=f"{where}.{name}", reason=reason, key=True)
        elif not any(one.holds_for(settings) for settings in cells):
            asked = ", ".join(f"{name}: {as_text(value)}" for name, value in one.where.items())
            yield Problem(field=where, reason=f"no cell has {asked}")


def _text(name: str, value: Value) -> str:
    """``acks: 1`` and ``acks: "1"`` are the same."""
    try:
        return as_text(SETTINGS[name].parse(value)) if name in SETTINGS else as_text(value)
    except ValueError:
        return as_text(value)
