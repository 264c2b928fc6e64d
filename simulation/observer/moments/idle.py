"""**IdleIsKnown**: a broker hangs up on whom it has had nothing from, and has sent nothing to, for
``connections.max.idle.ms``, and on nobody else (KIP-19).

Ten minutes: no run is that long. So it is looked at, whenever something has come or gone, since
when a connection counts as idle, and whether somebody will look at it when that is too long. A
member of a group that has asked once and waits for others to join is answered late, and sends its
next request when it has been: it was not idle when that answer left.
"""

from ackproof.broker.server.network.connections import _Connection
from simulation.network.tcp import Endpoint
from simulation.violation import Violation

EPSILON_S = 1e-6


def check(connection: _Connection) -> None:
    """Of one that is open; raises Violation."""
    endpoint, timer = connection._transport, connection._timer
    if not isinstance(endpoint, Endpoint) or endpoint.is_closing() or connection._max_idle_s < 0:
        return
    since = endpoint.active_at
    _require(
        abs(connection._last_active - since) < EPSILON_S,
        f"counts as idle since {connection._last_active:.3f} s, and is since {since:.3f} s",
    )
    due = since + connection._max_idle_s
    _require(
        timer is not None and not timer.cancelled() and timer.when() < due + EPSILON_S,
        f"is idle since {since:.3f} s, and nobody would hang up at {due:.3f} s",
    )


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise Violation("IdleIsKnown", f"a connection {what}")
