"""The processes of a run: the watch over each, and how each ended."""

import logging
import threading
from collections.abc import Callable, Sequence

from ackproof.history.messages import quoted
from ackproof.infra.api.interface import InfraError, Node, Process

# --- how a process ended --------------------------------------------------------------------------

_REAPED_WITHIN_S = 5.0


def exit_status(process: Process) -> int | None:
    """Return the exit status of a process that has ended, negative for a signal, or None if it is
    unknown.

    ``exit_code`` may not know it yet, because a moment passes between the end of a process and its
    being reaped.
    """
    try:
        return process.wait(_REAPED_WITHIN_S)
    except TimeoutError:
        return None


def in_words(status: int | None) -> str:
    """Return an exit status in words, such as ``status 70``."""
    return "status unknown" if status is None else f"status {status}"


def last_words(node: Node, name: str) -> str:
    """Return an addition to the message that a process on ``node`` ended: the last lines of its
    log. It is empty if the log is empty or cannot be read. The path in it is relative to the run's
    directory."""
    try:
        log = node.read(node.log_directory / f"{name}.log")
    except (InfraError, OSError):
        return ""
    return quoted(log, f"logs/{node.name}/{name}.log")


# --- watches --------------------------------------------------------------------------------------
#
# Each process is watched in a thread of its own. A host may take half a minute before it is known
# to be silent, and the other processes are watched meanwhile.

LOOK_EVERY_S = 1.0
_LAST_LOOK_S = 5.0

log = logging.getLogger(__name__)


class ProcessWatch:
    """A watch that looks once a second until it is stopped, and then once more.

    Args:
        name: The name of what is watched.
        look: One look. An InfraError means that the host is silent. It says nothing about the
            host's processes, and another look follows.
    """

    def __init__(self, name: str, look: Callable[[], None]) -> None:
        self._look = look
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watch {name}", daemon=True)

    def start(self) -> "ProcessWatch":
        self._thread.start()
        return self

    def stop(self, within_s: float) -> bool:
        """Begin no further look, and return whether the last one ended within that time."""
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


def stop_watching(watches: dict[str, ProcessWatch], names: Sequence[str]) -> None:
    """Remove the watches with ``names`` from ``watches``, and wait for their last look."""
    stopped = {name: watches.pop(name) for name in names if name in watches}
    for watch in stopped.values():
        watch.stop(0.0)
    for name, watch in stopped.items():
        if not watch.stop(_LAST_LOOK_S):
            log.warning("the last look at %s has no answer yet", name)
