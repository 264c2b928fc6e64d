"""The campaign that a search begins with: one run of a campaign, as it was recorded.

Each fault begins when it began in that run, has the same duration, and makes the same random
choices. Its time no longer depends on how long other faults take to heal, nor on the other entries
of the list. Roles are resolved again.
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
from ackproof.harness.shrinking.judge import NothingToShrink
from ackproof.history import reader

_NS_PER_MS = 1_000_000


def as_recorded(campaign: Campaign, number: int, history: Path) -> Campaign:
    """Return run ``number`` of ``campaign`` as a campaign of its own. Raises NothingToShrink if the
    run does not exist, and HistoryError if its history cannot be read."""
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
        security=spec.security,
        external=spec.external,
        brokers=(spec.brokers,),
        zookeepers=(spec.zookeepers,),
        racks=spec.racks,
        disks=spec.disks,
        properties={name: (value,) for name, value in spec.properties.items()},
    ).model_copy(update={"metadata_quorum": spec.metadata_quorum})


def _cells(cells: Cells, run: RunPlan) -> Sweep:
    return only(cells, run.cells[0].cell) if cells.alone else cells


def _expected(expectations: Sequence[Expectation], run: RunPlan) -> tuple[Expectation, ...]:
    """Return the expectations for a cell of this run, without conditions on its cluster, which are
    true for all of the run."""
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
    """Return an act as an entry of a campaign, or None if it was never injected."""
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
    """The time of each fault since the faults began, and its duration, in milliseconds."""

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
    """Return the time of that event, by fault."""
    return {row["fault_id"]: row["time"] for row in rows if row["event"] == event}
