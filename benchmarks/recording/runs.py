"""Pairs of clients, one that records and its peer, against the same brokers.

Each repetition runs both clients, one right after the other, and their order changes each time. A
ratio always compares one such pair. Each client has a topic of its own. The topic is empty when a
producer begins and has the records to read when a reader begins.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks.speed.clusters import OURS, fresh, topic
from tests.support.clusters.bundled import Cluster

PARTITIONS = 12
RECORDED, PEER = "recorded", "peer"
DEADLINE_S = 200
PAIRS = (("producer", "bare-producer"), ("reader", "bare-reader"), ("reader", "using-reader"))


@dataclass(frozen=True, slots=True)
class Case:
    """A case to measure. ``role`` is ``producer`` or ``reader``, and ``peer`` the client for
    comparison (:data:`benchmarks.recording.clients.CLIENTS`)."""

    role: str
    peer: str
    record_bytes: int
    records: int

    @property
    def name(self) -> str:
        """The name of the case in the table."""
        return f"{self.role} / {self.peer}, {self.record_bytes} bytes"


@dataclass(frozen=True, slots=True)
class Ratios:
    """One figure of one case: the recording client's value divided by the peer's, for each
    repetition."""

    case: str
    figure: str
    values: tuple[float, ...]


def measure(
    repetitions: int, records: int, only: str, say: Callable[[str], None]
) -> Iterator[Ratios]:
    """Yield the ratios of every case whose name contains ``only``, as they become known.

    Raises: subprocess.CalledProcessError, subprocess.TimeoutExpired: A client did not finish.
    TimeoutError: The cluster did not respond as expected.
    """
    cases = [Case(*pair, size, records) for pair in PAIRS for size in (100, 1_000)]
    with fresh(OURS) as cluster, tempfile.TemporaryDirectory(prefix="ackproof-bench-") as scratch:
        cluster.start()
        names = (f"recording-{number}" for number in count())
        for case in (one for one in cases if only in one.name):
            say(case.name)
            _pair(cluster, case, names, Path(scratch), (RECORDED, PEER))  # not counted
            pairs = [
                _pair(cluster, case, names, Path(scratch), order) for order in _orders(repetitions)
            ]
            for figure in ("records/s", "CPU/record"):
                values = tuple(pair[RECORDED][figure] / pair[PEER][figure] for pair in pairs)
                yield Ratios(case.name, figure, values)


def _orders(repetitions: int) -> Iterator[tuple[str, str]]:
    for number in range(repetitions):
        yield (PEER, RECORDED) if number % 2 else (RECORDED, PEER)


def _pair(
    cluster: Cluster, case: Case, names: Iterator[str], scratch: Path, order: tuple[str, str]
) -> Mapping[str, Mapping[str, float]]:
    return {who: _one(cluster, case, next(names), scratch, who) for who in order}


def _one(cluster: Cluster, case: Case, name: str, scratch: Path, who: str) -> Mapping[str, float]:
    with topic(cluster, name, PARTITIONS) as made:
        specified = _specified(cluster, case, made, scratch)
        if case.role == "reader":
            # The values are the benchmark's own, because decoding other values is additional work.
            _run("producer", scratch, specified("producer"), case.records)
        client = case.role if who == RECORDED else case.peer
        took = _run(client, scratch, specified(case.role), case.records)
    return {
        "records/s": case.records / took["seconds"],
        "CPU/record": took["cpu_s"] / case.records,
    }


def _specified(
    cluster: Cluster, case: Case, made: str, scratch: Path
) -> Callable[[str], Mapping[str, object]]:
    """Return a function that returns the specification of a client in that role."""
    shared = {
        "topic": made,
        "partitions": PARTITIONS,
        "bootstrap_servers": cluster.bootstrap,
        "history": str(scratch / made / "history"),
        "progress": str(scratch / made / "progress.json"),
    }
    own: Mapping[str, Mapping[str, object]] = {
        "producer": {
            "cell": "acks-all",
            "acks": "all",
            "producer": 0,
            "rate": None,
            "records": case.records,
            "record_bytes": case.record_bytes,
        },
        "reader": {"client": f"reader-{made}"},
    }
    return lambda role: {**shared, **own[role]}


def _run(
    client: str, scratch: Path, specification: Mapping[str, object], records: int
) -> Mapping[str, float]:
    path = scratch / f"{client}.json"
    path.write_text(json.dumps(specification))
    command = [sys.executable, "-m", "benchmarks.recording.clients", client, str(path)]
    done = subprocess.run(
        [*command, str(records)], capture_output=True, text=True, check=True, timeout=DEADLINE_S
    )
    took: Mapping[str, float] = json.loads(done.stdout)
    return took
