"""What proofs are composed of: one small observation each (``nemesis.proofs.looking`` says how)."""

from collections.abc import Iterable, Sequence

from ackproof.infra.api.interface import ClusterView, ViewUnavailable
from ackproof.nemesis.interface import Injection, Look, Observation
from ackproof.nemesis.proofs.looking import (
    Seen,
    in_state,
    observe,
    of_brokers,
    of_process,
    of_session,
    sessions_before,
)


def running(injection: Injection, servers: Iterable[str]) -> Look:
    """The processes run: neither stopped nor gone."""
    return lambda: observe(
        "running",
        servers,
        in_state(injection.cluster, "running"),
        lambda server: of_process(injection, server),
    )


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
    before = sessions_before(injection)
    of_the_dead = {injection.cluster.server(name).id for name in anew}

    def seen(view: ClusterView, broker: int) -> Seen:
        holder = view.brokers.get(broker)
        if holder in injection.cluster.system.ensemble.ours:
            return False, "by a session of the harness's"
        old = broker in of_the_dead and holder is not None and hex(holder) == before.get(broker)
        return holder is not None and not old, "by the session that died" if old else bool(holder)

    return of_brokers(injection, "registered", brokers, seen, owed=True)


def zookeeper_silent(injection: Injection) -> Look:
    """Nobody is answered by ZooKeeper, or by KRaft's controllers, and no server of theirs leads. A
    connection of ours to a server that was stopped is silent at once; what is left of them goes on
    answering others until it has noticed that it is no quorum."""
    claim = "controllers" if injection.cluster.members.kraft else "ZooKeeper"

    def seen(_subject: str) -> Seen:
        system = injection.cluster.system
        try:
            system.view()
        except ViewUnavailable as silence:
            leader = system.zookeeper_leader()
            return leader is None, str(silence) if leader is None else f"{leader.name} leads"
        return False, "answers"

    return lambda: observe(claim, ["ensemble"], seen, lambda _subject: None)


def serving(injection: Injection, zookeepers: Sequence[str]) -> Look:
    """The ZooKeeper servers have their place in the ensemble, and say which one."""

    def look() -> Observation:
        modes = injection.cluster.system.ensemble.modes() if zookeepers else {}
        return observe(
            "serving",
            zookeepers,
            lambda server: (server in modes, modes.get(server, "does not serve")),
            lambda server: of_session(injection, server),
        )

    return look


def sessions_lost(injection: Injection, brokers: Sequence[str]) -> Look:
    """Which registrations are held by another session than when the fault struck. Claims
    nothing."""

    def look() -> Observation:
        before = sessions_before(injection)
        try:
            after = injection.cluster.system.view().brokers
        except ViewUnavailable:
            return Observation(claim="sessions lost", seen={})
        ids = {name: injection.cluster.server(name).id for name in brokers}
        lost = {
            name: True
            for name, number in ids.items()
            if before and number in after and before.get(number) != hex(after[number])
        }
        return Observation(claim="sessions lost", seen=lost)

    return look
