"""Observers of the cluster's metadata in ZooKeeper that report changes.

Whenever a watch fires, and whenever the connection is back, the whole view is read and compared
with the one before. The reading sets the watches again. No lasting change is therefore missed,
whatever happened to the session meanwhile. ZooKeeper's watches report that something changed, but
not how often: the first of two quick changes may remain unseen. The version of a partition's znode
then shows that there was one. While the observer cannot read, or reads late, it is blind, and
reports that.

Not reported: topics that are deleted.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, WatchedEvent

from ackproof.infra.api.interface import ClusterView, PartitionView, ViewUnavailable
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.systems.view import ViewReader, connect, disconnect

_READ_TIMEOUT_S = 2.0
_AGAIN_S = 0.2
LATE_NS = 950_000_000
"""The longest time between two readings, in nanoseconds.

After a longer time, a change might be reported later than the checkers allow for
(``checkers.context.observed.OBSERVATION_LAG_NS``).
"""
EMPTY = ClusterView(brokers={}, controller=None, controller_epoch=0, partitions={})


def changes(before: ClusterView, after: ClusterView, time_ns: int) -> Iterator[ClusterChange]:
    """Yield the differences of two views, seen at ``time_ns``.

    A broker that registered again in between went down and came up.
    """
    gone = before.brokers.items() - after.brokers.items()
    come = after.brokers.items() - before.brokers.items()
    for broker, _ in sorted(gone):
        yield ClusterChange(time_ns=time_ns, kind=ChangeKind.BROKER_DOWN, broker=broker)
    for broker, _ in sorted(come):
        yield ClusterChange(time_ns=time_ns, kind=ChangeKind.BROKER_UP, broker=broker)
    if (before.controller, before.controller_epoch) != (after.controller, after.controller_epoch):
        yield ClusterChange(
            time_ns=time_ns,
            kind=ChangeKind.CONTROLLER,
            controller_epoch=after.controller_epoch,
            broker=after.controller,
        )
    for key, partition in after.partitions.items():
        seen = before.partitions.get(key)
        # The ISR may have changed, and changed back, before it was read again. The version shows
        # that.
        if seen is None or (partition, partition.version) != (seen, seen.version):
            yield _partition_change(partition, time_ns)


class ObserverSight:
    """The state of an observer that can become blind, and its reports about that.

    Args:
        on_change: The function of the observer.
    """

    def __init__(self, on_change: Callable[[ClusterChange], None]) -> None:
        self._on_change = on_change
        self._back_ns = 0
        self.lost = False

    def lose(self, time_ns: int) -> None:
        """Report that nothing is seen since ``time_ns``, unless that is already reported."""
        if not self.lost:
            self.lost = True
            # A second loss must come after the end of the first. With an earlier time, the two
            # would be one that ends with the first.
            self._tell(ChangeKind.ZOOKEEPER_LOST, max(time_ns, self._back_ns + 1))

    def regain(self, time_ns: int) -> None:
        """Report that everything is seen from ``time_ns`` on, if that was not so before."""
        if self.lost:
            self.lost = False
            self._back_ns = time_ns
            self._tell(ChangeKind.ZOOKEEPER_BACK, time_ns)

    def _tell(self, kind: ChangeKind, time_ns: int) -> None:
        self._on_change(ClusterChange(time_ns=time_ns, kind=kind))


class _ChangeNotice(NamedTuple):
    """A message to the observer's thread that something changed; ``lost``: the connection."""

    time_ns: int
    lost: bool = False
    closing: bool = False


class ClusterObserver:
    """An observer from :meth:`start` to :meth:`close`; a context manager of the two.

    The first state is reported as changes from an empty cluster.

    Args:
        zookeeper_connect: Kafka's ``zookeeper.connect``.
        on_change: Called with each change, from one thread of the observer. Its error ends the
            observation and is raised by :meth:`close`.
        clock: Returns nanoseconds of the Unix epoch.
    """

    def __init__(
        self,
        zookeeper_connect: str,
        on_change: Callable[[ClusterChange], None],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._zookeeper_connect = zookeeper_connect
        self._on_change = on_change
        self._clock = clock
        self._news: queue.SimpleQueue[_ChangeNotice] = queue.SimpleQueue()
        self._seen = EMPTY
        self._fresh_ns: int | None = None
        """The time at which everything was last seen; None if nothing was seen yet."""
        self._sight = ObserverSight(on_change)
        self._client: KazooClient | None = None
        self._thread = threading.Thread(target=self._run, name="cluster-observer")
        self._failure: BaseException | None = None
        self._watches = 0

    @property
    def watches(self) -> int:
        """Return the number of watches that ZooKeeper keeps for it while nothing changes.

        They must be subtracted from a count of the cluster's watches.
        """
        return self._watches

    @property
    def alive(self) -> bool:
        """Return whether it observes: it has started, and neither closed nor failed."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin. ZooKeeper need not be up yet."""
        self._client = connect(self._zookeeper_connect)
        self._client.add_listener(self._on_state)
        self._news.put(_ChangeNotice(self._clock()))
        self._thread.start()

    def close(self) -> None:
        """Stop. Idempotent. Raises the error that ended the observation, if one did."""
        if self._client is None:
            return
        self._news.put(_ChangeNotice(self._clock(), closing=True))
        self._thread.join()
        client, self._client = self._client, None
        client.remove_listener(self._on_state)
        disconnect(client)
        self._watches = 0
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> "ClusterObserver":
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _on_state(self, state: str) -> None:
        # This is called in kazoo's own thread, which must not wait.
        self._news.put(_ChangeNotice(self._clock(), lost=state != KazooState.CONNECTED))

    def _on_watch(self, _event: WatchedEvent) -> None:
        self._news.put(_ChangeNotice(self._clock()))

    def _run(self) -> None:
        try:
            self._observe()
        except BaseException as error:  # noqa: BLE001 - raised again by close()
            self._failure = error

    def _observe(self) -> None:
        reader = ViewReader(self._client, _READ_TIMEOUT_S, self._on_watch)
        stale, turned_ns = False, self._clock()
        while True:
            try:
                news = self._news.get(timeout=_AGAIN_S)
            except queue.Empty:
                news = None
            if news is not None:
                if news.closing:
                    return
                if news.lost:
                    self._sight.lose(news.time_ns)
                stale = True
                if not self._news.empty():
                    continue  # one reading serves all of them
            now_ns = self._clock()
            quiet = news is None and not stale and now_ns - turned_ns <= LATE_NS
            if not quiet:
                self._lose_if_late(now_ns)
                stale = not self._read(reader)
            if not stale:
                self._fresh_ns = now_ns
            turned_ns = self._clock()

    def _lose_if_late(self, now_ns: int) -> None:
        """Report a gap if the last reading is too long ago.

        A busy machine may keep this process, or ZooKeeper, waiting for seconds. A new leader that
        is seen so late would seem to have begun below what the former one had acknowledged by then.
        """
        if self._fresh_ns is not None and now_ns - self._fresh_ns > LATE_NS:
            self._sight.lose(self._fresh_ns)

    def _read(self, reader: ViewReader) -> bool:
        """Read the view and report its changes. Return whether it could be read."""
        try:
            view = reader.read()
        except ViewUnavailable:
            return False
        now_ns = self._clock()
        self._lose_if_late(now_ns)
        for change in changes(self._seen, view, now_ns):
            self._on_change(change)
        self._sight.regain(now_ns)
        self._seen = view
        self._watches = reader.watches
        return True


def _partition_change(partition: PartitionView, time_ns: int) -> ClusterChange:
    return ClusterChange(
        time_ns=time_ns,
        kind=ChangeKind.PARTITION,
        topic=partition.topic,
        partition=partition.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        elr=partition.elr,
        controller_epoch=partition.controller_epoch,
        version=partition.version,
    )


# --- observing by polling ---------------------------------------------------------------------


Report = Callable[[ClusterView], None]


class PollingObserver:
    """An ``infra.api.metadata.Observer`` by repeated requests.

    Args:
        ask: Calls its argument with each view since the last request, the oldest first, as it gets
            them; raises ViewUnavailable.
        every_s: The pause between two requests, in seconds.
        on_change: Called with each change, from one thread of the observer. Its error ends the
            observation and is raised by :meth:`close`.
        clock: Returns nanoseconds of the Unix epoch.
        end: Called by :meth:`close`, every time.
    """

    def __init__(
        self,
        ask: Callable[[Report], None],
        every_s: float,
        on_change: Callable[[ClusterChange], None],
        clock: Callable[[], int] = time.time_ns,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self._ask = ask
        self._every_s = every_s
        self._on_change = on_change
        self._clock = clock
        self._end = end
        self._seen: ClusterView = EMPTY
        self._answered_ns = 0
        self._sight = ObserverSight(on_change)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="polling-observer", daemon=True)
        self._failure: BaseException | None = None

    @property
    def watches(self) -> int:
        """Return 0: a polling observer sets no watches."""
        return 0

    def start(self) -> None:
        self._answered_ns = self._clock()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._end()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._look()
                self._closing.wait(self._every_s)
        except BaseException as error:  # noqa: BLE001 - raised again by close()
            self._failure = error

    def _look(self) -> None:
        asked_ns = self._clock()
        try:
            self._ask(self._report)
        except ViewUnavailable:
            self._sight.lose(self._answered_ns)
            return
        self._sight.regain(self._clock())
        # Changes before the request have been reported. Changes during it may not have been.
        self._answered_ns = asked_ns

    def change_source(self, view: ClusterView) -> None:
        """Report the first view of another source of metadata, with a gap since the last request.

        Each source has ids of its own for the registrations of brokers. A broker that both sources
        know has therefore not registered again.
        """
        self._sight.lose(self._answered_ns)
        known = view.brokers.keys() & self._seen.brokers.keys()
        renamed = {broker: view.brokers[broker] for broker in known}
        self._seen = replace(self._seen, brokers={**self._seen.brokers, **renamed})
        self._report(view)

    def _report(self, view: ClusterView) -> None:
        now_ns = self._clock()
        if now_ns - self._answered_ns > LATE_NS:
            self._sight.lose(self._answered_ns)
        for change in changes(self._seen, view, now_ns):
            self._on_change(change)
        self._seen = view
