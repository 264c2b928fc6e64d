"""How observations are made, and what other faults account for.

A proof is not upset by another fault that is on. A subject for which another open fault accounts is
left out, and said to be: with a broker killed by one fault, no link to it tells whether another one
cut it; with ZooKeeper stopped, no registration expires.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ackproof.infra.api.interface import ClusterView, Process, ProcessState, ViewUnavailable
from ackproof.nemesis.effects import CLIENT, DISK, PROCESS, concerns_session
from ackproof.nemesis.interface import (
    Cluster,
    Effect,
    Injection,
    Look,
    Observation,
    Resource,
    majority,
)

Seen = tuple[bool, object]
"""Whether the claim is true of a subject, and what was seen of it."""

E = TypeVar("E", bound=Effect)

_NO_ANSWER = "the metadata cannot be read"


def targeted(injection: Injection, names: Iterable[str]) -> list[str]:
    """Those of ``names`` that the fault befalls."""
    return [name for name in names if name in injection.target.servers]


def sessions_at_stake(injection: Injection) -> Sequence[str]:
    """The brokers that it befalls; with ZooKeeper's processes it is every broker's session."""
    members = injection.cluster.members
    by_zookeeper = targeted(injection, members.zookeepers)
    return members.brokers if by_zookeeper else targeted(injection, members.brokers)


def takes_the_quorum(injection: Injection) -> bool:
    """Whether those that keep the metadata are no quorum without the servers that it befalls."""
    keepers = injection.cluster.members.zookeepers
    left = len(keepers) - len(targeted(injection, keepers))
    return left < majority(len(keepers))


def sessions_before(injection: Injection) -> Mapping[int, str]:
    """By which session each broker was registered when the fault struck, in hexadecimal, by id;
    none where ZooKeeper did not answer then."""
    before = injection.target.facts.get("sessions")
    known = before.items() if isinstance(before, dict) else ()
    return {int(broker): held for broker, held in known}


def struck(injection: Injection, kind: type[Effect]) -> tuple[set[str], Sequence[str]]:
    """The servers or clients to which this fault has done an effect of that kind, and those to
    which it meant to."""

    def of(effects: Sequence[Effect]) -> list[str]:
        return [name for e in effects if isinstance(e, kind) for name in e.resource.at]

    return set(of(injection.done())), of(injection.plan.effects)


def intended(injection: Injection, kind: type[E]) -> list[E]:
    """The effects of that kind that the fault was to have, in their order."""
    return [effect for effect in injection.plan.effects if isinstance(effect, kind)]


def unless(done: Iterable[str], otherwise: str) -> Callable[[str], str | None]:
    """Why a subject is not looked at: ``otherwise``, where this fault has not done it."""
    return lambda subject: None if subject in done else otherwise


def observe(
    claim: str,
    subjects: Iterable[str],
    seen: Callable[[str], Seen],
    why_not: Callable[[str], str | None],
    *,
    owed: bool = False,
) -> Observation:
    """Look at every subject for which nothing else accounts."""
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
    """Whether a server's process is in a state, a value of ``infra.api.interface.ProcessState``."""
    return in_one_of(lambda server: cluster.server(server).process, wanted)


def in_one_of(process: Callable[[str], Process], *wanted: str) -> Callable[[str], Seen]:
    """Whether the process that goes by a name is in one of these states."""

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
    """What ZooKeeper says of each broker, asked for by its id. ``needs_the_others``: it takes some
    other broker to make it true, a controller or a new leader, so that a fault on any of them
    accounts for it. ``owed``: see :class:`nemesis.interface.Observation`; not while ZooKeeper
    itself does not answer."""

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
    """Which other faults are on that hold such a resource, in words; None where none does."""
    labels = dict.fromkeys(o.label for o in injection.others() if concerns(o.effect.resource))
    return f"{', '.join(labels)} is on" if labels else None


def held(injection: Injection, resource: Resource) -> str | None:
    """Which other faults hold that very resource."""
    return accounted(injection, lambda other: other == resource)


def of_process(injection: Injection, server: str) -> str | None:
    """Whatever else is done to the server's process."""
    return held(injection, Resource(PROCESS, (server,)))


def of_client(injection: Injection, client: str) -> str | None:
    """Whatever else is done to the client's process."""
    return held(injection, Resource(CLIENT, (client,)))


def of_disk(injection: Injection, server: str) -> str | None:
    """Whatever else is done to what the server keeps."""
    return held(injection, Resource(DISK, (server,)))


def of_session(injection: Injection, broker: str) -> str | None:
    """Whatever else concerns a broker's session."""
    zookeepers = injection.cluster.members.zookeepers
    return accounted(injection, lambda what: concerns_session(what, broker, zookeepers))


def of_any_session(injection: Injection) -> str | None:
    """The same for the session of any broker."""
    members = injection.cluster.members
    reasons = (of_session(injection, broker) for broker in members.brokers)
    return next((reason for reason in reasons if reason), None)
