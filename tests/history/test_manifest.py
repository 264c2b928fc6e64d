"""Manifests: read back as written, and named if unreadable."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ackproof.history.cell import Cell, Value
from ackproof.history.errors import DamagedFiles
from ackproof.history.manifest import (
    FILE,
    Manifest,
    PlannedCell,
    PlannedFault,
    PlannedRun,
    PlannedWriter,
    read,
)

SETTINGS: Mapping[str, Value] = {
    "acks": "all",
    "min.insync.replicas": 2,
    "unclean.leader.election.enable": True,
    "producer.linger.ms": 0.5,
}


def manifest(settings: Mapping[str, Value] = SETTINGS) -> Manifest:
    run = PlannedRun(
        number=1,
        seed=7,
        session_timeout_ms=3000,
        replica_lag_ms=4000,
        recovery_ms=60_000,
        cells=(PlannedCell.model_construct(cell=Cell(name="c", topic="t", settings=settings)),),
        faults=(PlannedFault(fault_id=1, fault="kill", target="one", start_ms=1, hold_ms=2),),
        writers=(PlannedWriter(table="sends", writer="c-0", node="n", partitions=(("t", 0),)),),
    )
    return Manifest(campaign="made", seed=1, baseline=False, runs=(run,))


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    manifest().write(tmp_path)
    assert read(tmp_path) == manifest()
    (cell,) = read(tmp_path).runs[0].cells
    assert cell.cell.unclean_leader_election is True
    assert cell.cell.min_insync_replicas == 2
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"acks": "7"}, "acks is 0, 1 or all"),
        ({}, "has no acks"),
        ({**SETTINGS, "acks": True}, "acks is"),
    ],
)
def test_a_setting_that_cannot_be_read_is_damage(
    tmp_path: Path, settings: Mapping[str, Value], named: str
) -> None:
    manifest(settings).write(tmp_path)
    with pytest.raises(DamagedFiles, match=named) as caught:
        read(tmp_path)
    assert [path.name for path in caught.value.reasons] == [FILE]


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"{}", b"\xff\xfe"])
def test_a_manifest_that_is_none_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    with pytest.raises(DamagedFiles, match=r"manifest\.json"):
        read(tmp_path)
