"""Proofs that a fault took effect and that it is healed: probes, observations and the wait for
them.

Observations of one family alone are in its room.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from ackproof.infra.api.interface import (
    ClusterView,
    Process,
    ProcessState,
    Timings,
    ViewUnavailable,
)
from ackproof.nemesis.effects import CLIENT, DISK, PROCESS, concerns_session
from ackproof.nemesis.interface import (
    Cluster,
    Effect,
    Injection,
    Look,
    Observation,
    Proof,
    Resource,
    majority,
)

# --- probes ---------------------------------------------------------------------------------------
#
# Another fault that is on does not upset a proof. A subject that another open fault accounts for is
# left out, and the report says so. Two examples follow. With a broker killed by one fault, no link
# to it shows whether another one cut it. With ZooKeeper stopped, no registration expires.

Seen = tuple[bool, object]
"""Whether the claim is true of a subject, and what was seen of it."""

E = TypeVar("E", bound=Effect)

_NO_ANSWER = "the metadata cannot be read"


def targeted(injection: Injection, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that the fault strikes."""
    return [name for name in names if name in injection.target.servers]


def sessions_at_stake(injection: Injection) -> Sequence[str]:
    """Return the brokers that the fault strikes, or all brokers if it strikes ZooKeeper's
    processes."""
    members = injection.cluster.members
    by_zookeeper = targeted(injection, members.zookeepers)
    return members.brokers if by_zookeeper else targeted(injection, members.brokers)


def lost_quorums(injection: Injection) -> Sequence[Sequence[str]]:
    """Return the servers that keep the metadata, and are no quorum without those that the fault
    strikes; both ensembles of a cluster that migrates are looked at."""
    return [
        keepers
        for keepers in injection.cluster.members.ensembles
        if len(keepers) - len(targeted(injection, keepers)) < majority(len(keepers))
    ]


def takes_the_quorum(injection: Injection) -> bool:
    """Return whether the fault leaves no quorum of servers that keep the metadata."""
    return not injection.cluster.members.zookeepers or bool(lost_quorums(injection))


def sessions_before(injection: Injection) -> Mapping[int, str]:
    """Return the session that held each broker's registration when the fault struck, in
    hexadecimal, by broker id.

    The result is empty where ZooKeeper did not answer then.
    """
    before = injection.target.facts.get("sessions")
    known = before.items() if isinstance(before, dict) else ()
    return {int(broker): held for broker, held in known}


def struck(injection: Injection, kind: type[Effect]) -> tuple[set[str], Sequence[str]]:
    """Return the servers or clients on which this fault has had an effect of that kind, and those
    it planned for."""

    def of(effects: Sequence[Effect]) -> list[str]:
        return [name for e in effects if isinstance(e, kind) for name in e.resource.at]

    return set(of(injection.done())), of(injection.plan.effects)


def intended(injection: Injection, kind: type[E]) -> list[E]:
    """Return the planned effects of that kind, in their order."""
    return [effect for effect in injection.plan.effects if isinstance(effect, kind)]


def unless(done: Iterable[str], otherwise: str) -> Callable[[str], str | None]:
    """Return a function that says why a subject is not looked at.

    The reason is ``otherwise`` where this fault has not struck the subject.
    """
    return lambda subject: None if subject in done else otherwise


def observe(
    claim: str,
    subjects: Iterable[str],
    seen: Callable[[str], Seen],
    why_not: Callable[[str], str | None],
    *,
    owed: bool = False,
) -> Observation:
    """Look at every subject that nothing else accounts for."""
    left_out = {subject: why for subject in subjects if (why := why_not(subject))}
    looked = {subject: seen(subject) for subject in subjects if subject not in left_out}
    return Observation(
        claim=claim,
        seen={subject: what for subject, (_true, what) in looked.items()},
        missing=tuple(subject for subject, (true, _what) in looked.items() if not true),
        left_out=left_out,
        owed=owed,
    )


def in_state(cluster: Cluster, wanted: str) -> Callable[[str], Seen]:
    """Return a probe of whether a server's process is in a state, a value of
    ``infra.api.interface.ProcessState``."""
    return in_one_of(lambda server: cluster.server(server).process, wanted)


def in_one_of(process: Callable[[str], Process], *wanted: str) -> Callable[[str], Seen]:
    """Return a probe of whether the process of that name is in one of these states."""

    def seen(name: str) -> Seen:
        state = process(name).state()
        return state in map(ProcessState, wanted), state.value

    return seen


def of_brokers(
    injection: Injection,
    claim: str,
    brokers: Sequence[str],
    seen: Callable[[ClusterView, int], Seen],
    *,
    needs_the_others: bool = False,
    owed: bool = False,
) -> Look:
    """Return a look at what ZooKeeper says of each broker, by its id.

    Args:
        injection: The fault that is proven or healed.
        claim: The claim, in words.
        brokers: The names of the brokers.
        seen: Decides whether the claim is true of a broker.
        needs_the_others: Whether some other broker, a controller or a new leader, must make it
            true. A fault on any of them then accounts for it.
        owed: See :class:`nemesis.interface.Observation`. It does not count while ZooKeeper itself
            does not answer.
    """

    def why_not(broker: str) -> str | None:
        return of_any_session(injection) if needs_the_others else of_session(injection, broker)

    def look() -> Observation:
        try:
            view = injection.cluster.system.view() if brokers else None
        except ViewUnavailable:
            view = None

        def of_one(broker: str) -> Seen:
            if view is None:
                return False, _NO_ANSWER
            return seen(view, injection.cluster.server(broker).id)

        return observe(claim, brokers, of_one, why_not, owed=owed and view is not None)

    return look


# --- what others account for -------------------------------------------------------------------


def accounted(injection: Injection, concerns: Callable[[Resource], bool]) -> str | None:
    """Return which other faults are on that hold such a resource, in words, or None if there is
    none."""
    labels = dict.fromkeys(o.label for o in injection.others() if concerns(o.effect.resource))
    return f"{', '.join(labels)} is active" if labels else None


def held(injection: Injection, resource: Resource) -> str | None:
    """Return which other faults hold that very resource."""
    return accounted(injection, lambda other: other == resource)


def of_process(injection: Injection, server: str) -> str | None:
    """Return which other faults strike the server's process."""
    return held(injection, Resource(PROCESS, (server,)))


def of_client(injection: Injection, client: str) -> str | None:
    """Return which other faults strike the client's process."""
    return held(injection, Resource(CLIENT, (client,)))


def of_disk(injection: Injection, server: str) -> str | None:
    """Return which other faults strike what the server keeps."""
    return held(injection, Resource(DISK, (server,)))


def of_session(injection: Injection, broker: str) -> str | None:
    """Return which other faults concern a broker's session."""
    zookeepers = injection.cluster.members.zookeepers
    return accounted(injection, lambda what: concerns_session(what, broker, zookeepers))


def of_any_session(injection: Injection) -> str | None:
    """Return which other faults concern the session of any broker."""
    members = injection.cluster.members
    reasons = (of_session(injection, broker) for broker in members.brokers)
    return next((reason for reason in reasons if reason), None)


# --- observations ---------------------------------------------------------------------------------


def running(injection: Injection, servers: Iterable[str]) -> Look:
    """Return a look at whether the processes run, neither stopped nor gone."""
    return lambda: observe(
        "running",
        servers,
        in_state(injection.cluster, "running"),
        lambda server: of_process(injection, server),
    )


def expired(injection: Injection, brokers: Sequence[str]) -> Look:
    """Return a look at whether ZooKeeper has expired the session that held the broker's
    registration."""

    def seen(view: ClusterView, broker: int) -> Seen:
        return broker not in view.brokers, broker not in view.brokers

    return of_brokers(injection, "registration expired", brokers, seen)


def deposed(injection: Injection, brokers: Sequence[str]) -> Look:
    """Return a look at whether ZooKeeper names the broker as leader of no partition."""

    def seen(view: ClusterView, broker: int) -> Seen:
        leads = [f"{t}-{n}" for (t, n), p in sorted(view.partitions.items()) if p.leader == broker]
        return not leads, leads

    return of_brokers(injection, "leads nothing", brokers, seen, needs_the_others=True)


def registered(injection: Injection, brokers: Sequence[str], renewed: Iterable[str] = ()) -> Look:
    """Return a look at whether the brokers hold their registrations in ``/brokers/ids``.

    Those in ``renewed`` must hold them by another session than when the fault struck. A broker that
    was killed and restarted within its session timeout is still registered by the dead process.
    That registration vanishes when the session expires. Of a server that was not deployed here, no
    session is known.
    """
    before = sessions_before(injection)
    servers = map(injection.cluster.server, renewed)
    of_the_dead = {server.id for server in servers if server.distant is None}

    def seen(view: ClusterView, broker: int) -> Seen:
        holder = view.brokers.get(broker)
        if holder in injection.cluster.system.ensemble.ours:
            return False, "by a session of the harness's"
        old = broker in of_the_dead and holder is not None and hex(holder) == before.get(broker)
        return holder is not None and not old, "by the session that died" if old else bool(holder)

    return of_brokers(injection, "registered", brokers, seen, owed=True)


def zookeeper_silent(injection: Injection, lost: Sequence[Sequence[str]] | None = None) -> Look:
    """Return a look at whether ZooKeeper, or KRaft's controllers, answer no request and no server
    of theirs leads.

    A connection of ours to a server that was stopped is silent at once. The servers that are left
    go on answering others until they have noticed that they are no quorum.

    In a cluster that migrates, the other servers may answer. There the look is at whether any
    server of the ``lost`` quorums leads; None for those that the target takes.
    """
    if injection.cluster.members.migrates:
        silent = lost_quorums(injection) if lost is None else lost
        return _leaderless(injection, [name for keepers in silent for name in keepers])
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


def _leaderless(injection: Injection, keepers: Sequence[str]) -> Look:
    def look() -> Observation:
        modes = injection.cluster.system.ensemble.modes()
        leads = {name: modes.get(name) in ("leader", "standalone") for name in keepers}
        return observe(
            "leads no quorum",
            keepers,
            lambda name: (not leads[name], modes.get(name, "does not serve")),
            lambda _name: None,
        )

    return look


def serving(injection: Injection, zookeepers: Sequence[str]) -> Look:
    """Return a look at whether the ZooKeeper servers have their place in the ensemble, and
    name it."""

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
    """Return a look at which registrations another session holds than when the fault struck.

    It claims nothing.
    """

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


# --- the wait for a proof -------------------------------------------------------------------------

_POLL_S = 0.1


class Waiter(Protocol):
    """A way to wait."""

    def until(self, condition: Callable[[], bool], *, at_most: float, poll: float) -> bool:
        """Wait until ``condition`` holds, at most that many seconds, and return whether it does.

        The condition is evaluated at least once. This may raise when waiting is no longer wanted.
        """


def expiry_ms(timings: Timings) -> int:
    """Return the longest time that ZooKeeper takes to expire the session of a silent client.

    It is the session timeout, rounded up to a tick. A tick is at most half of the shortest timeout
    that ZooKeeper grants (minSessionTimeout is 2 ticks).
    """
    timeout = timings.zookeeper_session_timeout_ms
    return timeout + timeout // 2


def shrink_ms(timings: Timings) -> int:
    """Return the longest time that a leader takes to drop a silent follower from the ISR.

    It looks every half of ``replica.lag.time.max.ms``.
    """
    lag = timings.replica_lag_time_max_ms
    return lag + lag // 2


def noticed_ms(timings: Timings) -> int:
    """Return the time within which the cluster has noticed a server that is dead or lags."""
    return max(expiry_ms(timings), shrink_ms(timings))


def prove(
    looks: Sequence[Look],
    waiting: Waiter,
    timeout: float,
    *,
    by_itself: bool,
    struck: bool = True,
    meanwhile: Callable[[], None] = lambda: None,
) -> Proof:
    """Look until nothing is missing, at most ``timeout`` seconds; the last looks count.

    Args:
        looks: The looks to take.
        waiting: How to wait between them.
        timeout: The time limit, in seconds.
        by_itself: Whether the first look must have seen something. Killing a broker that another
            fault had killed leaves nothing missing, because everything is left out: it has shown
            nothing.
        struck: Whether the fault has done anything. If so, this also waits for what the first look
            leaves out because of another fault. Example: a topic that is deleted while a broker is
            down is gone when that broker is back. If not, nothing will ever be seen.
        meanwhile: Called before each look; its errors are raised.
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
    """Return one key for each claim, then what is missing and what was not looked at, if
    anything."""
    words: dict[str, object] = {one.claim: dict(one.seen) for one in observations if one.seen}
    missing = {one.claim: list(one.missing) for one in observations if one.missing}
    left_out = {one.claim: dict(one.left_out) for one in observations if one.left_out}
    if missing:
        words["missing"] = missing
    if left_out:
        words["not observed"] = left_out
    return words
