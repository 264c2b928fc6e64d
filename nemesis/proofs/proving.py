"""Proving: looks are taken until they show what is to be shown, or the time is up."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ackproof.infra.api.interface import Timings
from ackproof.nemesis.interface import Look, Observation, Proof

_POLL_S = 0.1


class Waiting(Protocol):
    """How one waits."""

    def until(self, condition: Callable[[], bool], *, at_most: float, poll: float) -> bool:
        """Wait until ``condition`` holds, at most that many seconds; whether it does. Asked once
        at least. May raise when waiting is no longer wanted."""


def expiry_ms(timings: Timings) -> int:
    """The longest that ZooKeeper takes to expire the session of a client gone silent.

    The session timeout, rounded up to a tick; a tick is at most half of the shortest timeout that
    ZooKeeper grants (minSessionTimeout is 2 ticks).
    """
    timeout = timings.zookeeper_session_timeout_ms
    return timeout + timeout // 2


def shrink_ms(timings: Timings) -> int:
    """The longest that a leader takes to drop a silent follower from the ISR: it looks every half
    of ``replica.lag.time.max.ms``."""
    lag = timings.replica_lag_time_max_ms
    return lag + lag // 2


def noticed_ms(timings: Timings) -> int:
    """Within this time the cluster has noticed whoever is dead or lags."""
    return max(expiry_ms(timings), shrink_ms(timings))


def prove(
    looks: Sequence[Look],
    waiting: Waiting,
    timeout: float,
    *,
    by_itself: bool,
    struck: bool = True,
    meanwhile: Callable[[], None] = lambda: None,
) -> Proof:
    """Look until nothing is missing, at most ``timeout`` seconds; the last looks count. Before each
    of them ``meanwhile`` is called, whose errors are raised.

    ``by_itself``: of the first look, something must have been seen. Killing a broker that another
    fault had killed leaves nothing missing, for everything is left out: it has shown nothing.

    ``struck``: whether the fault has done anything. If so, what is left out of the first look on
    account of another fault is waited for, too: a topic that is deleted while a broker is down is
    gone when that is back. If not, nothing will ever be seen.
    """
    seen: list[Observation] = []

    def something_seen() -> bool:
        return not by_itself or bool(seen and seen[0].seen)

    def enough() -> bool:
        meanwhile()
        seen[:] = [look() for look in looks]
        return not any(one.missing for one in seen) and (something_seen() or not struck)

    shown = waiting.until(enough, at_most=timeout, poll=_POLL_S)
    missing = [one for one in seen if one.missing]
    return Proof(
        proven=shown and something_seen(),
        observations=_in_words(seen),
        owed=bool(missing) and all(one.owed for one in missing),
    )


def _in_words(observations: Sequence[Observation]) -> Mapping[str, object]:
    """One key a claim, then what is missing and what was not looked at, if anything."""
    words: dict[str, object] = {one.claim: dict(one.seen) for one in observations if one.seen}
    missing = {one.claim: list(one.missing) for one in observations if one.missing}
    left_out = {one.claim: dict(one.left_out) for one in observations if one.left_out}
    if missing:
        words["missing"] = missing
    if left_out:
        words["not looked at"] = left_out
    return words
