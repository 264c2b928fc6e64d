"""Observations of the processes that a fault strikes, and of what they leave behind."""

import signal
from collections.abc import Callable, Iterator

from ackproof.infra.api.interface import Process, ViewUnavailable
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import (
    ClientCrash,
    EmptiedDisk,
    ProcessKill,
    ProcessStop,
    StopClient,
    Terminate,
)
from ackproof.nemesis.interface import Cluster, Effect, Injection, Look, Observation
from ackproof.nemesis.proofs import (
    Seen,
    in_one_of,
    in_state,
    intended,
    observe,
    of_brokers,
    of_client,
    of_process,
    of_session,
    sessions_at_stake,
    sessions_before,
    struck,
    takes_the_quorum,
    targeted,
    unless,
)

_BY_ITSELF = (0, 128 + signal.SIGTERM)
"""The statuses with which a process ends that was asked to: the JVM returns the signal's number,
once its hooks are done."""


def killed(injection: Injection) -> Look:
    """Return a look at whether signal 9 ended the processes that this fault sent it to, by the
    kernel's word."""

    cluster = injection.cluster
    return _killed(
        injection, ProcessKill, lambda name: cluster.server(name).process, "was already down"
    )


def terminated(injection: Injection) -> Look:
    """Return a look at whether the processes that this fault asked to end have done so by
    themselves.

    The kernel's word on their status decides. A process that could no longer do so (killed, or
    never listening) was not terminated.
    """

    def seen(server: str) -> Seen:
        code = injection.cluster.server(server).process.exit_code()
        return code in _BY_ITSELF, "runs on" if code is None else code

    def look() -> Observation:
        done, planned = struck(injection, Terminate)
        claim = "ended by itself after SIGTERM, status"
        return observe(claim, planned, seen, unless(done, "was already down"))

    return look


def session_closed(injection: Injection) -> Look:
    """Return a look at whether the brokers that this fault asked to end have ended their sessions.

    The sessions of their registrations must be gone without having expired in ZooKeeper.
    """
    before = sessions_before(injection)

    def session(broker: str) -> str | None:
        return before.get(injection.cluster.server(broker).id)

    def why_not(broker: str) -> str | None:
        unregistered = None if session(broker) else "was not registered"
        done, _ = struck(injection, Terminate)
        return (
            unless(done, "was already down")(broker)
            or unregistered
            or of_session(injection, broker)
        )

    def look() -> Observation:
        brokers = targeted(injection, injection.cluster.members.brokers)
        try:
            held = set(map(hex, injection.cluster.system.view().brokers.values()))
            expired = set(map(hex, injection.cluster.system.expired_sessions()))
        except ViewUnavailable as silence:
            unknown = str(silence)
            return observe("session closed", brokers, lambda _: (False, unknown), why_not)

        def seen(broker: str) -> Seen:
            mine = session(broker)
            word = "held" if mine in held else "expired" if mine in expired else "closed"
            return word == "closed", word

        return observe("session closed", brokers, seen, why_not)

    return look


def crashed(injection: Injection) -> Look:
    """Return a look at whether signal 9 ended the clients that this fault sent it to, by the
    kernel's word."""
    return _killed(injection, ClientCrash, _of_client(injection), "had already ended")


def replaced(injection: Injection) -> Look:
    """Return a look at the clients that replace those that this fault crashed and that come back.

    In the place of each there must be another client, and it must have begun. A client that only
    starts would not yet hear a request to end.
    """

    def seen(name: str) -> Seen:
        mine = (one for one in injection.cluster.workload() if one.instead_of == name)
        came = next(mine, None)
        if came is None:
            return False, "no replacement"
        return came.begun, f"{came.name} {'has begun' if came.begun else 'starts'}"

    def look() -> Observation:
        gone = [e for e in injection.done() if isinstance(e, ClientCrash) and e.comes_back]
        return observe("come back", [effect.client for effect in gone], seen, lambda _: None)

    return look


def stopped(injection: Injection) -> Look:
    """Return a look at whether the kernel reports state T for the processes that this fault
    stopped."""

    def look() -> Observation:
        done, planned = struck(injection, ProcessStop)

        def why_not(server: str) -> str | None:
            return unless(done, "was not running")(server) or of_process(injection, server)

        return observe("stopped", planned, in_state(injection.cluster, "stopped"), why_not)

    return look


def client_stopped(injection: Injection) -> Look:
    """Return a look at whether the kernel reports state T for the clients that this fault
    stopped."""

    def look() -> Observation:
        done, planned = struck(injection, StopClient)

        def why_not(client: str) -> str | None:
            return unless(done, "was not running")(client) or of_client(injection, client)

        return observe("stopped", planned, in_one_of(_of_client(injection), "stopped"), why_not)

    return look


def client_goes_on(injection: Injection) -> Look:
    """Return a look at whether none of the clients that this fault stopped is stopped any more.

    The code that looks after clients reports one that has ended meanwhile. Such a client needs no
    healing.
    """

    def look() -> Observation:
        done, _ = struck(injection, StopClient)
        seen = in_one_of(_of_client(injection), "running", "exited")
        return observe("not stopped", sorted(done), seen, lambda name: of_client(injection, name))

    return look


def _of_client(injection: Injection) -> Callable[[str], Process]:
    return lambda name: injection.cluster.client(name).process


def emptied(injection: Injection) -> Look:
    """Return a look at whether the data directories that this fault emptied are empty, by their
    node's word."""
    cluster = injection.cluster

    def seen(server: str) -> Seen:
        broker = cluster.server(server)
        left = sum(map(broker.node.entries, cluster.system.log_directories(broker)))
        return left == 0, left

    def look() -> Observation:
        done, planned = struck(injection, EmptiedDisk)
        return observe("left on the disk", planned, seen, unless(done, "was not changed"))

    return look


def _killed(
    injection: Injection, kind: type[Effect], process: Callable[[str], Process], otherwise: str
) -> Look:
    def seen(name: str) -> Seen:
        code = process(name).exit_code()
        return code == -signal.SIGKILL, code

    def look() -> Observation:
        done, planned = struck(injection, kind)
        return observe("ended by signal 9", planned, seen, unless(done, otherwise))

    return look


# --- servers that were not deployed here ----------------------------------------------------------
#
# It is seen whether they accept connections, whether they answer, and whether the cluster counts
# them in. No observation here shows how a process ended.


_DOWN = "was already down"


def is_seen_from_outside(injection: Injection) -> bool:
    """Return whether the servers that the fault strikes are seen from outside alone."""
    cluster = injection.cluster
    return any(cluster.server(name).distant is not None for name in injection.target.servers)


def looks_at_external_fault(injection: Injection, *, in_full: bool) -> Iterator[Look]:
    """Yield the looks that show the fault.

    ``in_full`` says whether it is held for so long that the cluster counts the brokers out.
    """
    kinds: tuple[type[Effect], ...] = (ProcessKill, Terminate)
    for kind in kinds:
        if intended(injection, kind):
            yield _refuses(injection, kind)
    if intended(injection, ProcessStop):
        yield _silent(injection)
    members = injection.cluster.members
    if in_full and members.zookeepers and takes_the_quorum(injection):
        yield proofs.zookeeper_silent(injection)
    elif in_full:
        yield proofs.expired(injection, targeted(injection, members.brokers))


def looks_at_external_recovery(injection: Injection) -> Iterator[Look]:
    """Yield the looks that show that the servers answer and that the cluster counts them in.

    The servers are asked themselves. No look shows which process a registration belongs to, but a
    broker without one would not answer.
    """
    yield lambda: observe(
        "answers",
        injection.target.servers,
        lambda name: _answers(injection.cluster, name),
        lambda name: of_process(injection, name),
    )
    yield proofs.serving(injection, targeted(injection, injection.cluster.members.zookeepers))
    yield of_brokers(
        injection,
        "counted in",
        sessions_at_stake(injection),
        lambda view, n: (n in view.brokers, n in view.brokers),
    )


def _refuses(injection: Injection, kind: type[Effect]) -> Look:
    def one(name: str) -> Seen:
        distant = injection.cluster.server(name).distant
        accepts = distant is None or distant.accepts()
        return not accepts, "accepts" if accepts else "refuses"

    def look() -> Observation:
        done, planned = struck(injection, kind)
        return observe("refuses connections", planned, one, unless(done, _DOWN))

    return look


def _silent(injection: Injection) -> Look:
    def one(name: str) -> Seen:
        answers, word = _answers(injection.cluster, name)
        return not answers, word

    def look() -> Observation:
        done, planned = struck(injection, ProcessStop)
        return observe("does not answer", planned, one, unless(done, _DOWN))

    return look


def _answers(cluster: Cluster, name: str) -> Seen:
    distant = cluster.server(name).distant
    answers = distant is not None and distant.answers()
    return answers, "answers" if answers else "silent"
