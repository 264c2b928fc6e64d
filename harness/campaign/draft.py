"""A campaign file of which not everything is right.

What sections say about each other is judged where all those concerned are right, so that one slip
hides no other, and nothing is told that only follows from what was told already.
"""

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from harness.campaign.cells import Sweep
from harness.campaign.clusters import ClusterSweep
from harness.campaign.expectations import Expectation
from harness.campaign.failover import FailoverSpec
from harness.campaign.model import Campaign, WorkloadSpec
from harness.campaign.schedule import Entry, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The sections of a campaign file; None for one that is missing or wrong."""

    runs: int | None
    cluster: ClusterSweep | None
    cells: Sweep | None
    expect: tuple[Expectation, ...] | None
    workload: WorkloadSpec | None
    schedule: Schedule | None
    faults: tuple[Entry, ...] | None
    failover: FailoverSpec | None


def draft(content: Mapping[str, object], wrong: Container[str]) -> Draft:
    """The sections that are right in themselves, and not among those in which something else is
    ``wrong``."""
    return Draft(
        **{
            name: None if name in wrong else _section(name, content)
            for name in Draft.__dataclass_fields__
        }
    )


def _section(name: str, content: Mapping[str, object]) -> Any:
    if name not in content:
        field = Campaign.model_fields[name]
        return None if field.is_required() else field.get_default(call_default_factory=True)
    try:
        return _adapter(name).validate_json(json.dumps(content[name]), strict=True)
    except ValidationError:
        return None


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    field = Campaign.model_fields[name]
    kind: Any = field.annotation
    for constraint in field.metadata:
        kind = Annotated[kind, constraint]
    return TypeAdapter(kind)
