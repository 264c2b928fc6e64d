"""The broker's state at a moment, its samples for Prometheus, and the endpoint that serves them."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from ackproof.broker.server.metrics.meters import REGISTRY
from ackproof.broker.types import TopicPartition

if TYPE_CHECKING:  # a quarter of the start of a broker, for those with a metrics.listener alone
    from aiohttp import web

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
