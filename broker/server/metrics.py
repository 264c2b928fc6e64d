"""The broker's metrics, under the names of Kafka's MBeans, for Prometheus.

Modules with something to count import this module, which imports none of them.
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from aiohttp import web


# --- counters -------------------------------------------------------------------------------------
#
# Rates, times and bytes.


# --- counters -------------------------------------------------------------------------------------
#
# Plain numbers that are counted several times for every record, and become Prometheus' samples on
# request.
#
# Prometheus' own counters are made for several threads and take a lock. A broker counts in one, its
# event loop's. A record would spend as much time in them as in the log.


C = TypeVar("C")


class Tally:
    """One counter, to whose ``value`` callers add."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Times:
    """One histogram of times in ms, with buckets up to each of ``bounds`` and one above."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, milliseconds: float) -> None:
        """Count one time."""
        self.counts[bisect_left(self.bounds, milliseconds)] += 1
        self.sum += milliseconds


class _Labelled(Collector, Generic[C]):
    """Children by the values of their labels."""

    def __init__(
        self,
        name: str,
        what: str,
        labels: Sequence[str],
        registry: CollectorRegistry,
        new: Callable[[], C],
    ) -> None:
        self.name: Final = name
        self.what: Final = what
        self.label_names: Final = tuple(labels)
        self._new = new
        self._children: dict[tuple[str, ...], C] = {}
        registry.register(self)

    def labels(self, *values: str) -> C:
        """Return the child that has these labels, created if necessary."""
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._new()
        return child

    def remove(self, *values: str) -> None:
        """Forget a child, if there is one."""
        self._children.pop(values, None)

    def children(self) -> Iterator[tuple[tuple[str, ...], C]]:
        """Yield all children. Callable in another thread than the one that counts."""
        yield from self._children.copy().items()


class Tallies(_Labelled[Tally]):
    """A counter with labels."""

    def __init__(
        self, name: str, what: str, labels: Sequence[str], registry: CollectorRegistry
    ) -> None:
        super().__init__(name, what, labels, registry, Tally)

    def collect(self) -> Iterator[Metric]:
        """Yield the samples, as Prometheus' library requires."""
        family = CounterMetricFamily(self.name, self.what, labels=self.label_names)
        for values, tally in self.children():
            family.add_metric(values, tally.value)
        yield family


class TimesByLabel(_Labelled[Times]):
    """A histogram with labels."""

    def __init__(
        self,
        name: str,
        what: str,
        labels: Sequence[str],
        registry: CollectorRegistry,
        bounds: Sequence[float],
    ) -> None:
        super().__init__(name, what, labels, registry, lambda: Times(bounds))
        self._upper = [*(str(float(bound)) for bound in bounds), "+Inf"]

    def collect(self) -> Iterator[Metric]:
        """Yield the samples, as Prometheus' library requires."""
        family = HistogramMetricFamily(self.name, self.what, labels=self.label_names)
        for values, times in self.children():
            counts = times.counts.copy()
            buckets = [(upper, sum(counts[: n + 1])) for n, upper in enumerate(self._upper)]
            family.add_metric(values, buckets, times.sum)
        yield family


# --- the broker's meters --------------------------------------------------------------------------
#
# The broker's counters: rates, times and bytes, under the names of Kafka's MBeans.
#
# A name is the MBean's domain, type and name in lower case, as in the JMX exporter's rules for
# Kafka. What is ``...PerSec`` there is a counter here (``kafka.server:type=BrokerTopicMetrics,
# name=BytesInPerSec`` becomes ``kafka_server_brokertopicmetrics_bytesin_total``), from which
# Prometheus computes the rate. Prometheus also computes sums over topics, for which Kafka has
# MBeans of their own. What the broker's state shows is not counted but read:
# :mod:`broker.server.app`.
#
# There is one registry per process, because there is one broker per process. Events of every record
# are counted in plain numbers (:mod:`broker.server.metrics`), and callers keep the labelled
# child: to look one up takes longer than to count.


REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

MILLISECONDS: Final = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)
"""The bounds of the histograms' buckets."""

CONSUMER = -1
"""The ``replica_id`` of a fetch that comes from no follower."""

_EXPECTED_OF_PRODUCE: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
    }
)
_EXPECTED_OF_FETCH: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.offset_out_of_range,
        ErrorCode.kafka_storage_error,
    }
)
"""The errors that clients get in normal operation, which are no failures of the broker
(``ReplicaManager.appendToLocalLog`` and ``readFromLog``)."""


def _counter(name: str, what: str, *labels: str) -> Counter:
    return Counter(name, what, labels, registry=REGISTRY)


def _tallies(name: str, what: str, *labels: str) -> Tallies:
    """Return a counter of an event of every record."""
    return Tallies(name, what, labels, REGISTRY)


def _milliseconds(name: str, what: str, *labels: str) -> Histogram:
    return Histogram(name, what, labels, registry=REGISTRY, buckets=MILLISECONDS)


# --- requests ---------------------------------------------------------------------------------

_REQUESTS = _tallies(
    "kafka_network_requestmetrics_requests", "Requests answered.", "request", "version"
)
_TIMES = TimesByLabel(
    "kafka_network_requestmetrics_totaltimems",
    "Milliseconds from a request's decoding to its encoded response; waiting included.",
    ("request",),
    REGISTRY,
    MILLISECONDS,
)
MALFORMED_REQUESTS = _counter(
    "kafka_network_requestmetrics_malformedrequests",
    "Requests that could not be decoded or are not served, and closed their connection.",
)


def request_done(request: Request[Response], seconds: float) -> None:
    """Count an answered request. Fetch is counted separately for followers and consumers, as in
    Kafka, because they wait for different things."""
    kind = 0
    if isinstance(request, FetchRequest):
        kind = 1 if request.replica_id == CONSUMER else 2
    requests, times = _of_request(type(request), request.version, kind)
    requests.value += 1
    times.observe(seconds * 1000)


@cache
def _of_request(request: type[Request[Response]], version: int, kind: int) -> tuple[Tally, Times]:
    name = request.__name__.removesuffix("Request") + ("", "Consumer", "Follower")[kind]
    return _REQUESTS.labels(name, str(version)), _TIMES.labels(name)


# --- topics -----------------------------------------------------------------------------------

_BY_TOPIC = tuple(
    _tallies(f"kafka_server_brokertopicmetrics_{name}", what, "topic")
    for name, what in (
        ("messagesin", "Records appended as leader."),
        ("bytesin", "Bytes appended as leader."),
        ("bytesout", "Bytes sent to consumers."),
        ("totalproducerequests", "Partitions asked for in Produce requests."),
        ("failedproducerequests", "Of these, failed for a reason that is not the client's."),
        ("totalfetchrequests", "Partitions asked for in Fetch requests."),
        ("failedfetchrequests", "Of these, failed for a reason that is not the client's."),
    )
)
REPLICATION_BYTES_IN = _tallies(
    "kafka_server_brokertopicmetrics_replicationbytesin", "Bytes appended as follower."
).labels()
REPLICATION_BYTES_OUT = _tallies(
    "kafka_server_brokertopicmetrics_replicationbytesout", "Bytes sent to followers."
).labels()


class TopicMeters:
    """The counters of one topic, from :func:`of_topic`."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self, topic: str) -> None:
        (
            self.messages_in,
            self.bytes_in,
            self.bytes_out,
            self.produces,
            self.failed_produces,
            self.fetches,
            self.failed_fetches,
        ) = (counter.labels(topic) for counter in _BY_TOPIC)

    def appended(self, records: int, size: int) -> None:
        """Count records appended as leader, ``size`` bytes in all."""
        self.messages_in.value += records
        self.bytes_in.value += size

    def produced(self, error: ErrorCode) -> None:
        """Count one partition of a Produce request, which was appended or rejected."""
        self.produces.value += 1
        if error is not ErrorCode.none and error not in _EXPECTED_OF_PRODUCE:
            self.failed_produces.value += 1

    def fetched(self, error: ErrorCode, size: int, *, by_follower: bool) -> None:
        """Count one partition of a Fetch request, of which ``size`` bytes were read."""
        self.fetches.value += 1
        if size:
            (REPLICATION_BYTES_OUT if by_follower else self.bytes_out).value += size
        if error is not ErrorCode.none and error not in _EXPECTED_OF_FETCH:
            self.failed_fetches.value += 1


@cache
def of_topic(topic: str) -> TopicMeters:
    """Return the counters of a topic that is on this broker. Other topics must not get any, or
    clients could make the broker remember arbitrary names."""
    return TopicMeters(topic)


def forget_topic(topic: str) -> None:
    """Remove the counters of a topic whose last partition has left this broker."""
    of_topic.cache_clear()
    for counter in _BY_TOPIC:
        counter.remove(topic)


# --- replication and controller ---------------------------------------------------------------

ISR_SHRINKS = _counter("kafka_server_replicamanager_isrshrinks", "ISRs made smaller by us.")
ISR_EXPANDS = _counter("kafka_server_replicamanager_isrexpands", "ISRs made larger by us.")
FAILED_ISR_UPDATES = _counter(
    "kafka_server_replicamanager_failedisrupdates", "ISRs that could not be written."
)
LEADERS_LOST_RECORDS = _counter(
    "kafka_server_replicamanager_leaderslostrecords",
    "Leaders that had not got any more what they had served to us in the same epoch.",
)
LEADER_ELECTIONS = _milliseconds(
    "kafka_controller_controllerstats_leaderelectionrateandtimems",
    "Elections by this controller, and milliseconds until the new leaders were in ZooKeeper.",
)
UNCLEAN_LEADER_ELECTIONS = _counter(
    "kafka_controller_controllerstats_uncleanleaderelections",
    "Partitions that got a leader from outside their ISR.",
)
QUEUES_FULL = _counter(
    "kafka_server_statechangequeue_full",
    "State change requests that found no room in another broker's queue.",
)
_QUEUE_SIZES = Gauge(
    "kafka_server_statechangequeue_size",
    "State change requests that wait in ZooKeeper, by the broker that is to carry them out.",
    ("broker",),
    registry=REGISTRY,
)
ZOOKEEPER_EXPIRES = _counter(
    "kafka_server_sessionexpirelistener_zookeeperexpires", "ZooKeeper sessions that expired."
)


def elected(in_isr: Sequence[bool], seconds: float) -> None:
    """Count elected leaders. ``in_isr`` says for each partition whether its new leader was in its
    ISR."""
    if in_isr:
        LEADER_ELECTIONS.observe(seconds * 1000)
        UNCLEAN_LEADER_ELECTIONS.inc(in_isr.count(False))


def queues_seen(depths: Mapping[Any, int]) -> None:
    """Set how many state change requests wait, by broker. There are no other queues."""
    _QUEUE_SIZES.clear()
    for broker, depth in depths.items():
        _QUEUE_SIZES.labels(str(broker)).set(depth)


def isr_changed(before: int, after: int) -> None:
    """Count a change of an ISR from ``before`` to ``after`` members."""
    if after != before:
        (ISR_SHRINKS if after < before else ISR_EXPANDS).inc()


# --- endpoint -------------------------------------------------------------------------------------
#
# The broker's state at a moment, its samples for Prometheus, and the endpoint that serves them.


logger = logging.getLogger(__name__)


# --- snapshot -------------------------------------------------------------------------------------
#
# The state of the broker at a moment, and its samples for Prometheus.
#
# :func:`broker.server.app.take_snapshot` reads the state, on the event loop and quickly.
# :meth:`Snapshot.collect` makes samples of it. That takes ten times as long, but uses nothing that
# changes, so that it can be done in a thread.


class PartitionGauges(NamedTuple):
    """One partition on this broker. ``isr`` is meaningful if the broker leads it."""

    tp: TopicPartition
    leads: bool
    offline: bool
    replicas: int
    isr: int
    min_isr: int
    size: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    waiting_producers: int

    @property
    def under_replicated(self) -> bool:
        """Whether the broker leads it, and not all replicas are in sync."""
        return self.leads and self.isr < self.replicas

    @property
    def under_min_isr(self) -> bool:
        """Whether the broker leads it, and acks=all is rejected."""
        return self.leads and self.isr < self.min_isr

    @property
    def at_min_isr(self) -> bool:
        """Whether the broker leads it, and one replica less would be too few."""
        return self.leads and self.isr == self.min_isr


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerGauges:
    """The state of the active controller. It is zero everywhere on the others, so that the sum over
    all brokers is right. The fields' names are those of Kafka's MBeans."""

    activecontrollercount: int = 0
    offlinepartitionscount: int = 0
    preferredreplicaimbalancecount: int = 0
    globaltopiccount: int = 0
    globalpartitioncount: int = 0
    topicstodeletecount: int = 0
    activebrokercount: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that is read from the state, and not counted."""

    partitions: tuple[PartitionGauges, ...]
    controller: ControllerGauges
    waiting_fetches: int
    fetch_sessions: int
    session_partitions: int
    connections: int

    def collect(self) -> Iterator[Metric]:
        """Yield the samples."""
        yield from self._broker()
        yield from _controller(self.controller)
        yield from _per_partition(self.partitions)

    def _broker(self) -> Iterator[Metric]:
        for name, what, counts in _COUNTS:
            number = sum(map(counts, self.partitions))
            yield _gauge(f"kafka_server_replicamanager_{name}", what, number)
        purgatory = GaugeMetricFamily(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that wait.",
            labels=["delayedoperation"],
        )
        purgatory.add_metric(["Fetch"], self.waiting_fetches)
        purgatory.add_metric(["Produce"], sum(p.waiting_producers for p in self.partitions))
        yield purgatory
        sessions = "kafka_server_fetchsessioncache_numincrementalfetch"
        yield _gauge(f"{sessions}sessions", "Fetch sessions.", self.fetch_sessions)
        what = "Partitions in fetch sessions."
        yield _gauge(f"{sessions}partitionscached", what, self.session_partitions)
        name = "kafka_server_socket_server_metrics_connection_count"
        yield _gauge(name, "Open connections.", self.connections)


def _controller(view: ControllerGauges) -> Iterator[Metric]:
    for name, what in _CONTROLLER.items():
        yield _gauge(f"kafka_controller_kafkacontroller_{name}", what, getattr(view, name))


def _per_partition(partitions: tuple[PartitionGauges, ...]) -> Iterator[Metric]:
    for name, what, value_of in _VALUES:
        family = GaugeMetricFamily(name, what, labels=["topic", "partition"])
        for view in partitions:
            family.add_metric([view.tp.topic, str(view.tp.partition)], value_of(view))
        yield family


def _gauge(name: str, what: str, value: int) -> Metric:
    return GaugeMetricFamily(name, what, value=value)


_COUNTS: tuple[tuple[str, str, Callable[[PartitionGauges], bool]], ...] = (
    ("partitioncount", "Partitions on this broker.", lambda _: True),
    ("leadercount", "Partitions that it leads.", lambda p: p.leads),
    ("underreplicatedpartitions", "Led, with replicas out of sync.", lambda p: p.under_replicated),
    ("underminisrpartitioncount", "Led, and refusing acks=all.", lambda p: p.under_min_isr),
    ("atminisrpartitioncount", "Led, with no in-sync replica to spare.", lambda p: p.at_min_isr),
    ("offlinereplicacount", "Partitions without a leader, or not told one.", lambda p: p.offline),
)

_CONTROLLER = {
    "activecontrollercount": "1 on the controller.",
    "offlinepartitionscount": "Partitions without a live leader.",
    "preferredreplicaimbalancecount": "Partitions not led by their preferred replica.",
    "globaltopiccount": "Topics of the cluster.",
    "globalpartitioncount": "Partitions of the cluster.",
    "topicstodeletecount": "Topics being deleted.",
    "activebrokercount": "Live brokers.",
}

_VALUES: tuple[tuple[str, str, Callable[[PartitionGauges], int]], ...] = (
    ("kafka_log_log_size", "Bytes of the log's segments.", lambda p: p.size),
    ("kafka_log_log_logstartoffset", "First offset still held.", lambda p: p.log_start_offset),
    ("kafka_log_log_logendoffset", "Offset of the next record.", lambda p: p.log_end_offset),
    ("kafka_log_log_numlogsegments", "Segments.", lambda p: p.segments),
    ("kafka_cluster_partition_replicascount", "Assigned replicas.", lambda p: p.replicas),
    (
        "kafka_cluster_partition_insyncreplicascount",
        "In-sync replicas; 0 where it does not lead.",
        lambda p: p.isr if p.leads else 0,
    ),
    (
        "kafka_cluster_partition_underreplicated",
        "1 if it leads and not all replicas are in sync.",
        lambda p: p.under_replicated,
    ),
    (
        "kafka_cluster_partition_underminisr",
        "1 if it leads and refuses acks=all.",
        lambda p: p.under_min_isr,
    ),
)


# --- endpoint -------------------------------------------------------------------------------------
#
# ``metrics.listener``: the metrics in Prometheus' text format, at ``/metrics``.
#
# The broker's own event loop serves them. Only the state is read there. The text is made in a
# thread, so that a scrape of thousands of partitions keeps no client waiting. Any program that can
# reach the address may read: use one that only the monitoring reaches.


PATH = "/metrics"


class MetricsEndpoint:
    """An HTTP server with one page.

    Args:
        take: reads the broker's state, on the event loop.
    """

    def __init__(self, take: Callable[[], Snapshot]) -> None:
        from aiohttp import web

        self._take = take
        application = web.Application()
        application.router.add_get(PATH, self._serve)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False)

    async def start(self, host: str, port: int) -> None:
        """Bind and listen. Raise OSError if the address is taken."""
        from aiohttp import web

        await self._runner.setup()
        await web.TCPSite(self._runner, host or None, port).start()
        logger.info("Metrics at http://%s:%d%s", host or "*", self.port, PATH)

    @property
    def port(self) -> int:
        """The port on which it listens, once started."""
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        await self._runner.cleanup()

    async def _serve(self, request: "web.Request") -> "web.Response":
        from aiohttp import hdrs, web

        encode, content_type = choose_encoder(",".join(request.headers.getall(hdrs.ACCEPT, [])))
        scrape = _Scrape(self._take())
        body = await asyncio.to_thread(encode, scrape)
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})


class _Scrape:
    """The counters and the snapshot, as one collector."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        yield from REGISTRY.collect()
        yield from self._snapshot.collect()
