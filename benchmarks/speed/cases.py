"""The cases. Each takes a running cluster and returns figures by name."""

import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import psutil

from benchmarks.speed import load
from benchmarks.speed.clusters import in_sync, registration_removed, topic
from tests.support.clusters.bundled import Cluster, until

THROUGHPUT = "records/s"
P50 = "p50"
P99 = "p99"
TIME = "time"
SINCE_EXPIRY = "since expiry"
CPU = "CPU/record"

CPU_MIN_S = 0.1
"""Ten ticks of the kernel."""

UNACKNOWLEDGED = 20
"""The factor for records without acks: so many more of them fit into the same time."""

FAIL_OVER = (1, 10, 100, 1_000)
"""The numbers of partitions that lose their leader."""

MORE_IS_BETTER = frozenset({THROUGHPUT})

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of records that a case sends or reads."""

    batched: int
    singly: int
    read: int
    read_singly: int
    warm_up_rounds: int


FULL = Sizes(batched=100_000, singly=500, read=100_000, read_singly=10_000, warm_up_rounds=5)
QUICK = Sizes(batched=20_000, singly=100, read=20_000, read_singly=2_000, warm_up_rounds=2)

Measure = Callable[[Cluster, str, Sizes], Figures]
"""A function of a cluster, an unused topic name and the sizes that returns figures."""


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table, or several rows with one figure each."""

    name: str
    measure: Measure
    warm_up: bool = True


def cases() -> Iterator[Case]:
    """Yield all cases that run on an existing cluster."""
    for acks in ("0", "1", "all"):
        for partitions in (1, 12):
            where = f"acks={acks}, {_partitions(partitions)}"
            yield Case(f"produce batched, {where}", partial(_batched, partitions, acks))
            yield Case(f"produce singly, {where}", partial(_singly, partitions, acks))
    for singly in (False, True):
        for partitions in (1, 12):
            name = f"consume {'single records' if singly else 'batches'}, {_partitions(partitions)}"
            yield Case(name, partial(_consume, partitions, singly))
    for partitions in FAIL_OVER:
        name = f"kill -9 of the leader to next ack, {_partitions(partitions)}"
        yield Case(name, partial(_fail_over, partitions), warm_up=False)


def warm_up(cluster: Cluster, sizes: Sizes) -> None:
    """Warm up a cluster with many small requests and large ones, because a JVM compiles code that
    has run some ten thousand times.

    The numbers are fixed, so a quick run is not colder for each round than a full one.
    """
    for number in range(sizes.warm_up_rounds):
        for partitions in (1, 12):
            with topic(cluster, f"warm-up-{number}-{partitions}", partitions) as name:
                load.fill(cluster.bootstrap, name, partitions, 5_000, singly=True)
                load.produce_batched(cluster.bootstrap, name, partitions, "1", 20_000)
                load.produce_singly(cluster.bootstrap, name, partitions, "all", 500)
                load.consume(cluster.bootstrap, name, partitions, 25_000)


def _partitions(count: int) -> str:
    return f"{count} partition{'s' if count > 1 else ''}"


def _batched(partitions: int, acks: str, cluster: Cluster, name: str, sizes: Sizes) -> Figures:
    count = sizes.batched
    with topic(cluster, name, partitions):
        before = _cpu(cluster)
        rate = load.produce_batched(cluster.bootstrap, name, partitions, acks, count)
        return {THROUGHPUT: rate, **_cpu_each(cluster, before, count)}


def _singly(partitions: int, acks: str, cluster: Cluster, name: str, sizes: Sizes) -> Figures:
    count = sizes.singly if acks != "0" else sizes.singly * UNACKNOWLEDGED
    with topic(cluster, name, partitions):
        before = _cpu(cluster)
        rate, waited = load.produce_singly(cluster.bootstrap, name, partitions, acks, count)
        figures = {THROUGHPUT: rate, **_cpu_each(cluster, before, count)}
    if acks != "0":
        figures |= {P50: quantile(waited, 0.5), P99: quantile(waited, 0.99)}
    return figures


def _consume(partitions: int, singly: bool, cluster: Cluster, name: str, sizes: Sizes) -> Figures:
    count = sizes.read_singly if singly else sizes.read
    with topic(cluster, name, partitions):
        load.fill(cluster.bootstrap, name, partitions, count, singly=singly)
        before = _cpu(cluster)
        rate = load.consume(cluster.bootstrap, name, partitions, count)
        return {THROUGHPUT: rate, **_cpu_each(cluster, before, count)}


def _fail_over(partitions: int, cluster: Cluster, name: str, _sizes: Sizes) -> Figures:
    """Measure the time until the last partition's next ack with acks=all. It is measured from the
    kill, most of which is the session timeout, and from the time at which ZooKeeper has removed the
    killed broker's registration.

    The leader is not the controller, so that only one thing fails.
    """
    controller = cluster.admin().list_topics(timeout=10).controller_id
    victim = next(broker for number, broker in cluster.brokers.items() if number != controller)
    with topic(cluster, name, partitions, leader=victim.id):
        settings = {"only_errors": False, **load.SOON}
        sender = load.Sender(cluster.bootstrap, name, partitions, "all", settings)
        with registration_removed(cluster, victim.id) as removed:
            os.kill(victim.pid, signal.SIGKILL)
            killed = perf_counter()
            for _ in range(partitions):
                sender.put()
            sender.wait_for_ack()
            acked = perf_counter()
            figures = {TIME: acked - killed, SINCE_EXPIRY: acked - removed()}
        victim.wait()
        victim.start()
        until("the killed broker is back", in_sync(cluster, name, partitions))
    return figures


def start_up(cluster: Cluster) -> Figures:
    """Measure the time from the first command until every broker knows every other."""
    began = perf_counter()
    cluster.start()
    return {TIME: perf_counter() - began}


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that ``share`` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _cpu_each(cluster: Cluster, before: float, count: int) -> Figures:
    """Return the cost of a record since then, or nothing if the kernel's clock is too coarse."""
    spent = _cpu(cluster) - before
    return {CPU: spent / count} if spent >= CPU_MIN_S else {}


def _cpu(cluster: Cluster) -> float:
    """Return the processor time of the brokers in seconds, including the system's work for them."""
    times = [psutil.Process(broker.pid).cpu_times() for broker in cluster.brokers.values()]
    return sum(time.user + time.system for time in times)
