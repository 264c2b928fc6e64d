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

from ackproof.checkers.verdict import Verdict
from ackproof.harness.campaign.model.section import Section
from ackproof.harness.campaign.model.values.sweep import AsWritten, Several
from ackproof.harness.campaign.model.values.where import Where, holds_for, where_problems
from ackproof.history.cell import Value
from ackproof.infra.documents import Problem


class Expectation(Section):
    """The verdict of the cells with these settings; of all without ``where``."""

    where: Where = {}
    """Settings of the cells that it is for: their own, what is swept of the cluster, and
    `cluster: NAME` of clusters that are compared."""
    verdict: Annotated[
        tuple[Annotated[Verdict, Field(strict=False)], ...], Field(min_length=1), Several, AsWritten
    ]
    """What they are to come to: see the [guarantees](guarantees.md). Of a list each is right: for
    cells whose verdict depends on the seed."""


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
    found = [one.verdict for one in expectations if holds_for(one.where, settings)]
    return tuple(verdict.value for verdict in found[-1]) if found else ()


def problems(
    expectations: Sequence[Expectation], cells: Sequence[Mapping[str, Value]]
) -> Iterator[Problem]:
    """What is wrong with expectations of ``cells``, each all settings of a cell and its cluster."""
    for index, one in enumerate(expectations):
        yield from where_problems(f"expect[{index}].where", one.where, cells)
