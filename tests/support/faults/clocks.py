"""Faults on clocks, on a real cluster of any backend."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ackproof.infra.api.interface import Backend, Capability
from ackproof.nemesis import FAULTS
from ackproof.nemesis.clock import CLOCKS
from ackproof.nemesis.examples import EXAMPLES
from tests.support.clients.confluent import create_topic, produce, read_all
from tests.support.faults.injection import Known, Striker, striker
from tests.support.processes.deadlines import PATIENCE_S

TOPIC = "orders"
HOUR_MS = 3_600_000
PATIENT = {"zookeeper.session.timeout.ms": "60000", "replica.lag.time.max.ms": "60000"}
"""No machine is so slow that a session ends of it; of an hour that was skipped it would."""
VALUES = [b"%d" % number for number in range(50)]


def clocks_are_wrong_and_right_again(backend: Backend, scratch: Path) -> None:
    """Check clocks of brokers and of ZooKeeper, ahead and behind, at any pace. No session ends, no
    leader is deposed, no record is lost, and a server restarted meanwhile keeps its wrong clock."""
    backend.node("broker-1")  # who is asked what it can do
    if Capability.FAKE_CLOCKS not in backend.capabilities:
        pytest.skip("no fake clocks here")
    with _deployed(backend, scratch) as (cluster, known):
        before = cluster.system.view()
        sent: list[bytes] = []
        for example in EXAMPLES:
            if FAULTS[example.fault] in CLOCKS:
                entry = cluster.strike(example.fault, example.target, **example.parameters)
                _send(known, sent)
                cluster.heal(entry)
        after = cluster.system.view()
        assert after.brokers == before.brokers, "the same sessions"
        assert after.partitions == before.partitions, "the same leaders, epochs and ISRs"

        wrong = cluster.strike("step-clock", f"leader({TOPIC}, 0)", offset_ms=HOUR_MS)
        cluster.through("restart", wrong.target.servers[0], 0, signal="terminate")
        proof = cluster.bitten(wrong, PATIENCE_S)
        assert proof.proven, ("a restart does not set a machine's clock", proof.observations)
        cluster.heal(wrong)
        cluster.await_whole(TOPIC)
        _send(known, sent)
        assert read_all(known, TOPIC, 0) == sent
        assert cluster.all_run()


CASES = (clocks_are_wrong_and_right_again,)


@contextmanager
def _deployed(backend: Backend, scratch: Path) -> Iterator[tuple[Striker, Known]]:
    with striker(backend, scratch, properties=PATIENT, clocks=True) as cluster:
        known = Known(cluster.system.bootstrap_servers)
        create_topic(known, TOPIC, partitions=1, replication_factor=3)
        cluster.await_whole(TOPIC)
        yield cluster, known


def _send(known: Known, sent: list[bytes]) -> None:
    assert set(produce(known, TOPIC, VALUES).values()) == {None}
    sent.extend(VALUES)
