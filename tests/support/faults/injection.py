"""Faults on a real cluster: aimed, injected, proven, held, healed and proven healed, as a run does
it."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from ackproof.infra.api.capabilities import DiskPlan
from ackproof.infra.api.interface import (
    Backend,
    InfraError,
    Node,
    PartitionView,
    ProcessState,
    Server,
    System,
    ViewUnavailable,
)
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems import make_system
from ackproof.nemesis import FAULTS
from ackproof.nemesis.execution import Executor, Ledger, OpenFault
from ackproof.nemesis.interface import Aim, Cluster, Proof, WorkloadClient
from ackproof.nemesis.proofs import prove
from ackproof.nemesis.targets.expressions import parse
from ackproof.nemesis.targets.resolution import TargetUnavailable, resolve
from tests.support.clients.confluent import create_topic, produce, read_all
from tests.support.processes.deadlines import PATIENCE_S

SESSION_MS = 2000
LINES = 80
"""Of each server's log, in a failure."""
TIMINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "200",
    "offsets.topic.num.partitions": "1",
}


class Patiently:
    """Implements ``nemesis.proofs.Waiter``."""

    def until(self, condition: Callable[[], bool], *, at_most: float, poll: float) -> bool:
        try:
            wait_until(condition, at_most, "a proof", poll)
        except TimeoutError:
            return False
        return True


class Striker:
    """Strikes a deployed system, one fault after the other or overlapping."""

    def __init__(
        self,
        backend: Backend,
        system: System,
        clients: Sequence[Node],
        ledger: Path,
        workload: Callable[[], Sequence[WorkloadClient]] = tuple,
    ) -> None:
        self.system = system
        self.cluster = Cluster(backend=backend, system=system, clients=clients, workload=workload)
        self.ledger = Ledger(ledger)
        self.executor = Executor(self.cluster, self.ledger)
        self._numbers = 0

    def aim(
        self, name: str, expression: str, hold_ms: int | None = None, **own: object
    ) -> OpenFault:
        """Plan it. ``hold_ms``: long enough for all its effects if not given."""
        self._numbers += 1
        fault = FAULTS[name]
        target = _resolved(self.cluster, expression, self._numbers, fault.aim)
        parameters = fault.parameters.model_validate(own)
        rng = random.Random(self._numbers)
        return OpenFault(
            fault_id=self._numbers,
            fault=fault,
            target=target,
            plan=fault.plan(self.cluster.members, target, parameters, rng),
            hold_ms=fault.hold_ms_min(self.system) if hold_ms is None else hold_ms,
        )

    def strike(
        self, name: str, expression: str, hold_ms: int | None = None, **own: object
    ) -> OpenFault:
        """Aim, inject, and prove that it bit."""
        entry = self.aim(name, expression, hold_ms, **own)
        self.executor.inject(entry)
        proof = self.bitten(entry, PATIENCE_S)
        assert proof.proven, (name, expression, entry.target.nodes, proof.observations)
        return entry

    def bitten(self, entry: OpenFault, within_s: float = 0.0) -> Proof:
        looks = entry.fault.bitten(self.executor.injection(entry))
        return prove(looks, Patiently(), within_s, by_itself=True)

    def heal(self, entry: OpenFault, *, for_good: bool = False) -> None:
        """Heal, prove it, and see that it bites no more, unless what it did is ``for_good``, as
        bits are that have flipped: those of an index, too, unless recovery writes it again."""
        self.mend(entry)
        lasts = for_good or entry.fault.destroys == "bits" or entry.fault.name == "corrupt-index"
        assert lasts or not self.bitten(entry).proven, entry.label

    def mend(self, entry: OpenFault) -> None:
        """Heal, and prove it."""
        self.executor.heal(entry)
        looks = entry.fault.healed(self.executor.injection(entry))
        proof = prove(looks, Patiently(), PATIENCE_S, by_itself=False)
        assert proof.proven, (entry.label, proof.observations)
        self.ledger.close(entry.fault_id)

    def through(
        self, name: str, expression: str, hold_ms: int | None = None, **own: object
    ) -> OpenFault:
        """All of it: strike, hold, heal."""
        began = time.monotonic()
        entry = self.strike(name, expression, hold_ms, **own)
        over = began + entry.hold_ms / 1000
        wait_until(lambda: time.monotonic() >= over, PATIENCE_S, "the hold to be over")
        self.heal(entry)
        return entry

    def all_run(self) -> bool:
        """Whether every server's process runs."""
        servers = (*self.system.zookeepers, *self.system.brokers)
        return all(server.process.state() is ProcessState.RUNNING for server in servers)

    def whole(self, topic: str) -> bool:
        """Whether every partition is led and its ISR full."""
        views = self.partitions(topic)
        return bool(views) and all(v.leader >= 0 and set(v.isr) == set(v.replicas) for v in views)

    def partitions(self, topic: str) -> Sequence[PartitionView]:
        """Return the partitions from ZooKeeper; none while it does not answer."""
        try:
            return [v for (name, _), v in self.system.view().partitions.items() if name == topic]
        except ViewUnavailable:
            return []

    def await_whole(self, topic: str) -> None:
        wait_until(lambda: self.whole(topic), PATIENCE_S, f"{topic} to be led, its ISR to be full")


@contextmanager
def striker(
    backend: Backend,
    scratch: Path,
    *,
    brokers: int = 3,
    zookeepers: int = 1,
    clients: Sequence[Node] = (),
    properties: Mapping[str, str] = {},
    disks: DiskPlan | None = None,
    clocks: bool = False,
    system_name: str = "bundled",
    metadata_quorum: str | None = None,
) -> Iterator[Striker]:
    """A cluster to strike; nothing of it runs afterwards."""
    settings = {**TIMINGS, **properties}
    system = make_system(
        system_name,
        backend,
        brokers=brokers,
        zookeepers=zookeepers,
        properties=settings,
        metadata_quorum=metadata_quorum,
        disks=disks,
        clocks=clocks,
    )
    try:
        system.deploy()
        yield Striker(backend, system, clients, scratch / "ledger.jsonl")
    except BaseException as error:
        for server in (*system.zookeepers, *system.brokers, *system.added.there):
            error.add_note(_last_words(server))
        raise
    finally:
        system.close()


def _last_words(server: Server) -> str:
    """Return the last lines of the server's log, which disappears with its node at the end of the
    case."""
    try:
        lines = server.log().decode(errors="replace").splitlines()
    except (OSError, InfraError) as error:
        return f"{server.name}: {error}"
    return "\n".join([f"--- {server.name}", *lines[-LINES:]])


def _resolved(cluster: Cluster, expression: str, seed: int, aim: Aim):
    found = []

    def names_somebody() -> bool:
        try:
            found.append(resolve(parse(expression), cluster, seed, aim))
        except (TargetUnavailable, ViewUnavailable):
            return False
        return True

    wait_until(names_somebody, PATIENCE_S, f"{expression} to name a server")
    return found[0]


# Records that are written before faults strike a real cluster, and are all there afterwards.

TOPIC = "orders"
PARTITIONS = (0, 1)
VALUES = [b"%d" % number for number in range(200)]
"""In each partition."""


@dataclass(frozen=True)
class Known:
    """A system as ``clients.confluent`` knows clusters."""

    bootstrap: str

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def isr(self, topic: str, partition: int) -> set[int]:
        found = self.admin().list_topics(topic, timeout=10).topics[topic].partitions
        return set(found[partition].isrs) if partition in found else set()


def with_records(cluster: Striker) -> Known:
    known = Known(cluster.system.bootstrap_servers)
    create_topic(known, TOPIC, partitions=len(PARTITIONS), replication_factor=3)
    for partition in PARTITIONS:
        assert set(produce(known, TOPIC, VALUES, partition).values()) == {None}
    return known


def nothing_is_lost(cluster: Striker, known: Known) -> None:
    """Check that no record is lost, duplicated or out of order, and that all servers run."""
    cluster.await_whole(TOPIC)
    assert cluster.all_run()
    for partition in PARTITIONS:
        assert read_all(known, TOPIC, partition) == VALUES
