"""Observations of links: new connections tried from inside, and what the kernel has counted."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import TypeVar

from ackproof.infra.api.interface import ProcessState
from ackproof.nemesis.effects import LINK, PROCESS
from ackproof.nemesis.interface import Cluster, Injection, Link, Look, Observation, Resource
from ackproof.nemesis.network.effects import OnLink, held_name
from ackproof.nemesis.network.services import ConnectionAttempt, Service, nodes, other_way, way
from ackproof.nemesis.proofs import Seen, accounted, intended, observe

T = TypeVar("T")

_AT_ONCE = 8
WAS_ON = "was already active"
WayOf = Callable[[Link], ConnectionAttempt | None]


def links_of(injection: Injection) -> list[Link]:
    """Return the links that the plan of the fault treats."""
    return [effect.link for effect in intended(injection, OnLink)]


def service_treated(injection: Injection) -> Service | None:
    """Return the service whose packets alone the plan treats, or None for all."""
    return next((effect.service for effect in intended(injection, OnLink)), None)


def closed(injection: Injection, links: Sequence[Link], service: Service | None = None) -> Look:
    """Return a look at whether no new connection succeeds over any of the links, tried from
    inside."""
    ways = _by_service(injection, service)
    return _probing(injection, "links closed", links, ways, wanted=False)


def opened(
    injection: Injection, links: Sequence[Link], claim: str, service: Service | None = None
) -> Look:
    """Return a look at whether a new connection succeeds over each of the links, tried from
    inside."""
    return _probing(injection, claim, links, _by_service(injection, service), wanted=True)


def open_again(injection: Injection) -> Look:
    """Return a look at whether a new connection succeeds over every link that the plan treats."""
    return opened(injection, links_of(injection), "links open", service_treated(injection))


def others_open(injection: Injection, links: Sequence[Link], service: Service) -> Look:
    """Return a look at new connections over the same links to other services."""
    cluster = injection.cluster
    ways = {link: other_way(cluster, link, service) for link in links}
    found = [link for link in links if ways[link] is not None]
    return _probing(injection, "other ports open", found, ways.get, wanted=True)


def packets_hit(injection: Injection, claim: str) -> Look:
    """Return a look at whether the kernel has counted packets that an effect struck since it last
    began."""
    cluster = injection.cluster
    by_name = {str(effect.link): effect for effect in intended(injection, OnLink)}
    planned = {effect.link for effect in by_name.values()}

    def why_not(name: str) -> str | None:
        effect = by_name[name]
        there = way(cluster, effect.link, effect.service)
        if effect not in injection.done():
            return WAS_ON
        if there is not None and there.source != effect.link.source and effect.link.back in planned:
            # The attempt goes the other way, and gets no answer that could be hit here.
            return "tried in the other direction"
        return why_untried(injection, effect.link, there)

    def seen(name: str) -> Seen:
        since = by_name[name].counted(cluster).hit
        return since > 0, since

    return lambda: observe(claim, by_name, seen, why_not)


def silenced(injection: Injection) -> Look:
    """Return a look at whether the connections that were open before the links were cut are silent.
    It is for links that NetworkPolicies cut, because a plug-in may leave open connections alone.

    A connection that has ended shows nothing: its server may have ended it.
    """
    cluster = injection.cluster

    def seen(effect: OnLink, there: ConnectionAttempt) -> Seen:
        if reaches(injection, there):
            return False, "new connections succeed"
        state = cluster.backend.links.held(held_name(effect.link), cluster.node(there.source))
        return state == "silent", state

    return _measuring(injection, "open connections", seen)


def spells(injection: Injection, wanted: int, within: float) -> Look:
    """Return a look at whether each link was seen closed ``wanted`` times, and open in between.

    New connections are tried one after the other, ``within`` seconds each.
    """
    cluster = injection.cluster
    by_name = {str(effect.link): effect for effect in intended(injection, OnLink)}
    counted = dict.fromkeys(by_name, 0)
    last = dict.fromkeys(by_name, True)

    def there(name: str) -> ConnectionAttempt | None:
        return way(cluster, by_name[name].link, by_name[name].service)

    def why_not(name: str) -> str | None:
        return why_untried(injection, by_name[name].link, there(name))

    def probe(name: str) -> bool:
        return reaches(injection, there(name), within)

    def look() -> Observation:
        waiting = [name for name in by_name if not why_not(name)]
        for name, is_open in each(waiting, probe).items():
            counted[name] += last[name] and not is_open
            last[name] = is_open
        return observe(
            "beats seen", by_name, lambda name: (counted[name] >= wanted, counted[name]), why_not
        )

    return look


def why_untried(injection: Injection, link: Link, there: ConnectionAttempt | None) -> str | None:
    """Return why no connection can be tried, or None if it can.

    A server that has ended refuses connections, whether its links are cut or not. Without this
    check a broker that died by itself would prove every cut around it.
    """
    if there is None:
        return "no server listens at either end"
    if injection.cluster.server(there.target).process.state() is ProcessState.EXITED:
        return f"{there.target} is down"
    return of_connection(injection, link)


def of_connection(injection: Injection, link: Link) -> str | None:
    """Return which other faults strike a direction of the link, or a process at one of its ends.

    TCP needs both directions and both processes.
    """
    ends = {link.source, link.target}

    def concerns(resource: Resource) -> bool:
        return set(resource.at) <= ends and resource.kind in (PROCESS, LINK)

    return accounted(injection, concerns)


def reaches(injection: Injection, there: ConnectionAttempt | None, within: float = 1.0) -> bool:
    """Return whether a new connection succeeds."""
    assert there is not None
    cluster = injection.cluster
    return cluster.backend.reaches(*nodes(cluster, there), there.port, within)


def each(names: Iterable[str], probe: Callable[[str], T]) -> Mapping[str, T]:
    """Return what a probe of each name returns, with several under way at once."""
    listed = list(names)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return dict(zip(listed, pool.map(probe, listed), strict=True))


def _by_service(injection: Injection, service: Service | None) -> WayOf:
    return lambda link: way(injection.cluster, link, service)


def _probing(
    injection: Injection, claim: str, links: Sequence[Link], ways: WayOf, *, wanted: bool
) -> Look:
    """Return a look that tries each link until it is once seen as wanted.

    A link is not tried again after that, because trying a closed one takes a second.
    """
    by_name: Mapping[str, Link] = {str(link): link for link in links}
    words = {True: "open" if wanted else "closed", False: "closed" if wanted else "open"}
    shown: set[str] = set()

    def why_not(name: str) -> str | None:
        if name in shown:
            return None
        return why_untried(injection, by_name[name], ways(by_name[name]))

    def look() -> Observation:
        waiting = [name for name in by_name if name not in shown and not why_not(name)]
        tried = each(waiting, lambda name: reaches(injection, ways(by_name[name])))
        shown.update(name for name, is_open in tried.items() if is_open is wanted)
        return observe(claim, by_name, lambda name: (name in shown, words[name in shown]), why_not)

    return look


# --- measurements ---------------------------------------------------------------------------------
#
# It is measured how much is lost, how long it takes, how much goes through, and
# whether an open connection stays open.
#
# The measurements guard against chance and against a busy machine. The kernel must have counted
# packets that the effect struck during the measurement. To measure losses, many connections are
# tried. There are so many that losing none of them, or all, would be next to impossible at the rate
# in question.
#
# Times and rates are compared with those of a node with itself, which no fault strikes. Where these
# are bad, nothing is shown.


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
