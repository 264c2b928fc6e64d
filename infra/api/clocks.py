"""Clocks: the part of :mod:`infra.api.interface` on the time of nodes and of their servers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """A reading of a node's clock.

    Attributes:
        offset_ns: The node's clock minus this machine's, nanoseconds.
        bound_ns: The largest error of ``offset_ns``, either way: half of the round trip of the
            request.
    """

    offset_ns: int
    bound_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedTime:
    """The time that a server itself reports.

    Attributes:
        offset_ms: The server's clock minus the true one of its node.
        bound_ms: The largest error of ``offset_ms``, either way.
        at_ms: The time of the report, on a clock of the node that no fault affects.
    """

    offset_ms: float
    bound_ms: float
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockQuery:
    """A request that makes a server write the time into its log.

    Attributes:
        address, port: The address of the server.
        say: The bytes that are sent to it over a new connection.
        line: The text that then stands in a line of its log, behind the time. ``{address}`` and
            ``{port}`` are those of the client.
        log: That log. Its times are UTC.
    """

    address: str
    port: int
    say: bytes
    line: str
    log: PurePosixPath


class Clock(Protocol):
    """The clock of one server alone. A restarted server finds it as it is, as the clock of a
    machine.

    Both methods raise InfraError if they cannot do their work.
    """

    def run(self, offset_ms: int, rate: float = 1.0) -> None:
        """Set the clock ``offset_ms`` ahead of the true time, and let it run ``rate`` times as
        fast.

        A negative offset sets it behind. ``run(0)`` is the true time. Time since boot
        (CLOCK_MONOTONIC) and sleeping stay as they are.
        """

    def reported_time(self) -> ReportedTime:
        """Return the time that the server itself reports now, by a new request."""


class FakeClock(Protocol):
    """The clock of a node for the programs that are started under it.

    Every method raises InfraError if it cannot do its work.
    """

    @property
    def under(self) -> Sequence[str]:
        """Return what stands before the command line of a program that uses this clock."""

    def started(self, pid: int) -> None:
        """Note that a process was started under it, and remove what it leaves behind."""

    def run(self, offset_ms: int, rate: float) -> None:
        """Set the clock as :class:`Clock` does."""

    def reported_time(self, question: ClockQuery) -> ReportedTime:
        """Return the answer of a server."""


class Clocks(Protocol):
    """The time on a node."""

    def clock(self) -> ClockReading:
        """Read the node's clock against this machine's.

        It is the true one, whatever clock its servers use. Raises InfraError if the node does not
        answer.
        """

    def fake_clock(self) -> FakeClock:
        """Make a clock that shows the true time at first.

        Raises InfraError if the backend cannot (``Capability.FAKE_CLOCKS``).
        """
