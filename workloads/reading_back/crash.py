"""That librdkafka has ended the process of a final read, and who reads then."""

import signal
from dataclasses import replace

from ackproof.workloads.interface import Client

_SIGNALS = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV})
"""By which a process ends that nobody has killed."""


def crashed(status: int | None) -> str | None:
    """Why nothing more comes of a process that ended with this status, negative for a signal; None
    where librdkafka has not ended it."""
    if status is None or -status not in _SIGNALS:
        return None
    return f"librdkafka ended its process: {signal.Signals(-status).name}"


def apart(reader: Client, left_s: float) -> Client:
    """Who reads the same in so many seconds, a process a topic. It has a log of its own: in the
    other one stands what librdkafka said last."""
    specification = {**reader.specification, "deadline_s": left_s, "apart": True}
    return replace(reader, name=f"{reader.name}-apart", specification=specification)
