"""A broker reports each step to its probe, once, after it was carried out."""

import asyncio
import inspect
from pathlib import Path
from random import Random

import pytest

from ackproof.broker.config import TopicConfig
from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from ackproof.broker.log.manager import LogManager
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.replication.config import ReplicaConfig, Truncation
from ackproof.broker.replication.events import (
    Append,
    LeaderAndIsr,
    Produce,
    Truncate,
)
from ackproof.broker.replication.replica import LogState, Replica
from ackproof.broker.server.replication.partition import (
    Partition,
    PartitionContext,
    ReplicaFailed,
)
from ackproof.broker.server.replication.purgatory import Purgatory
from ackproof.broker.server.schedule import Clock
from ackproof.broker.types import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Millis,
    Offset,
    TopicPartition,
    ZkVersion,
)
from simulation.machines.disk import SimulatedDisk
from tests.support.builders.batches import batch

TP = TopicPartition("t", 0)
HOME = Path("/logs")
SMALL = LogConfig(segment_bytes=400, retention_ms=-1)


class Recorder(Probe):
    """Keeps the name of each report and what is telling of it."""

    def __init__(self) -> None:
        self.reports: list[tuple[object, ...]] = []

    def logs_opened(self, logs):
        self.reports.append(("opened", sorted(logs.logs)))

    def log_created(self, _logs, tp, log):
        self.reports.append(("created", tp, log.log_end_offset))

    def log_appended(self, log, begin, batches, now_ms):
        self.reports.append(("appended", begin, log.log_end_offset, len(batches), now_ms))

    def log_discarded(self, log):
        self.reports.append(("begun again", log.log_start_offset, log.log_end_offset))

    def flushes_started(self, _logs, now_ms):
        self.reports.append(("flushes", now_ms))

    def checkpoint_started(self, _logs, path, offsets):
        self.reports.append(("checkpoint", path.name, dict(offsets)))

    def shutdown_marked(self, _logs, directory):
        self.reports.append(("marked", directory))

    def replica_stepped(self, _partition, event, effects):
        self.reports.append((type(event), [type(effect) for effect in effects]))

    def replica_failed(self, partition):
        self.reports.append(("failed", partition.tp))

    def take(self) -> list[tuple[object, ...]]:
        reports, self.reports = self.reports, []
        return reports


def open_logs(disk: SimulatedDisk, probe: Probe) -> LogManager:
    return LogManager([HOME], lambda _: SMALL, files=disk, probe=probe)


def test_logs_report_each_change_once():
    probe, disk = Recorder(), SimulatedDisk(Random(0))
    logs = open_logs(disk, probe)
    log = logs.create(TP)
    logs.create(TP)
    assert probe.take() == [("opened", []), ("created", TP, 0)]
    log.append([batch(), batch()], 0, 0, 7)
    end = log.log_end_offset
    assert probe.take() == [("appended", 0, end, 2, 7)]
    log.truncate_to(end // 2)
    log.truncate_fully(30)
    assert probe.take() == [("begun again", 30, 30)]
    logs.flush_if_due(8)
    logs.checkpoint_log_starts()
    assert probe.take() == [("flushes", 8), ("checkpoint", LOG_STARTS, {TP: 30})]


def test_orderly_shutdown_reports_checkpoints_before_the_mark():
    probe, disk = Recorder(), SimulatedDisk(Random(0))
    logs = open_logs(disk, probe)
    logs.create(TP)
    probe.take()
    logs.close()
    names = [report[1] for report in probe.take()]
    assert names == [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, HOME]
    open_logs(disk, probe).close(clean=False)
    assert probe.take() == [("opened", [TP])]


def hosted(probe: Probe, disk: SimulatedDisk, truncation: Truncation) -> Partition:
    log = open_logs(disk, NO_PROBE).create(TP)
    log.append([batch(), batch([b"a", b"b"])], 0, 0, 0)
    state = LogState(
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=Offset(log.log_end_offset - 1),
        epochs=log.epochs.entries,
    )
    replica = Replica(BrokerId(1), ReplicaConfig(truncation=truncation), state)
    halted: list[Exception] = []
    context = PartitionContext(Clock(), Purgatory(), lambda *_: None, halted.append, probe)
    return Partition(TP, replica, log, TopicConfig(), context)


def told(leader: int, epoch: int) -> LeaderAndIsr:
    return LeaderAndIsr(
        controller_epoch=ControllerEpoch(1),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        isr=(BrokerId(leader),),
        replicas=(BrokerId(1), BrokerId(2)),
        zk_version=ZkVersion(epoch),
        now=Millis(0),
    )


def test_step_is_reported_with_its_effects():
    probe = Recorder()
    partition = hosted(probe, SimulatedDisk(Random(0)), Truncation.LEADER_EPOCH)

    async def lead_and_append() -> None:
        partition.step(told(1, 1))
        await partition.produce(batch(), 1, 1000)

    asyncio.run(lead_and_append())
    begun, produced = probe.take()
    assert begun[0] is LeaderAndIsr
    assert produced[0] is Produce
    assert Append in produced[1]


def test_a_truncation_inside_a_batch_reports_both_truncations():
    probe = Recorder()
    partition = hosted(probe, SimulatedDisk(Random(0)), Truncation.HIGH_WATERMARK)
    end = partition.log.log_end_offset
    partition.step(told(2, 1))
    (report,) = probe.take()
    assert report[1].count(Truncate) == 2, "at the high watermark, and where the batch begins"
    assert partition.log.log_end_offset == partition.replica.log_end_offset < end - 1


def test_a_step_that_cannot_be_carried_out_is_reported_as_failed():
    probe, disk = Recorder(), SimulatedDisk(Random(0))
    partition = hosted(probe, disk, Truncation.LEADER_EPOCH)
    partition.step(told(1, 1))
    probe.take()
    disk.fail(["write"])
    asked = Produce(request=0, batches=(batch(),), acks=1, deadline=Millis(9), now=Millis(0))
    with pytest.raises(ReplicaFailed):
        partition.step(asked)
    assert probe.take() == [("failed", TP)]


def test_the_default_probe_ignores_every_report():
    reports = [each for name, each in inspect.getmembers(NO_PROBE) if not name.startswith("_")]
    for report in reports:
        assert report(*[None] * len(inspect.signature(report).parameters)) is None
