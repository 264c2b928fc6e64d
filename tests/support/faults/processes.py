"""Faults on processes, on a real cluster of any backend."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from confluent_kafka import Producer

from ackproof.infra.api.interface import Backend, Command, Node
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.bundled import BundledSystem
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import WorkloadClient
from tests.support.clients.confluent import read_all
from tests.support.faults.injection import (
    TIMINGS,
    TOPIC,
    VALUES,
    Known,
    Striker,
    nothing_is_lost,
    striker,
    with_records,
)
from tests.support.processes.deadlines import PATIENCE_S

FILLER = bytes(5_000)


def processes_end_and_come_back(backend: Backend, scratch: Path) -> None:
    """Short and long, one and many, one right after the other, before replicas have caught up."""
    with striker(backend, scratch) as cluster:
        known = with_records(cluster)
        cluster.through("terminate", f"leader({TOPIC}, 0)")
        cluster.through("restart", f"leader({TOPIC}, 0)", 0)
        cluster.through("restart", "controller", 0, signal="terminate")
        cluster.through("kill", "all", 0)
        cluster.through("terminate", "all", 0)
        cluster.through("pause", "all", 500)
        cluster.through("pause", f"partition({TOPIC}, 1)", 0)
        cluster.through("kill", f"partition({TOPIC}, 1)")
        cluster.through("terminate", "zookeeper", 0)
        nothing_is_lost(cluster, known)


def replaced_machines_fetch_everything(backend: Backend, scratch: Path) -> None:
    """A follower, then leaders: for longer than their session, and back before it has ended."""
    with striker(backend, scratch) as cluster:
        known = with_records(cluster)
        for who, hold_ms in (("follower", None), ("leader", None), ("leader", 0)):
            entry = cluster.through("replace", f"{who}({TOPIC}, 0)", hold_ms)
            cluster.await_whole(TOPIC)
            (name,) = entry.target.servers
            _has_what_the_others_have(cluster, name)
        nothing_is_lost(cluster, known)


def servers_have_too_little(backend: Backend, scratch: Path) -> None:
    """Starve servers of CPU and of memory during the workload, where the backend can do it."""
    faults = [FAULTS[name] for name in ("starve-cpu", "starve-memory")]
    with striker(backend, scratch) as cluster:
        # Not before: what a host cannot do is known once it is a node.
        possible = [fault.name for fault in faults if fault.needs <= backend.capabilities]
        known = with_records(cluster)
        with _traffic(known):
            for name in possible:
                cluster.through(name, f"leader({TOPIC}, 0)")
                cluster.through(name, f"partition({TOPIC}, 0)", 0)
        cluster.await_whole(TOPIC)
        assert cluster.all_run()
        for partition in (0, 1):
            read = [value for value in read_all(known, TOPIC, partition) if value != FILLER]
            assert read == VALUES


def clients_crash(backend: Backend, scratch: Path) -> None:
    """One of two, as the kernel tells, and the other goes on."""
    node = backend.node("client-1")
    clients = [node.start(Command(name=name, argv=["sleep", "1000"])) for name in ("a", "b")]
    workload = [WorkloadClient(name=c.name, node=node.name, process=c) for c in clients]
    system = BundledSystem(backend, brokers=0, properties=TIMINGS)
    try:
        system.deploy()
        cluster = Striker(backend, system, [node], scratch / "ledger.jsonl", lambda: workload)
        entry = cluster.strike("crash-client", "clients")
        (effect,) = entry.plan.effects
        cluster.executor.heal(entry)
        assert {c.name: c.exit_code() for c in clients} == {"a": None, "b": None} | {
            effect.ends: -signal.SIGKILL
        }
    finally:
        system.close()


def clients_are_paused(backend: Backend, scratch: Path) -> None:
    """For as long as it is held, and with them what they have started."""
    node = backend.node("client-1")
    child = node.directory / "child"
    starts = f"sh -c 'echo $$ > {child}.new && mv {child}.new {child}; exec sleep 1000' & wait"
    process = node.start(Command(name="a", argv=["sh", "-c", starts]))
    workload = [WorkloadClient(name=process.name, node=node.name, process=process)]
    system = BundledSystem(backend, brokers=0, properties=TIMINGS)

    def in_state(letter: str) -> bool:
        pid = int(node.read(child))
        return f") {letter} ".encode() in node.read(PurePosixPath(f"/proc/{pid}/stat"))

    try:
        system.deploy()
        wait_until(lambda: _is_there(node, child), PATIENCE_S, "the child to begin")
        cluster = Striker(backend, system, [node], scratch / "ledger.jsonl", lambda: workload)
        entry = cluster.strike("pause-client", "clients")
        wait_until(lambda: in_state("T"), PATIENCE_S, "the child to be stopped")
        cluster.heal(entry)
        wait_until(lambda: in_state("S"), PATIENCE_S, "the child to go on")
    finally:
        system.close()


CASES = (
    processes_end_and_come_back,
    replaced_machines_fetch_everything,
    servers_have_too_little,
    clients_crash,
    clients_are_paused,
)


@contextmanager
def _traffic(known: Known) -> Iterator[None]:
    """Sends uncounted records until the end."""
    settings = {"bootstrap.servers": known.bootstrap, "log_level": 0, "linger.ms": 1}
    producer = Producer(settings)
    over = threading.Event()

    def send() -> None:
        while not over.is_set():
            with suppress(BufferError):
                producer.produce(TOPIC, FILLER, partition=0)
            producer.poll(0.01)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()
        producer.purge()
        producer.flush(PATIENCE_S)


def _has_what_the_others_have(cluster: Striker, name: str) -> None:
    def logs() -> dict[str, bytes]:
        return {server.name: _log(cluster, server.name) for server in cluster.system.brokers}

    # Back before its session ended, it is in the ISR that ZooKeeper shows, with an empty disk.
    wait_until(lambda: logs()[name] != b"", PATIENCE_S, f"a log on {name}")
    wait_until(lambda: len(set(logs().values())) == 1, PATIENCE_S, "logs that are equal")


def _is_there(node: Node, file: PurePosixPath) -> bool:
    try:
        return bool(node.read(file))
    except FileNotFoundError:
        return False


def _log(cluster: Striker, name: str) -> bytes:
    broker = cluster.cluster.server(name)
    (data,) = cluster.system.log_directories(broker)
    directory = data / f"{TOPIC}-0"
    try:
        return broker.node.read(directory / f"{0:020}.log")
    except FileNotFoundError:
        return b""
