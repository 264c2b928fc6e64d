"""The campaign that a search begins with: one run of a campaign, as it was recorded.

Each fault strikes when it struck, for as long as it was held, and draws what it drew: who comes
after whom does not depend any more on how long others take to heal, nor on who else is left in the
list. Roles are resolved anew.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ackproof.harness.campaign.model.campaign import Campaign, EvidenceSpec
from ackproof.harness.campaign.model.cells import Cells, Sweep, only
from ackproof.harness.campaign.model.clusters import ClusterSpec, ClusterSweep
from ackproof.harness.campaign.model.expectations import Expectation
from ackproof.harness.campaign.model.schedule import Entry, FaultEntry, Schedule, StoryEntry
from ackproof.harness.campaign.model.values import holds_for
from ackproof.harness.campaign.plan.faults import Act, acts
from ackproof.harness.campaign.plan.runs import RunPlan, runs_of
from ackproof.harness.shrinking.failures import NothingToShrink
from ackproof.history import reader

_NS_PER_MS = 1_000_000


def as_recorded(campaign: Campaign, number: int, history: Path) -> Campaign:
    """Run ``number`` of ``campaign`` as a campaign of its own. Raises NothingToShrink for a run
    that it does not have, HistoryError for a history that cannot be read."""
    run = next((one for one in runs_of(campaign) if one.number == number), None)
    if run is None:
        raise NothingToShrink(f"it has no run {number}")
    around = {"warmup": campaign.schedule.warmup, "tail": campaign.schedule.tail}
    return campaign.model_copy(
        update={
            "runs": 1,
            "cluster": _cluster(run.cluster),
            "cells": _cells(campaign.cells, run),
            "schedule": Schedule().model_copy(update=around),
            "faults": tuple(_entries(run, history)),
            "expect": _expected(campaign.expect, run),
            "evidence": EvidenceSpec(),
            "failover": None,
        }
    )


def _cluster(spec: ClusterSpec) -> ClusterSweep:
    return ClusterSweep(
        backend=spec.backend,
        inventory=spec.inventory,
        system=spec.system,
        external=spec.external,
        brokers=(spec.brokers,),
        zookeepers=(spec.zookeepers,),
        disks=spec.disks,
        properties={name: (value,) for name, value in spec.properties.items()},
    ).model_copy(update={"metadata_quorum": spec.metadata_quorum})


def _cells(cells: Cells, run: RunPlan) -> Sweep:
    return only(cells, run.cells[0].cell) if cells.alone else cells


def _expected(expectations: Sequence[Expectation], run: RunPlan) -> tuple[Expectation, ...]:
    """Those that are for a cell of this run; what they say of its cluster holds of all of it."""
    cells = [{**run.swept, **planned.cell.settings} for planned in run.cells]
    return tuple(
        one.model_copy(update={"where": {k: v for k, v in one.where.items() if k not in run.swept}})
        for one in expectations
        if any(holds_for(one.where, settings) for settings in cells)
    )


def _entries(run: RunPlan, history: Path) -> list[Entry]:
    times = _Times(history)
    entries = [_entry(act, times) for act in acts(run.faults)]
    return [entry for entry in entries if entry is not None]


def _entry(act: Act, times: "_Times") -> Entry | None:
    """None for what never struck."""
    struck = [fault for fault in act.faults if fault.fault_id in times.injects]
    if not struck:
        return None
    first = struck[0]
    at_ms = min(times.injects[fault.fault_id] for fault in struck)
    if first.part is not None:
        topic, partition = first.part.partition or (None, "any")
        return StoryEntry.model_validate(
            {"story": first.part.story, "topic": topic, "partition": partition}
        ).model_copy(update={"at": (at_ms, at_ms), "seed": first.part.seed})
    hold_ms = max(first.hold_ms, times.holds.get(first.fault_id, 0))
    return FaultEntry.model_construct(
        fault=first.fault,
        target=first.target,
        parameters=first.parameters.model_dump(mode="json"),
        hold=(hold_ms, hold_ms),
        at=(at_ms, at_ms),
        weight=None,
        seed=first.seed,
    )


class _Times:
    """When each fault struck, since the faults began, and how long it was held; milliseconds."""

    def __init__(self, history: Path) -> None:
        rows = reader.read(history, "faults").to_pylist()
        phases = reader.read(history, "phases").to_pylist()
        steps = {(row["phase"], row["event"]): row["time"] for row in phases}
        began = steps.get(("faults", "start"), 0)
        self.injects = {
            fault: (time - began) // _NS_PER_MS for fault, time in _of(rows, "inject").items()
        }
        heals = _of(rows, "heal")
        self.holds = {
            fault: (heals[fault] - time) // _NS_PER_MS
            for fault, time in _of(rows, "injected").items()
            if fault in heals
        }


def _of(rows: Sequence[Mapping[str, Any]], event: str) -> dict[int, int]:
    """The time of that event, by fault."""
    return {row["fault_id"]: row["time"] for row in rows if row["event"] == event}
