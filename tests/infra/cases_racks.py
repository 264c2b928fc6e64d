"""Run inside by test_racks.py: three bundled brokers, each in a rack of its own, and the tail
readers that a campaign would give a cell there."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

from confluent_kafka import Producer

from ackproof.history.cell import Cell
from ackproof.infra.api.interface import Server
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.bundled import BundledSystem
from ackproof.infra.systems.properties import RACK_AWARE, racks_of, racks_of_consumers
from ackproof.workloads import WORKLOADS
from ackproof.workloads.interface import Client, ClientNode, Load
from ackproof.workloads.topics import create_topics
from tests.support.processes.deadlines import PATIENCE_S

RECORDS = 200
METRICS_PORT = 9308
CELL = Cell(
    name="racks",
    topic="racks",
    settings={"acks": "all", "partitions": 1, "replication.factor": 3, "min.insync.replicas": 2},
)
PROPERTIES = {
    "zookeeper.session.timeout.ms": "6000",
    "metrics.listener": f"http://0.0.0.0:{METRICS_PORT}",
    "replica.selector.class": RACK_AWARE,
}


def each_replica_serves_the_reader_of_its_rack(scratch: Path) -> None:
    backend = LocalBackend(scratch / "nodes")
    system = BundledSystem(backend, brokers=3, properties=PROPERTIES)
    try:
        system.deploy()
        create_topics(system.bootstrap_servers, [CELL], PATIENCE_S)
        _produce(system.bootstrap_servers)
        for reader, broker in zip(_readers(system, scratch), system.brokers, strict=True):
            before = _served(system)
            _read(reader, scratch)
            served = _served(system)
            assert {name for name in served if served[name] > before[name]} == {broker.name}
    finally:
        system.close()
        backend.close()


def _produce(bootstrap_servers: str) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all"})
    for _ in range(RECORDS):
        producer.produce(CELL.topic, bytes(100), on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failed == [None] * RECORDS


def _readers(system: BundledSystem, scratch: Path) -> list[Client]:
    of_brokers = racks_of([broker.name for broker in system.brokers], PROPERTIES)
    racks = racks_of_consumers(of_brokers, PROPERTIES)
    load = Load(rate=1, record_bytes=100, producers=0, readers=3, racks=racks)
    place = ClientNode(node="client-1", history=str(scratch / "h"), progress=str(scratch / "p"))
    made = WORKLOADS["produce"].clients(
        CELL, load, bootstrap_servers=system.bootstrap_servers, places=[place]
    )
    return list(made)


def _read(reader: Client, scratch: Path) -> None:
    """Until it was shown everything, and has ended as it does when it is asked to."""
    specification = scratch / f"{reader.name}.json"
    specification.write_text(json.dumps(reader.specification))
    progress = Path(str(reader.specification["progress"]))
    with subprocess.Popen([sys.executable, "-m", reader.module, str(specification)]) as process:
        try:
            wait_until(
                lambda: progress.exists() and _shown(progress) == RECORDS,
                PATIENCE_S,
                f"{reader.name} to be shown {RECORDS} records",
            )
        finally:
            process.terminate()
        assert process.wait(PATIENCE_S) == 0


def _shown(progress: Path) -> int:
    return int(json.loads(progress.read_text())["shown"])


def _served(system: BundledSystem) -> dict[str, float]:
    """Bytes that consumers of the topic were sent, by broker."""
    return {broker.name: _bytes_out(broker) for broker in system.brokers}


def _bytes_out(broker: Server) -> float:
    host = broker.address.partition(":")[0]
    with urllib.request.urlopen(
        f"http://{host}:{METRICS_PORT}/metrics", timeout=PATIENCE_S
    ) as page:
        lines = page.read().decode().splitlines()
    name = f'kafka_server_brokertopicmetrics_bytesout_total{{topic="{CELL.topic}"}} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))
