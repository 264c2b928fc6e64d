"""Brokers that were let go at once: one that leads nothing and asks to be shut down is fenced there
and then, without a controlled shutdown (``BrokerHeartbeatManager.calculateNextBrokerState``). The
metadata log has the same record for one of which nobody has heard for a session; the active
controller's own log tells the two apart.

A controller that loses its office just then writes no such record itself, and what fences the
broker in the end may be another's: so the log has to tell that the record was written, or, of a
release that does not log it (3.3), nothing of an office that was lost."""

import re
from collections.abc import Iterable, Iterator

_AFTER = 5
"""In so many lines behind the grant a controller tells what became of it."""
_OF_CONTROLLERS = re.compile(rb"^.* \[(?:Quorum)?Controller (?:id=)?\d+\] .*$", re.MULTILINE)
"""Lines of a log; the other ones are of the broker that the controller is, too."""
_GRANTED = re.compile(rb"broker (\d+) has requested and been granted an immediate shutdown")
_REGISTERED = re.compile(rb"RegisterBrokerRecord\(brokerId=(\d+), .*?brokerEpoch=(\d+)\b")
_CHANGED = re.compile(
    rb" BrokerRegistrationChangeRecord\(brokerId=(\d+), brokerEpoch=(\d+), fenced=(-?\d+)\b"
)
_RESIGNED = re.compile(rb"\bRenounc", re.IGNORECASE)


def let_go(logs: Iterable[bytes]) -> frozenset[int]:
    """Their broker epochs, by the logs of all controllers."""
    return frozenset(epoch for log in logs for epoch in _of(_OF_CONTROLLERS.findall(log)))


def _of(lines: list[bytes]) -> Iterator[int]:
    logs_changes = any(map(_CHANGED.search, lines))
    registered: dict[bytes, int] = {}
    for number, line in enumerate(lines):
        if found := _REGISTERED.search(line):
            registered[found[1]] = int(found[2])
        if not (granted := _GRANTED.search(line)):
            continue
        behind = lines[number + 1 : number + 1 + _AFTER]
        if logs_changes:
            yield from _fenced(granted[1], behind)
        elif granted[1] in registered and not any(map(_RESIGNED.search, behind)):
            yield registered[granted[1]]


def _fenced(broker: bytes, lines: list[bytes]) -> Iterator[int]:
    changes = (found for line in lines if (found := _CHANGED.search(line)))
    yield from (
        int(epoch)
        for who, epoch, fenced in (one.groups() for one in changes)
        if who == broker and fenced == b"1"
    )
