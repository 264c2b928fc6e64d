"""Follows the metadata log and reports what changes.

Nothing goes unseen, but some of it late: while the active controller does not answer, and before
another one is elected. That is told as it is of ZooKeeper: lost since it answered last.
"""

import threading
import time
from collections.abc import Callable

from infra.changes import ChangeKind, ClusterChange
from infra.interface import ClusterView, ViewUnavailable
from infra.systems.kraft.image import Image
from infra.systems.kraft.log import MetadataLog, Moment
from infra.systems.observer import EMPTY, changes

_EVERY_S = 0.1
_ANSWER_S = 2.0
_LATE_NS = 950_000_000
"""Without an answer for that long, a change might be reported later than the checkers allow for
(``checkers.observed.OBSERVATION_LAG_NS``)."""


class LogObserver:
    """Implements ``infra.changes.Observer``.

    Args:
        log: Nobody else's.
        on_change: Called with each change, from one thread of the observer's own. What it raises
            ends the observation and is raised by :meth:`close`.
        clock: Nanoseconds of the Unix epoch.
    """

    def __init__(
        self,
        log: MetadataLog,
        on_change: Callable[[ClusterChange], None],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._log = log
        self._on_change = on_change
        self._clock = clock
        self._seen: ClusterView = EMPTY
        self._answered_ns = 0
        self._back_ns = 0
        self._lost = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metadata-observer")
        self._failure: BaseException | None = None

    @property
    def watches(self) -> int:
        """There is no ZooKeeper that would keep one."""
        return 0

    def start(self) -> None:
        self._answered_ns = self._clock()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._log.close()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def __enter__(self) -> "LogObserver":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._look()
                self._closing.wait(_EVERY_S)
        except BaseException as error:  # noqa: BLE001 - raised again by close()
            self._failure = error

    def _look(self) -> None:
        asked_ns = self._clock()
        try:
            self._log.read(_ANSWER_S, self._report)
        except ViewUnavailable:
            self._lose()
            return
        if self._lost:
            self._lost = False
            self._back_ns = self._clock()
            self._tell(ChangeKind.ZOOKEEPER_BACK, self._back_ns)
        # What was written by then has been reported; what came while it was asked, perhaps not.
        self._answered_ns = asked_ns

    def _report(self, image: Image, moment: Moment) -> None:
        now_ns = self._clock()
        if now_ns - self._answered_ns > _LATE_NS:
            self._lose()
        view = image.view(moment.controller, moment.epoch)
        for change in changes(self._seen, view, now_ns):
            self._on_change(change)
        self._seen = view

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            # A second loss is behind the end of the first: told as of before it, the two would be
            # one that ends with the first.
            self._tell(ChangeKind.ZOOKEEPER_LOST, max(self._answered_ns, self._back_ns + 1))

    def _tell(self, kind: ChangeKind, time_ns: int) -> None:
        self._on_change(ClusterChange(time_ns=time_ns, kind=kind))
