"""Asks for the cluster's view several times a second and reports what changes.

For where nothing calls when something has changed. While nobody answers, nothing is seen; that is
told as it is of ZooKeeper: lost since the last answer, and back.
"""

import threading
import time
from collections.abc import Callable

from ackproof.infra.changes import ClusterChange
from ackproof.infra.interface import ClusterView, ViewUnavailable
from ackproof.infra.systems.observer import EMPTY, LATE_NS, Sight, changes

Report = Callable[[ClusterView], None]


class PollingObserver:
    """Implements ``infra.changes.Observer``.

    Args:
        ask: Calls what it is given with each view that there was since it was asked last, the
            oldest first, as it gets them; raises ViewUnavailable.
        every_s: Pause between two questions, in seconds.
        on_change: Called with each change, from one thread of the observer's own. What it raises
            ends the observation and is raised by :meth:`close`.
        clock: Nanoseconds of the Unix epoch.
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
        self._sight = Sight(on_change)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="polling-observer", daemon=True)
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
        # What had changed by then has been reported; what came while it was asked, perhaps not.
        self._answered_ns = asked_ns

    def _report(self, view: ClusterView) -> None:
        now_ns = self._clock()
        if now_ns - self._answered_ns > LATE_NS:
            self._sight.lose(self._answered_ns)
        for change in changes(self._seen, view, now_ns):
            self._on_change(change)
        self._seen = view
