"""What proofs are composed of: one small observation each (``nemesis.looking`` says how)."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from infra.interface import ClusterView, ProcessState, ViewUnavailable
from nemesis.effects import LINK, PROCESS
from nemesis.interface import Cluster, Injection, Link, Look, Observation, Resource
from nemesis.looking import Seen, accounted, in_state, observe, of_brokers, of_process

_PROBES_AT_ONCE = 8


def running(injection: Injection, servers: Iterable[str]) -> Look:
    """The processes run: neither stopped nor gone."""
    return lambda: observe(
        "running",
        servers,
        in_state(injection.cluster, "running"),
        lambda server: of_process(injection, server),
    )


def closed(injection: Injection, links: Sequence[Link]) -> Look:
    """No new connection over any of the links, tried from inside."""
    return _probing(injection, "links closed", links, wanted=False)


def opened(injection: Injection, links: Sequence[Link], claim: str) -> Look:
    """A new connection over every one of the links, tried from inside."""
    return _probing(injection, claim, links, wanted=True)


def expired(injection: Injection, brokers: Sequence[str]) -> Look:
    """ZooKeeper has expired the session that held the broker's registration."""

    def seen(view: ClusterView, broker: int) -> Seen:
        return broker not in view.brokers, broker not in view.brokers

    return of_brokers(injection, "registration expired", brokers, seen)


def deposed(injection: Injection, brokers: Sequence[str]) -> Look:
    """ZooKeeper says of no partition that the broker leads it."""

    def seen(view: ClusterView, broker: int) -> Seen:
        leads = [f"{t}-{n}" for (t, n), p in sorted(view.partitions.items()) if p.leader == broker]
        return not leads, leads

    return of_brokers(injection, "leads nothing", brokers, seen, needs_the_others=True)


def registered(injection: Injection, brokers: Sequence[str], anew: Iterable[str] = ()) -> Look:
    """The brokers hold their registrations in ``/brokers/ids``.

    Those in ``anew`` by another session than when the fault struck: a broker that was killed and
    started again within its session timeout is still registered by the one that died, and will
    vanish when that expires.
    """
    before = injection.target.facts.get("sessions")
    sessions = before if isinstance(before, dict) else {}
    of_the_dead = {injection.cluster.server(name).id for name in anew}

    def seen(view: ClusterView, broker: int) -> Seen:
        holder = view.brokers.get(broker)
        old = (
            broker in of_the_dead
            and holder is not None
            and hex(holder) == sessions.get(str(broker))
        )
        return holder is not None and not old, "by the session that died" if old else bool(holder)

    return of_brokers(injection, "registered", brokers, seen)


def zookeeper_silent(injection: Injection) -> Look:
    """ZooKeeper answers nobody."""

    def seen(_subject: str) -> Seen:
        try:
            injection.cluster.system.view()
        except ViewUnavailable as silence:
            return True, str(silence)
        return False, "answers"

    return lambda: observe("ZooKeeper", ["ensemble"], seen, lambda _subject: None)


def sessions_lost(injection: Injection, brokers: Sequence[str]) -> Look:
    """Which registrations are held by another session than when the fault struck. Claims
    nothing."""

    def look() -> Observation:
        before = injection.target.facts.get("sessions")
        try:
            after = injection.cluster.system.view().brokers
        except ViewUnavailable:
            return Observation(claim="sessions lost", seen={})
        ids = {name: injection.cluster.server(name).id for name in brokers}
        lost = {
            name: True
            for name, number in ids.items()
            if isinstance(before, dict)
            and number in after
            and before.get(str(number)) != hex(after[number])
        }
        return Observation(claim="sessions lost", seen=lost)

    return look


# --- links -------------------------------------------------------------------------------------


def _connection(injection: Injection, link: Link) -> str | None:
    """Either direction of the link, or a process at one of its ends: TCP needs all of them."""
    ends = {link.source, link.target}

    def concerns(resource: Resource) -> bool:
        return set(resource.at) <= ends and resource.kind in (PROCESS, LINK)

    return accounted(injection, concerns)


def _probing(injection: Injection, claim: str, links: Sequence[Link], *, wanted: bool) -> Look:
    """A link once seen as wanted is not tried again: trying a closed one takes a second."""
    by_name = {str(link): link for link in links}
    words = {True: "open" if wanted else "closed", False: "closed" if wanted else "open"}
    shown: set[str] = set()

    def why_not(name: str) -> str | None:
        if name in shown:
            return None
        return _deaf(injection.cluster, by_name[name]) or _connection(injection, by_name[name])

    def look() -> Observation:
        waiting = [name for name in by_name if name not in shown and not why_not(name)]
        with ThreadPoolExecutor(max_workers=_PROBES_AT_ONCE) as pool:
            reached = pool.map(lambda name: _reaches(injection.cluster, by_name[name]), waiting)
        shown.update(
            name for name, is_open in zip(waiting, reached, strict=True) if is_open is wanted
        )
        return observe(claim, by_name, lambda name: (name in shown, words[name in shown]), why_not)

    return look


def _deaf(cluster: Cluster, link: Link) -> str | None:
    """Why no connection can be tried. A server that has ended refuses them, whether its links are
    cut or not: a broker that died by itself would prove every cut around it."""
    way = _listener(cluster, link)
    if way is None:
        return "nobody listens at either end"
    ended = cluster.server(way.target).process.state() is ProcessState.EXITED
    return f"{way.target} is down" if ended else None


def _listener(cluster: Cluster, link: Link) -> Link | None:
    """The link in the direction in which a connection can be tried: to where a server listens. A
    connection needs both directions, so that either one tells."""
    servers = cluster.members.servers
    return next((way for way in (link, link.back) if way.target in servers), None)


def _reaches(cluster: Cluster, link: Link) -> bool:
    way = _listener(cluster, link)
    assert way is not None
    return cluster.backend.reaches(
        cluster.node(way.source), cluster.node(way.target), cluster.server(way.target).port
    )
