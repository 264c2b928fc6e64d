"""Watching processes, each in a thread of its own: a host that does not answer, which may take half
a minute to say so, keeps nobody else from being looked at."""

import logging
import threading
from collections.abc import Callable, Sequence

from ackproof.infra.interface import InfraError

LOOK_EVERY_S = 1.0
_LAST_LOOK_S = 5.0

log = logging.getLogger(__name__)


class Watch:
    """Looks once a second until it is told to stop, and once more then.

    Args:
        name: What is looked at.
        look: One look. An InfraError is a host that is silent, and says nothing of what runs on
            it: there will be another look.
    """

    def __init__(self, name: str, look: Callable[[], None]) -> None:
        self._look = look
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watch {name}", daemon=True)

    def start(self) -> "Watch":
        self._thread.start()
        return self

    def stop(self, within_s: float) -> bool:
        """No further look begins. Whether the last one ended within that time."""
        self._over.set()
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self._try()
        self._try()

    def _try(self) -> None:
        try:
            self._look()
        except InfraError as silence:
            log.info("%s: %s", self._thread.name, silence)
        except Exception:
            log.exception("%s", self._thread.name)


def stop(watches: dict[str, Watch], names: Sequence[str]) -> None:
    """Take those that have ``names`` out of ``watches``, and wait for their last look."""
    stopped = {name: watches.pop(name) for name in names if name in watches}
    for watch in stopped.values():
        watch.stop(0.0)
    for name, watch in stopped.items():
        if not watch.stop(_LAST_LOOK_S):
            log.warning("the last look at %s has no answer yet", name)
