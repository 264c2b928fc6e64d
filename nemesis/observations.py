"""What proofs are composed of: one small observation each, and what other faults account for.

A proof is not upset by another fault that is on. A subject for which another open fault accounts is
left out, and said to be: with a broker killed by one fault, no link to it tells whether another one
cut it; with ZooKeeper stopped, no registration expires.
"""

import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from infra.interface import ClusterView, ProcessState, ViewUnavailable
from nemesis.effects import LINK, PROCESS, Kill, Stop
from nemesis.interface import Cluster, Injection, Link, Look, Observation, Resource

Seen = tuple[bool, object]
"""Whether the claim is true of a subject, and what was seen of it."""

_PROBES_AT_ONCE = 8
_NO_ANSWER = "ZooKeeper does not answer"


def killed(injection: Injection) -> Look:
    """Signal 9 ended the processes that this fault sent it to, as the kernel tells."""
    cluster = injection.cluster

    def seen(server: str) -> Seen:
        code = cluster.server(server).process.exit_code()
        return code == -signal.SIGKILL, code

    def look() -> Observation:
        done = {e.server for e in injection.done() if isinstance(e, Kill)}
        planned = [e.server for e in injection.plan.effects if isinstance(e, Kill)]
        return _observe("ended by signal 9", planned, seen, _unless(done, "was down already"))

    return look


def stopped(injection: Injection) -> Look:
    """The kernel says state T of the processes that this fault stopped."""

    def look() -> Observation:
        done = {e.server for e in injection.done() if isinstance(e, Stop)}
        planned = [e.server for e in injection.plan.effects if isinstance(e, Stop)]

        def why_not(server: str) -> str | None:
            return _unless(done, "was not running")(server) or _process(injection, server)

        return _observe("stopped", planned, _state(injection.cluster, "stopped"), why_not)

    return look


def running(injection: Injection, servers: Iterable[str]) -> Look:
    """The processes run: neither stopped nor gone."""
    return lambda: _observe(
        "running",
        servers,
        _state(injection.cluster, "running"),
        lambda server: _process(injection, server),
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

    return _of_brokers(injection, "registration expired", brokers, seen)


def deposed(injection: Injection, brokers: Sequence[str]) -> Look:
    """ZooKeeper says of no partition that the broker leads it."""

    def seen(view: ClusterView, broker: int) -> Seen:
        leads = [f"{t}-{n}" for (t, n), p in sorted(view.partitions.items()) if p.leader == broker]
        return not leads, leads

    return _of_brokers(injection, "leads nothing", brokers, seen, needs_the_others=True)


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

    return _of_brokers(injection, "registered", brokers, seen)


def zookeeper_silent(injection: Injection) -> Look:
    """ZooKeeper answers nobody."""

    def seen(_subject: str) -> Seen:
        try:
            injection.cluster.system.view()
        except ViewUnavailable as silence:
            return True, str(silence)
        return False, "answers"

    return lambda: _observe("ZooKeeper", ["ensemble"], seen, lambda _subject: None)


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


# --- what others account for -------------------------------------------------------------------


def _accounted(injection: Injection, concerns: Callable[[Resource], bool]) -> str | None:
    labels = dict.fromkeys(o.label for o in injection.others() if concerns(o.effect.resource))
    return f"{', '.join(labels)} is on" if labels else None


def _process(injection: Injection, server: str) -> str | None:
    return _accounted(injection, lambda resource: resource == Resource(PROCESS, (server,)))


def _connection(injection: Injection, link: Link) -> str | None:
    """Either direction of the link, or a process at one of its ends: TCP needs all of them."""
    ends = {link.source, link.target}

    def concerns(resource: Resource) -> bool:
        return set(resource.at) <= ends and resource.kind in (PROCESS, LINK)

    return _accounted(injection, concerns)


def _session(injection: Injection, broker: str) -> str | None:
    """Whatever keeps a broker's session from ending, or from beginning, as it would otherwise: the
    broker's process, its links to ZooKeeper, ZooKeeper itself."""
    zookeepers = set(injection.cluster.members.zookeepers)

    def concerns(resource: Resource) -> bool:
        rest = set(resource.at) - zookeepers
        return rest == {broker} or not rest

    return _accounted(injection, concerns)


def _any_session(injection: Injection) -> str | None:
    members = injection.cluster.members
    reasons = (_session(injection, broker) for broker in members.brokers)
    return next((reason for reason in reasons if reason), None)


# --- looking -----------------------------------------------------------------------------------


def _unless(done: Iterable[str], otherwise: str) -> Callable[[str], str | None]:
    return lambda subject: None if subject in done else otherwise


def _observe(
    claim: str,
    subjects: Iterable[str],
    seen: Callable[[str], Seen],
    why_not: Callable[[str], str | None],
) -> Observation:
    """Look at every subject for which nothing else accounts."""
    left_out = {subject: why for subject in subjects if (why := why_not(subject))}
    looked = {subject: seen(subject) for subject in subjects if subject not in left_out}
    return Observation(
        claim=claim,
        seen={subject: what for subject, (_true, what) in looked.items()},
        missing=tuple(subject for subject, (true, _what) in looked.items() if not true),
        left_out=left_out,
    )


def _state(cluster: Cluster, wanted: str) -> Callable[[str], Seen]:
    def seen(server: str) -> Seen:
        state = cluster.server(server).process.state()
        return state is ProcessState(wanted), state.value

    return seen


def _of_brokers(
    injection: Injection,
    claim: str,
    brokers: Sequence[str],
    seen: Callable[[ClusterView, int], Seen],
    *,
    needs_the_others: bool = False,
) -> Look:
    """``needs_the_others``: it takes some other broker to make it true, a controller or a new
    leader, so that a fault on any of them accounts for it."""

    def why_not(broker: str) -> str | None:
        return _any_session(injection) if needs_the_others else _session(injection, broker)

    def look() -> Observation:
        try:
            view = injection.cluster.system.view() if brokers else None
        except ViewUnavailable:
            view = None

        def of_one(broker: str) -> Seen:
            if view is None:
                return False, _NO_ANSWER
            return seen(view, injection.cluster.server(broker).id)

        return _observe(claim, brokers, of_one, why_not)

    return look


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
        return _observe(claim, by_name, lambda name: (name in shown, words[name in shown]), why_not)

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
