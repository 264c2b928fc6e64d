"""Observations of links: new connections tried from inside, and what the kernel has counted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ackproof.infra.api.interface import ProcessState
from ackproof.nemesis.effects import LINK, PROCESS
from ackproof.nemesis.interface import Injection, Link, Look, Observation, Resource
from ackproof.nemesis.network.effects import OnLink
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
