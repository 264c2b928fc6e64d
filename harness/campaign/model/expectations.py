"""The expectations of a campaign for its cells: an outcome other than that everything holds, and
thresholds on measured values.

In the file they are a verdict or a mapping for every cell, or a list of mappings. The mapping
``{where: {acks: 1}, verdict: fail}`` is for the cells with these settings. ``where`` may also name
swept settings of the cluster, and a compared cluster: ``cluster: <name>``. If several mappings give
a cell a verdict, or thresholds on the same measure, the last one counts. An outcome that depends on
chance may have several verdicts, ``verdict: [fail, pass]``. Thresholds are further keys, such as
``unavailable.longest: "<= 10s"``. :data:`checkers.thresholds.MEASURES` lists them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, create_model, model_validator

from ackproof.checkers.thresholds import MEASURES, ThresholdMeasure
from ackproof.checkers.verdict import Verdict
from ackproof.config.documents import Problem
from ackproof.harness.campaign.model import values
from ackproof.harness.campaign.model.values import (
    AsWritten,
    Section,
    Several,
    Shorthand,
    Where,
    holds_for,
    where_problems,
)
from ackproof.history.cell import Value
from ackproof.history.manifest import PlannedThreshold


class _CellExpectations(Section):
    """The expectations for some cells. All keys but `where` and `verdict` are thresholds."""

    where: Where = {}
    """[The cells](#values); also by swept values of the cluster, or by `cluster: NAME` of a
    compared one."""
    verdict: (
        Annotated[
            tuple[Annotated[Verdict, Field(strict=False)], ...],
            Field(min_length=1),
            Several,
            AsWritten,
        ]
        | None
    ) = None
    """The accepted [verdicts](guarantees.md). Default: every guarantee must hold."""

    @property
    def thresholds(self) -> Mapping[str, tuple[str, ...]]:
        """Return the thresholds as they are written, by measure."""
        written = {name: getattr(self, _field(name)) for name in MEASURES}
        return {name: texts for name, texts in written.items() if texts is not None}

    @model_validator(mode="after")
    def _expects_something(self) -> Self:
        if self.verdict is None and not self.thresholds:
            known = ", ".join(MEASURES)
            raise ValueError(f"expects nothing: give a verdict, or a threshold on {known}")
        return self


def _field(measure: str) -> str:
    return measure.replace(".", "_")


def _section(measures: Mapping[str, ThresholdMeasure]) -> type[_CellExpectations]:
    """Return the model of an expectation, with a key for each measure."""
    fields: dict[str, Any] = {
        _field(name): (
            values.threshold_type(measure),
            Field(default=None, description=measure.meaning),
        )
        for name, measure in measures.items()
    }
    return create_model(
        "Expectation", __base__=_CellExpectations, __doc__=_CellExpectations.__doc__, **fields
    )


class Expectation(_section(MEASURES)):  # type: ignore[misc]  # its further fields are MEASURES
    __doc__ = _CellExpectations.__doc__


Expectations = Annotated[
    tuple[Expectation, ...],
    Shorthand(
        key="verdict", text={"enum": [verdict.value for verdict in Verdict]}, needs_key=False
    ),
]
"""A pydantic field type."""


def expected(expectations: Sequence[Expectation], settings: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the verdicts that are expected of a cell, each of which is accepted. Without any,
    every guarantee must hold."""
    for one in reversed(expectations):
        if one.verdict is not None and holds_for(one.where, settings):
            return tuple(verdict.value for verdict in one.verdict)
    return ()


def planned_thresholds(
    expectations: Sequence[Expectation], settings: Mapping[str, Value]
) -> tuple[PlannedThreshold, ...]:
    """Return the thresholds on the measured values of a cell, in the order of the measures."""
    return tuple(
        _planned(measure, text)
        for measure, index in threshold_sources(expectations, settings).items()
        for text in expectations[index].thresholds[measure]
    )


def threshold_sources(
    expectations: Sequence[Expectation], settings: Mapping[str, Value]
) -> Mapping[str, int]:
    """Return, by measure, the index of the expectation that gives a cell its thresholds on it, in
    the order of the measures."""
    last = {
        measure: index
        for index, one in enumerate(expectations)
        if holds_for(one.where, settings)
        for measure in one.thresholds
    }
    return {measure: last[measure] for measure in MEASURES if measure in last}


def _planned(measure: str, text: str) -> PlannedThreshold:
    operator, limit = values.parse_threshold(text, MEASURES[measure].unit)
    return PlannedThreshold(measure=measure, operator=operator, limit=limit)


def problems(
    expectations: Sequence[Expectation], cells: Sequence[Mapping[str, Value]]
) -> Iterator[Problem]:
    """Yield the problems of expectations for ``cells``, each given as all settings of a cell and
    its cluster."""
    for index, one in enumerate(expectations):
        yield from where_problems(f"expect[{index}].where", one.where, cells)
