"""What the broker counts as it goes: rates, times and bytes, under the names of Kafka's MBeans."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Generic, TypeVar

from kio.schema.errors import ErrorCode
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.fetch import FetchRequest

# --- counters -------------------------------------------------------------------------------------
#
# What is counted several times for every record: plain numbers, of which Prometheus' samples are
# made when it asks.
#
# Its own counters are for several threads and take a lock; a broker counts in one, its event
# loop's, and a record would spend as much in them as in the log.


C = TypeVar("C")


class Tally:
    """One counter; whoever counts adds to ``value``."""

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
        """Counts one."""
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
        """The child that has these labels, from now on if not before."""
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._new()
        return child

    def remove(self, *values: str) -> None:
        """Forgets a child; harmless if there is none."""
        self._children.pop(values, None)

    def children(self) -> Iterator[tuple[tuple[str, ...], C]]:
        """All of them; may be asked in another thread than the one that counts."""
        yield from self._children.copy().items()


class Tallies(_Labelled[Tally]):
    """A counter with labels."""

    def __init__(
        self, name: str, what: str, labels: Sequence[str], registry: CollectorRegistry
    ) -> None:
        super().__init__(name, what, labels, registry, Tally)

    def collect(self) -> Iterator[Metric]:
        """As Prometheus' library asks for it."""
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
        """As Prometheus' library asks for it."""
        family = HistogramMetricFamily(self.name, self.what, labels=self.label_names)
        for values, times in self.children():
            counts = times.counts.copy()
            buckets = [(upper, sum(counts[: n + 1])) for n, upper in enumerate(self._upper)]
            family.add_metric(values, buckets, times.sum)
        yield family


# --- the broker's meters --------------------------------------------------------------------------
#
# What the broker counts as it goes: rates, times and bytes, under the names of Kafka's MBeans.
#
# A name is the MBean's domain, type and name in lower case, as the JMX exporter's rules for Kafka
# have it; what is ``...PerSec`` there is a counter here (``kafka.server:type=BrokerTopicMetrics,
# name=BytesInPerSec`` becomes ``kafka_server_brokertopicmetrics_bytesin_total``), from which
# Prometheus computes the rate. Sums over topics, which Kafka has as MBeans of their own, are
# Prometheus' business too. What can be read off the broker's state is not counted but looked at:
# :mod:`broker.server.app`.
#
# There is one registry per process, since there is one broker per process. What happens with every
# record is tallied (:mod:`broker.server.metrics.meters`), by whoever holds on to a labelled child:
# to look one up takes longer than to count.


REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

MILLISECONDS: Final = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)
"""Bounds of the histograms' buckets."""

CONSUMER = -1
"""``replica_id`` of a fetch that comes from no follower."""

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
"""What a client hears in the normal course of things: no failure of the broker
(``ReplicaManager.appendToLocalLog`` and ``readFromLog``)."""


def _counter(name: str, what: str, *labels: str) -> Counter:
    return Counter(name, what, labels, registry=REGISTRY)


def _tallies(name: str, what: str, *labels: str) -> Tallies:
    """A counter of what happens with every record."""
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
    """Counts a request that has been answered. Fetch counts by who fetches, as in Kafka: what a
    consumer waits for is not what a follower waits for."""
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
    """The counters of one topic; ask :func:`of_topic` for them."""

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
        """Records were appended as leader, ``size`` bytes in all."""
        self.messages_in.value += records
        self.bytes_in.value += size

    def produced(self, error: ErrorCode) -> None:
        """One partition of a Produce request was appended or refused."""
        self.produces.value += 1
        if error is not ErrorCode.none and error not in _EXPECTED_OF_PRODUCE:
            self.failed_produces.value += 1

    def fetched(self, error: ErrorCode, size: int, *, by_follower: bool) -> None:
        """One partition of a Fetch request was read, ``size`` bytes of it."""
        self.fetches.value += 1
        if size:
            (REPLICATION_BYTES_OUT if by_follower else self.bytes_out).value += size
        if error is not ErrorCode.none and error not in _EXPECTED_OF_FETCH:
            self.failed_fetches.value += 1


@cache
def of_topic(topic: str) -> TopicMeters:
    """The counters of a topic that is on this broker; others must not get any, or clients could
    make the broker remember whatever names they like."""
    return TopicMeters(topic)


def forget_topic(topic: str) -> None:
    """The last partition of the topic has left this broker."""
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
    """Leaders were elected; for each partition, whether its new leader was in its ISR."""
    if in_isr:
        LEADER_ELECTIONS.observe(seconds * 1000)
        UNCLEAN_LEADER_ELECTIONS.inc(in_isr.count(False))


def queues_seen(depths: Mapping[Any, int]) -> None:
    """How many state change requests wait, by broker; there are no other queues."""
    _QUEUE_SIZES.clear()
    for broker, depth in depths.items():
        _QUEUE_SIZES.labels(str(broker)).set(depth)


def isr_changed(before: int, after: int) -> None:
    """An ISR of ``before`` members now has ``after``."""
    if after != before:
        (ISR_SHRINKS if after < before else ISR_EXPANDS).inc()
