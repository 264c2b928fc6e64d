"""Measurements on links: how much is lost, how long it takes, how much goes through, and
whether an open connection stays open.

The measurements guard against chance and against a busy machine. The kernel must have counted
packets that the effect struck during the measurement. To measure losses, many connections are
tried. There are so many that losing none of them, or all, would be next to impossible at the rate
in question.

Times and rates are compared with those of a node with itself, which no fault strikes. Where these
are bad, nothing is shown.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from ackproof.nemesis.interface import Cluster, Injection, Link, Look, Observation
from ackproof.nemesis.network.effects import OnLink
from ackproof.nemesis.network.observations import WAS_ON, each, why_untried
from ackproof.nemesis.network.services import ConnectionAttempt, nodes, way
from ackproof.nemesis.proofs import Seen, intended, observe

TRY_WITHIN_S = 0.4
"""The time limit of one attempt, in seconds: less than the second after which the kernel repeats
the first packet of a connection."""
_CHANCE = 1e-4
_TIMES = 5
_LASTING_S = 1.0
_ROOM = 2.0
"""The factor by which a rate measured in a second may be too high, because a narrow link lets a
burst pass first."""


def losses(injection: Injection) -> Look:
    """Return a look at the share of new connections that fail.

    As many must fail as the loss lets fail, and the kernel must have dropped as many packets
    meanwhile.
    """
    cluster = injection.cluster

    def seen(effect: OnLink, there: ConnectionAttempt) -> Seen:
        lost = lost_of_connections(intended(injection, OnLink), effect.link)
        count = tries_needed(lost)
        before = effect.counted(cluster)
        failed = count - _tries(cluster, there, count)
        after = effect.counted(cluster)
        dropped, packets = after.hit - before.hit, after.seen - before.seen
        shown = (
            dropped > 0
            and plausible(failed, count, lost)
            and plausible(dropped, packets, effect.impairment.amount / 100)
        )
        return shown, f"{failed} of {count}; {dropped} of {packets} packets"

    return _measuring(injection, "connections lost", seen)


def lossless(injection: Injection) -> Look:
    """Return a look at new connections that all succeed, so many that the loss would have failed
    one."""

    def seen(effect: OnLink, there: ConnectionAttempt) -> Seen:
        count = tries_needed(lost_of_connections(intended(injection, OnLink), effect.link))
        failed = count - _tries(injection.cluster, there, count)
        return failed == 0, f"{failed} of {count} lost"

    return _measuring(injection, "nothing lost", seen, done=False)


def resets(injection: Injection) -> Look:
    """Return a look at whether a connection of ours that was open before was reset."""
    cluster = injection.cluster

    def seen(effect: OnLink, there: ConnectionAttempt) -> Seen:
        state = cluster.backend.links.held(str(effect), cluster.node(there.source))
        return state == "reset", state

    def why_not(effect: OnLink, there: ConnectionAttempt) -> str | None:
        state = cluster.backend.links.held(str(effect), cluster.node(there.source))
        return "no connection could be opened before" if state == "none" else None

    return _measuring(injection, "open connections", seen, why_not=why_not)


def delays(injection: Injection) -> Look:
    """Return a look at how long new connections take.

    They must take as long as the delays on their way, and a connection of a node to itself must
    not.
    """
    cluster = injection.cluster

    def seen(effect: OnLink, there: ConnectionAttempt) -> Seen:
        wanted = effect.impairment.amount * _directions(intended(injection, OnLink), effect.link)
        before = effect.counted(cluster)
        taken, itself = _round_trip_ms(cluster, there)
        queued = effect.counted(cluster).hit - before.hit
        shown = queued > 0 and wanted <= taken < math.inf and itself < effect.impairment.amount / 2
        return shown, f"{taken:.0f} ms; {queued} packets queued"

    return _measuring(injection, "round trip", seen)


def quick(injection: Injection) -> Look:
    """Return a look at whether new connections no longer take as long as the delay."""

    def seen(effect: OnLink, there: ConnectionAttempt) -> Seen:
        taken, _itself = _round_trip_ms(injection.cluster, there)
        return taken < effect.impairment.amount, f"{taken:.0f} ms"

    return _measuring(injection, "round trip again", seen, done=False)


def rates(injection: Injection) -> Look:
    """Return a look at the rate of a connection.

    It must carry no more than the link lets pass, and a connection of a node to itself must carry
    more.
    """
    links = injection.cluster.backend.links

    def seen(effect: OnLink, _there: ConnectionAttempt) -> Seen:
        source, target = nodes(injection.cluster, effect.link)
        most = _ROOM * effect.impairment.amount
        before = effect.counted(injection.cluster)
        rate = links.throughput_kbit(source, target, _LASTING_S)
        queued = effect.counted(injection.cluster).hit - before.hit
        itself = links.throughput_kbit(target, target, _LASTING_S / 4)
        shown = queued > 0 and 0 < rate <= most < itself
        return shown, f"{rate:.0f} kbit/s; {queued} packets queued"

    return _measuring(injection, "carried", seen)


def wide(injection: Injection) -> Look:
    """Return a look at whether a connection again carries more than the link let pass."""
    links = injection.cluster.backend.links

    def seen(effect: OnLink, _there: ConnectionAttempt) -> Seen:
        source, target = nodes(injection.cluster, effect.link)
        rate = links.throughput_kbit(source, target, _LASTING_S / 4)
        return rate > _ROOM * effect.impairment.amount, f"{rate:.0f} kbit/s"

    return _measuring(injection, "carried again", seen, done=False)


# --- chance --------------------------------------------------------------------------------------


def lost_of_connections(effects: Sequence[OnLink], link: Link) -> float:
    """Return the share of new connections that fail.

    A connection takes a packet each way, and either may be lost.
    """
    kept = 1.0
    for effect in effects:
        if effect.link in (link, link.back):
            kept *= 1 - effect.impairment.amount / 100
    return 1 - kept


def tries_needed(lost: float) -> int:
    """Return how many attempts make it next to impossible (1 in 10,000) that none is lost, or that
    all are."""
    return math.ceil(max(math.log(_CHANCE) / math.log(p) for p in (lost, 1 - lost)))


def plausible(failed: int, count: int, lost: float) -> bool:
    """Return whether ``failed`` of ``count`` is likely enough.

    The test takes the exact binomial tails, each 1 in 10,000.
    """
    chances = [_binomial(k, count, lost) for k in range(count + 1)]
    return sum(chances[: failed + 1]) > _CHANCE and sum(chances[failed:]) > _CHANCE


def _binomial(k: int, n: int, p: float) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log(1 - p))


# --- measuring -----------------------------------------------------------------------------------


def _measuring(
    injection: Injection,
    claim: str,
    seen: Callable[[OnLink, ConnectionAttempt], Seen],
    *,
    done: bool = True,
    why_not: Callable[[OnLink, ConnectionAttempt], str | None] | None = None,
) -> Look:
    """Return a look that measures each effect.

    What was shown once is not measured again. With ``done``, it measures only the effects that this
    fault itself brought about.
    """
    by_name = {str(effect.link): effect for effect in intended(injection, OnLink)}
    shown: dict[str, object] = {}

    def there(name: str) -> ConnectionAttempt | None:
        return way(injection.cluster, by_name[name].link, by_name[name].service)

    def reason(name: str) -> str | None:
        effect, through = by_name[name], there(name)
        if name in shown:
            return None
        if done and effect not in injection.done():
            return WAS_ON
        why = why_untried(injection, effect.link, through)
        if why is None and through is not None and why_not is not None:
            why = why_not(effect, through)
        return why

    def measured(name: str) -> Seen:
        through = there(name)
        assert through is not None, "else there is a reason not to"
        return seen(by_name[name], through)

    def look() -> Observation:
        reasons = {name: reason(name) for name in by_name}
        waiting = [name for name in by_name if name not in shown and not reasons[name]]
        results = each(waiting, measured)
        shown.update({name: what for name, (true, what) in results.items() if true})
        known: Mapping[str, Seen] = {**results, **{n: (True, what) for n, what in shown.items()}}
        return observe(claim, by_name, lambda name: known[name], lambda name: reasons[name])

    return look


def _tries(cluster: Cluster, there: ConnectionAttempt, count: int) -> int:
    return cluster.backend.links.tries(*nodes(cluster, there), there.port, count, TRY_WITHIN_S)


def _directions(effects: Sequence[OnLink], link: Link) -> int:
    return sum(effect.link in (link, link.back) for effect in effects)


def _round_trip_ms(cluster: Cluster, there: ConnectionAttempt) -> tuple[float, float]:
    """Return the round-trip time of the way, and that of its target with itself.

    Each is the median of several, or infinite where none succeeds.
    """
    source, target = nodes(cluster, there)
    links = cluster.backend.links
    taken = links.connecting_ms(source, target, there.port, _TIMES)
    itself = links.connecting_ms(target, target, there.port, _TIMES)
    return median(taken or [math.inf]), median(itself or [math.inf])
