"""Observations that faults share when they prove what they did."""

from collections.abc import Callable, Mapping

from infra.interface import ProcessState, Server, System, Timings, ViewUnavailable
from infra.waiting import wait_until
from nemesis.interface import Evidence


def expiry_ms(timings: Timings) -> int:
    """The longest that ZooKeeper takes to expire the session of a client gone silent.

    The session timeout, rounded up to a tick; a tick is at most half of the shortest timeout that
    ZooKeeper grants (minSessionTimeout is 2 ticks).
    """
    timeout = timings.zookeeper_session_timeout_ms
    return timeout + timeout // 2


def registered(system: System, server: Server) -> bool:
    """Whether the broker holds its registration in ``/brokers/ids``."""
    return server.id in system.view().brokers


def serving(server: Server) -> bool:
    """Whether the server's process runs (neither stopped nor gone)."""
    return server.process.state() is ProcessState.RUNNING


def leads(system: System, server: Server) -> list[str]:
    """The partitions that ZooKeeper says the broker leads, e.g. ``["orders-0"]``."""
    return [
        f"{topic}-{number}"
        for (topic, number), partition in sorted(system.view().partitions.items())
        if partition.leader == server.id
    ]


def wait_for(
    observe: Callable[[], tuple[bool, Mapping[str, object]]], *, timeout: float, why: str
) -> Evidence:
    """Observe until it is proven or ``timeout`` seconds have passed; the last observation counts.

    ``observe`` returns whether it is proven and what was seen. A ZooKeeper that does not answer
    means "not yet".
    """
    seen: Mapping[str, object] = {}

    def look() -> bool:
        nonlocal seen
        try:
            proven, seen = observe()
        except ViewUnavailable:
            return False
        return proven

    try:
        wait_until(look, timeout, why, interval=0.1)
    except TimeoutError as late:
        return Evidence(proven=False, observations={**seen, "missing": str(late)})
    return Evidence(proven=True, observations=seen)
