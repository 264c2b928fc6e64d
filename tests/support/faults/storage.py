"""Faults on disks and on the files of logs, on a real cluster of any backend.

Disks are made only where the backend says that it has them. Where it does not, what needs none is
tried on the nodes' own directories.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ackproof.infra.api.capabilities import DiskPlan
from ackproof.infra.api.interface import Backend, Capability
from ackproof.infra.machine.waiting import wait_until
from tests.support.clients.confluent import create_topic, first_error, produce, read_all
from tests.support.faults.injection import Known, Striker, striker
from tests.support.processes.deadlines import PATIENCE_S

TOPIC, FLUSHED = "orders", "payments"
VALUES = [b"%d" % number for number in range(200)]
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
ATTEMPTS = 5
SETTINGS = {
    "zookeeper.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "4000",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
SMALL_SEGMENTS = {"log.segment.bytes": "4096", "log.index.interval.bytes": "256"}


def what_was_not_synced_is_lost_with_power(backend: Backend, scratch: Path) -> None:
    """Check losses of unsynced data. Other brokers have the records of one broker, whatever the end
    of its log is like. If all fail at once, acknowledged records are lost, but none of a topic that
    is flushed with every record, even with a torn tail and a lost recovery point."""
    if not _can(backend):
        pytest.skip("no disks of its own here")
    # No segment is full: one that is flushed takes what the next has already along.
    disks = DiskPlan(per_server=1, megabytes=64)
    with striker(backend, scratch, properties=SETTINGS, disks=disks) as cluster:
        known = _with_topic(cluster)
        create_topic(known, FLUSHED, config={"flush.messages": "1"})
        for topic in (FLUSHED, TOPIC):
            _send(known, VALUES, topic)
        for tail, hold_ms in (("lost", None), ("half-zeroed", 0)):
            cluster.through("power-failure", f"leader({TOPIC}, 0)", hold_ms, tail=tail)
            _nothing_is_lost(cluster, known, VALUES)
        # What is half a minute old, the kernel has written back: on a machine that is slow enough
        # that is all of it. Then once more, with more.
        sent = list(VALUES)
        for _ in range(ATTEMPTS):
            _send(known, VALUES)
            sent += VALUES
            cluster.through("power-failure", "all", 0, tail="torn")
            _await_whole(cluster)
            left = read_all(known, TOPIC)
            if len(left) < len(sent):
                break
        assert len(left) < len(sent)
        assert left == sent[: len(left)]
        assert read_all(known, FLUSHED) == VALUES
        _await_file(cluster, RECOVERY_POINTS)
        cluster.through("lose-checkpoint", "all", 0)
        _nothing_is_lost(cluster, known, left)


def disks_fail_under_brokers(backend: Backend, scratch: Path) -> None:
    """Whatever the leader's disk does, what was acknowledged is there, and more is acknowledged:
    by it, where the disk was another one, or by the next leader."""
    if not _can(backend):
        pytest.skip("no disks of its own here")
    sent = list(VALUES)
    disks = DiskPlan(per_server=2, megabytes=64)
    with striker(backend, scratch, properties=SETTINGS | SMALL_SEGMENTS, disks=disks) as cluster:
        known = _with_topic(cluster)
        _send(known, VALUES)
        for name, which in (("disk-full", "all"), ("disk-failure", "one"), ("read-only", "one")):
            entry = cluster.strike(name, f"leader({TOPIC}, 0)", disks=which)
            sent.append(name.encode())
            _send(known, sent[-1:])
            cluster.heal(entry)
            _nothing_is_lost(cluster, known, sent)
        if Capability.SLOW_DISKS in backend.capabilities:
            cluster.through("slow-disk", f"leader({TOPIC}, 0)", 0)


def files_are_damaged_under_brokers(backend: Backend, scratch: Path) -> None:
    """Damage stays where it was done, for good; what needs no disks of one's own."""
    with striker(backend, scratch, properties=SETTINGS | SMALL_SEGMENTS) as cluster:
        known = _with_topic(cluster)
        for number in range(20):  # several segments
            _send(known, [b"%d" % number * 500])
        _await_whole(cluster)
        _await_file(cluster, HIGH_WATERMARKS)
        for name, own in (
            ("bit-flip", {}),
            ("corrupt-index", {}),
            ("corrupt-index", {"of": "each"}),
            ("corrupt-index", {"file": "timeindex", "broker": "runs"}),
            ("lose-checkpoint", {"file": HIGH_WATERMARKS}),
            ("lose-epochs", {}),
        ):
            cluster.through(name, f"follower({TOPIC}, 0)", 0, **own)
            _await_whole(cluster)


def damage_in_a_closed_segment_is_found_by_who_reads_it(backend: Backend, scratch: Path) -> None:
    """And by no other broker: the leader serves on, in the ISR. The next leader has it all; so has
    the broker itself, once its disk was replaced and it has fetched everything again."""
    with striker(backend, scratch, properties=SETTINGS | SMALL_SEGMENTS) as cluster:
        known = _with_topic(cluster)
        sent = [b"%d" % number * 500 for number in range(20)]
        for value in sent:
            _send(known, [value])
        _await_whole(cluster)
        flip = cluster.strike("bit-flip", f"leader({TOPIC}, 0)", file="closed-segment")
        (broker,) = flip.target.servers
        assert first_error(known, TOPIC) in ("_BAD_MSG", "INVALID_MSG")
        _await_whole(cluster)
        kill = cluster.strike("kill", broker)
        assert read_all(known, TOPIC) == sent
        for entry in (flip, kill):  # who holds a process last starts it
            cluster.heal(entry)
        cluster.through("replace", broker, 0)
        _await_whole(cluster)
        others = cluster.strike("kill", f"all - {broker}")
        assert first_error(known, TOPIC) is None
        assert read_all(known, TOPIC) == sent
        cluster.heal(others)


CASES = (
    what_was_not_synced_is_lost_with_power,
    disks_fail_under_brokers,
    files_are_damaged_under_brokers,
    damage_in_a_closed_segment_is_found_by_who_reads_it,
)


def _can(backend: Backend) -> bool:
    backend.node("broker-1")  # what a backend can do is known where it has nodes
    return Capability.LOSE_UNSYNCED_WRITES in backend.capabilities


def _with_topic(cluster: Striker) -> Known:
    known = Known(cluster.system.bootstrap_servers)
    create_topic(known, TOPIC)
    return known


def _send(known: Known, values: Sequence[bytes], topic: str = TOPIC) -> None:
    outcomes = produce(known, topic, list(values), enable_idempotence=True)
    assert set(outcomes.values()) == {None}


def _await_whole(cluster: Striker) -> None:
    cluster.await_whole(TOPIC)
    assert cluster.all_run()


def _nothing_is_lost(cluster: Striker, known: Known, sent: Sequence[bytes]) -> None:
    _await_whole(cluster)
    assert read_all(known, TOPIC) == list(sent)


def _await_file(cluster: Striker, name: str) -> None:
    """In every log directory of every broker."""

    def there() -> bool:
        for broker in cluster.system.brokers:
            for directory in cluster.system.log_directories(broker):
                try:
                    broker.node.read(directory / name)
                except FileNotFoundError:
                    return False
        return True

    wait_until(there, PATIENCE_S, name)
