"""The common parts of the client processes: being stopped, and saying why they failed.

The exit status is 0 when the history is written, 1 when the client or its history failed, and 2
when the specification is wrong. Otherwise it is that of a program under test which has ended. The
reason goes to standard error.
"""

import ctypes
import gc
import json
import logging
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from ackproof.history.errors import HistoryError
from ackproof.history.storage import write_text
from ackproof.workloads.spec import SpecificationError

# --- stop, failure, entry point -------------------------------------------------------------------
#
# The exit status is 0 when the history is written, 1 when the client or its history failed, and 2
# when the specification is wrong. Otherwise it is that of a program under test which has ended. The
# reason goes to standard error.

_log = logging.getLogger(__name__)

YOUNG_MAX = 50_000
"""The number of container objects that are made, and not freed, before Python looks for cycles
among them; its own default is 700."""

KEPT_BYTES = 16 << 20
"""A size larger than the arrays of a poll or of a flush, in bytes."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Constants of malloc.h."""


class ClientFailed(Exception):
    """The error of a client library that has failed for good.

    Attributes:
        status: The exit status for it.
    """

    def __init__(self, reason: str, status: int = 1) -> None:
        super().__init__(reason)
        self.status = status


def stop_signal() -> Callable[[], bool]:
    """Return a function that says whether SIGTERM or SIGINT came since this call.

    It must be called in the main thread.
    """
    received: list[int] = []

    def note(signal_number: int, _frame: FrameType | None) -> None:
        received.append(signal_number)

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGINT, note)
    return lambda: bool(received)


def note_error(error: KafkaError) -> None:
    """Log what librdkafka says of its connections, for ``error_cb``."""
    _log.warning("%s: %s", error.name(), error.str())


def ready_for_full_speed() -> None:
    """Have Python and the C library spend less on memory, each a tenth of what recording takes.

    Python looks for garbage less often. Each message from a client library is an object that it
    looks at, and none of them is part of a cycle.

    The C library keeps freed memory for the next arrays. By default it gives large blocks back to
    the system, and each page of them is zeroed when it is asked for again.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *gc.get_threshold()[1:])
    process = ctypes.CDLL(None)
    if hasattr(process, "mallopt"):  # musl has none
        process.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
        process.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def main(run: Callable[[Path, Callable[[], bool]], None], arguments: Sequence[str]) -> int:
    """Run a client with the specification file that ``arguments`` name, and return its exit
    status."""
    ready_for_full_speed()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    if len(arguments) != 1:
        _log.error("expected one argument, the specification file; got %d", len(arguments))
        return 2
    try:
        run(Path(arguments[0]), stop_signal())
    except SpecificationError as error:
        _log.error("%s", error)
        return 2
    except ClientFailed as error:
        _log.error("%s", error)
        return error.status
    except (HistoryError, KafkaException, OSError) as error:
        _log.error("%s", error)
        return 1
    return 0


# --- the progress file ----------------------------------------------------------------------------
#
# The file is replaced as a whole, so that a reader never sees half of it. It is a display, not a
# record: the history alone counts.

SECONDS = 1.0


class ProgressFile:
    """A writer of one file, at most once a second."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._written_at: float | None = None

    def due(self, now: float) -> bool:
        """Return whether a second has passed since the last rewriting, and if so count it as done.

        ``now`` is in seconds of a clock that only goes forward.
        """
        if self._written_at is not None and now - self._written_at < SECONDS:
            return False
        self._written_at = now
        return True

    def write(self, figures: Mapping[str, int | str]) -> None:
        """Rewrite the file now."""
        write_text(self._path, json.dumps(figures))


# --- calls that may not return --------------------------------------------------------------------

R = TypeVar("R")


def within(seconds: float, call: Callable[[], R]) -> R:
    """Call, and return or raise what comes within ``seconds``.

    Raise TimeoutError when the call has not come back. Its thread is then abandoned: it only keeps
    running until the process ends.
    """
    ended: Future[R] = Future()

    def run() -> None:
        try:
            ended.set_result(call())
        except Exception as error:  # noqa: BLE001  raised where it is waited for
            ended.set_exception(error)

    Thread(target=run, daemon=True).start()
    return ended.result(seconds)
