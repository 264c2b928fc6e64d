"""Looks at the cluster several times a second and reports what has changed.

Of what changes and changes back between two looks nothing is seen, and nothing shows that: leader
epochs and versions are not told.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from infra.changes import ChangeKind, ClusterChange
from infra.interface import ClusterView, ViewUnavailable
from infra.systems.observer import EMPTY, changes

_EVERY_S = 0.2
_LATE_NS = 950_000_000
"""As in :mod:`infra.systems.kraft.observer`."""


class LookingObserver:
    """Implements ``infra.changes.Observer``.

    Args:
        look: Reads the view; raises ViewUnavailable.
        on_change: Called with each change, from one thread of the observer's own. What it raises
            ends the observation and is raised by :meth:`close`.
        clock: Nanoseconds of the Unix epoch.
    """

    def __init__(
        self,
        look: Callable[[], ClusterView],
        on_change: Callable[[ClusterChange], None],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._look = look
        self._on_change = on_change
        self._clock = clock
        self._seen: ClusterView = EMPTY
        self._answered_ns = 0
        self._back_ns = 0
        self._lost = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="looking-observer", daemon=True)
        self._failure: BaseException | None = None

    @property
    def watches(self) -> int:
        """Nobody keeps one."""
        return 0

    def start(self) -> None:
        self._answered_ns = self._clock()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._look_once()
                self._closing.wait(_EVERY_S)
        except BaseException as error:  # noqa: BLE001 - raised again by close()
            self._failure = error

    def _look_once(self) -> None:
        asked_ns = self._clock()
        try:
            view = self._look()
        except ViewUnavailable:
            self._lose()
            return
        now_ns = self._clock()
        if now_ns - self._answered_ns > _LATE_NS:
            self._lose()
        for change in changes(self._seen, view, now_ns):
            self._on_change(_told(change))
        self._seen = view
        if self._lost:
            self._lost = False
            self._back_ns = now_ns
            self._tell(ChangeKind.ZOOKEEPER_BACK, now_ns)
        self._answered_ns = asked_ns

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._tell(ChangeKind.ZOOKEEPER_LOST, max(self._answered_ns, self._back_ns + 1))

    def _tell(self, kind: ChangeKind, time_ns: int) -> None:
        self._on_change(ClusterChange(time_ns=time_ns, kind=kind))


def _told(change: ClusterChange) -> ClusterChange:
    """Without what a client is not told: a null in the history is no epoch."""
    return replace(change, leader_epoch=None, controller_epoch=None, version=None)
