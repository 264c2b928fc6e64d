"""Clocks: the part of :mod:`infra.api.interface` on what time it is on nodes, and on what time
servers think it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """What a node's clock showed.

    Attributes:
        offset_ns: The node's clock minus this machine's, nanoseconds.
        bound_ns: How far off ``offset_ns`` may be, either way: half of the round trip in which it
            was asked.
    """

    offset_ns: int
    bound_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What time it is by a server's own word.

    Attributes:
        offset_ms: Its clock minus the true one of its node.
        bound_ms: How far off ``offset_ms`` may be, either way.
        at_ms: When it was told, on a clock of the node that nothing befalls.
    """

    offset_ms: float
    bound_ms: float
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """How a server is made to write down what time it is.

    Attributes:
        address, port: Where it listens.
        say: What is sent to it, over a new connection.
        line: What then stands in a line of its log, behind the time. ``{address}`` and ``{port}``
            are those that it is asked from.
        log: That log. Its times are UTC.
    """

    address: str
    port: int
    say: bytes
    line: str
    log: PurePosixPath


class Clock(Protocol):
    """The clock that a server goes by, and nobody else. One that is started again finds it as it
    is, as that of a machine. Both methods raise InfraError when it cannot be done."""

    def run(self, offset_ms: int, rate: float = 1.0) -> None:
        """From now on, be ``offset_ms`` ahead of the true time (behind it, where negative) and go
        ``rate`` times as fast. ``run(0)`` is the true time. Time since boot (CLOCK_MONOTONIC) and
        sleeping stay as they are."""

    def told(self) -> Told:
        """What the server itself says that it is now, asked anew."""


class FakeClock(Protocol):
    """The clock of a node for what is started under it. Every method raises InfraError when it
    cannot be done."""

    @property
    def under(self) -> Sequence[str]:
        """What stands before the command line of whoever shall go by it."""

    def started(self, pid: int) -> None:
        """A process was started under it, and may need some tidying up."""

    def run(self, offset_ms: int, rate: float) -> None:
        """See :class:`Clock`."""

    def told(self, question: Question) -> Told:
        """The answer of a server."""


class Clocks(Protocol):
    """What time it is on a node."""

    def clock(self) -> ClockReading:
        """The node's clock now, against this machine's; the true one, whatever its servers go by.
        Raises InfraError when the node does not answer."""

    def fake_clock(self) -> FakeClock:
        """Make one, which shows the true time at first. Raises InfraError where the backend cannot
        (``Capability.FAKE_CLOCKS``)."""
