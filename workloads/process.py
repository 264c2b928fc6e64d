"""What the client processes have in common: being stopped, and saying why they failed.

Exit status: 0 the history is written; 1 the client or its history failed; 2 the specification is
wrong; that of a program under test which has ended. The reason goes to standard error.
"""

import ctypes
import gc
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from confluent_kafka import KafkaError, KafkaException

from ackproof.history.errors import HistoryError
from ackproof.workloads.spec import SpecificationError

_log = logging.getLogger(__name__)

YOUNG_MAX = 50_000
"""So many objects that may hold others are made, and not let go, before Python looks for cycles
among them; 700 is its own figure."""

KEPT_BYTES = 16 << 20
"""More than the arrays of a poll or of a flush are."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of malloc.h."""


class ClientFailed(Exception):
    """The client library has failed for good.

    Attributes:
        status: The exit status that tells of it.
    """

    def __init__(self, reason: str, status: int = 1) -> None:
        super().__init__(reason)
        self.status = status


def stop_signal() -> Callable[[], bool]:
    """Whether SIGTERM or SIGINT came, from now on. To be called in the main thread."""
    received: list[int] = []

    def note(signal_number: int, _frame: FrameType | None) -> None:
        received.append(signal_number)

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGINT, note)
    return lambda: bool(received)


def note_error(error: KafkaError) -> None:
    """For ``error_cb``: what librdkafka says of its connections goes to the log."""
    _log.warning("%s: %s", error.name(), error.str())


def ready_for_full_speed() -> None:
    """Have Python and the C library spend less on memory, each a tenth of what recording takes.

    Python looks for garbage less often: each message that a client library hands over is an object
    that it looks at, and none of them is part of a cycle. The C library keeps for the next arrays
    what the last ones have let go: it gives back to the system what is large, and each page of it
    is zeroed when it is asked for again.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *gc.get_threshold()[1:])
    process = ctypes.CDLL(None)
    if hasattr(process, "mallopt"):  # musl has none
        process.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
        process.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def main(run: Callable[[Path, Callable[[], bool]], None], arguments: Sequence[str]) -> int:
    """Run a client with the specification file that ``arguments`` name; its exit status."""
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
