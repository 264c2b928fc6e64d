"""Brokers that were let go at once: one that leads nothing and asks to be shut down is fenced there
and then, without a controlled shutdown (``BrokerHeartbeatManager.calculateNextBrokerState``). The
metadata log has the same record for one of which nobody has heard for a session; the active
controller's own log tells the two apart."""

import re
from collections.abc import Iterable

_OF_CONTROLLERS = re.compile(rb"^.* \[(?:Quorum)?Controller (?:id=)?\d+\] .*\n", re.MULTILINE)
"""Lines of a log; the other ones are of the broker that the controller is, too."""
_LET_GO = re.compile(
    # A controller that loses its office just then writes no such record itself; what it replays
    # later is of whatever fenced the broker in the end.
    rb"broker (\d+) has requested and been granted an immediate shutdown.*\n(?:.*\n){0,5}?"
    rb".*brokerId=\1, brokerEpoch=(\d+), fenced=1\b"
)


def let_go(logs: Iterable[bytes]) -> frozenset[int]:
    """Their broker epochs, by the logs of all controllers."""
    told = (b"".join(_OF_CONTROLLERS.findall(log)) for log in logs)
    return frozenset(int(epoch) for log in told for _, epoch in _LET_GO.findall(log))
