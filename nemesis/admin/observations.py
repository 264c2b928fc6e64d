"""Observations of an administrator's orders: in ZooKeeper, and of records by asking their
leader."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ackproof.infra.api.capabilities import AdminTimeout, OrderRefused
from ackproof.infra.api.interface import ClusterView, PartitionView, ViewUnavailable
from ackproof.nemesis.admin.effects import (
    BrokerJoin,
    DeleteBelow,
    DeletedTopic,
    DirectoryMove,
    DirectoryMoveLimit,
    ElectUncleanly,
    GrowTopic,
    LeaderPreference,
    OnPartition,
    RecordDeletion,
    ReplicaMove,
    SetConfig,
    TopicCreation,
    led,
)
from ackproof.nemesis.interface import Injection, Look, Observation
from ackproof.nemesis.proofs import (
    Seen,
    held,
    intended,
    observe,
    of_any_session,
    of_disk,
    of_process,
    struck,
    unless,
)

P = TypeVar("P", bound=OnPartition)

_PROBE_S = 2.0
_GONE = "does not exist"


def moved(injection: Injection) -> Look:
    """Return a look for the replicas to which this fault moved the partitions, all of them in
    sync."""
    return _replicas(injection, "moved to", lambda move: move.to)


def moved_back(injection: Injection) -> Look:
    """Return a look for the partitions' former replicas. Whether these are in sync is checked by
    recovery."""
    return _replicas(injection, "moved back to", lambda move: move.before, back=True)


def preferred_leads(injection: Injection) -> Look:
    """Return a look for a leader that this fault made the preferred broker, and that did not lead
    before."""
    led_before = {str(one): one.leader for one in injection.target.placed}

    def seen(effect: LeaderPreference, view: PartitionView) -> Seen:
        leader = _name(injection, view.leader)
        return leader == effect.to[0] != led_before[effect.name], leader

    return _of_partitions(injection, "led by the preferred", LeaderPreference, seen)


def elected_uncleanly(injection: Injection) -> Look:
    """Return a look for leaders that were neither in the ISR nor eligible (KIP-966) before this
    fault's order."""
    before = {str(one): one for one in injection.target.placed}

    def seen(effect: ElectUncleanly, view: PartitionView) -> Seen:
        leader, was = _name(injection, view.leader), before[effect.name]
        outside = leader is not None and leader not in (*was.isr, *was.elr)
        return outside and view.leader_epoch > was.leader_epoch, leader

    return _of_partitions(injection, "led by one outside the ISR", ElectUncleanly, seen)


def changes_directory(injection: Injection) -> Look:
    """Return a look for the replicas that this fault moves, in the directories that their brokers
    describe. Each lies in its new directory. If the moves are limited, it must still be on its way
    there, as a future replica."""
    limited = bool(intended(injection, DirectoryMoveLimit))

    def seen(move: DirectoryMove, lies: str | None, goes: str | None) -> bool:
        return goes == move.to if limited else lies == move.to

    return _of_directories(injection, "is moving to" if limited else "lies in", seen)


def rests_in_one_directory(injection: Injection) -> Look:
    """Return a look for the replicas that this fault has moved, none of which is on its way any
    more. A broker that loses a disk may have given the move up: the replica then lies where it
    was."""
    return _of_directories(
        injection, "moves no more", lambda _, lies, goes: lies is not None and goes is None
    )


def _of_directories(
    injection: Injection, claim: str, holds: Callable[[DirectoryMove, str | None, str | None], bool]
) -> Look:
    """Return a look at the moved replicas. ``holds`` gets the move, the directory where the replica
    lies, and the one to which it is moving, as the broker describes them."""
    moves = {move.name: move for move in intended(injection, DirectoryMove)}

    def seen(name: str) -> Seen:
        move = moves[name]
        key, number = (move.topic, move.number), injection.cluster.server(move.broker).id
        try:
            found = injection.cluster.system.admin.log_directories(number, _PROBE_S)
        except (AdminTimeout, OrderRefused) as failure:
            return False, str(failure)
        lies = next((one.path for one in found if key in one.logs), None)
        goes = next((one.path for one in found if key in one.futures), None)
        shown = {"before": move.before, "lies in": lies, "moving to": goes}
        return holds(move, lies, goes), shown

    def why_not(name: str) -> str | None:
        move = moves[name]
        done = {e.name for e in injection.done() if isinstance(e, DirectoryMove)}
        return (
            unless(done, "was not requested")(name)
            or held(injection, move.resource)
            or of_process(injection, move.broker)
            or of_disk(injection, move.broker)
        )

    return lambda: observe(claim, list(moves), seen, why_not)


def holds_nothing(injection: Injection, brokers: Sequence[str]) -> Look:
    """Return a look for the absence of the brokers from the replicas of all partitions, in
    ZooKeeper."""

    def seen(view: ClusterView, broker: str) -> Seen:
        number = injection.cluster.server(broker).id
        held = _held(view, number)
        return not held, held

    return _in_view(injection, "replicas left", lambda: brokers, seen, lambda _: None)


def joined(injection: Injection) -> Look:
    """Return a look for the registrations of the brokers that this fault added, in ZooKeeper."""

    def seen(view: ClusterView, number: int) -> Seen:
        there = number in view.brokers
        return there, there

    return _of_added(injection, "registered", seen)


def gone(injection: Injection) -> Look:
    """Return a look for the absence of their registrations and replicas."""

    def seen(view: ClusterView, number: int) -> Seen:
        there, held = number in view.brokers, _held(view, number)
        return not there and not held, {"registered": there, "replicas": held}

    return _of_added(injection, "gone", seen)


def nothing_left(injection: Injection) -> Look:
    """Return a look for the absence of anything of theirs where they ran."""
    backend = injection.cluster.backend

    def seen(broker: str) -> Seen:
        left = backend.remains(broker)
        return not left, list(left)

    def look() -> Observation:
        why_not = _of_another(injection)
        return observe(
            "left behind", [e.name for e in intended(injection, BrokerJoin)], seen, why_not
        )

    return look


def configured(injection: Injection, *, back: bool = False) -> Look:
    """Return a look for the setting that this fault gave the topics, or (``back``) their former
    one, in ZooKeeper."""

    def look() -> Observation:
        done, planned = struck(injection, SetConfig)
        effects = {e.topic: e for e in intended(injection, SetConfig)}

        def seen(topic: str) -> Seen:
            effect = effects[topic]
            try:
                found = injection.cluster.system.admin.topic_config(topic).get(effect.setting)
            except ViewUnavailable as silence:
                return False, str(silence)
            return found == (effect.before if back else effect.value), found

        def why_not(topic: str) -> str | None:
            resource = effects[topic].resource
            return unless(done, "was already so")(topic) or held(injection, resource)

        return observe("restored" if back else "set to", planned, seen, why_not)

    return look


def topics_led(injection: Injection) -> Look:
    """Return a look for the intended number of partitions, each with a leader, of the topics that
    this fault created or extended."""
    wanted = {e.topic: len(e.assignment) for e in intended(injection, TopicCreation)}
    wanted |= {e.topic: e.partitions for e in intended(injection, GrowTopic)}

    def seen(view: ClusterView, topic: str) -> Seen:
        partitions = led(view, topic)
        return partitions == wanted[topic], partitions

    return _in_view(injection, "partitions led", lambda: list(wanted), seen, lambda _: None)


def topics_gone(injection: Injection, *, by_order: bool) -> Look:
    """Return a look for the absence of this fault's topics. ``by_order`` selects those that it
    deleted as the fault, and otherwise all that it created."""

    def seen(view: ClusterView, topic: str) -> Seen:
        left = sum(one.topic == topic for one in view.partitions.values())
        return left == 0, left

    def topics() -> Sequence[str]:
        if by_order:
            # An order to delete is given only when the topic was seen to exist.
            return [e.topic for e in injection.done() if isinstance(e, DeletedTopic)]
        return [e.topic for e in intended(injection, TopicCreation)]

    return _in_view(injection, "partitions left", topics, seen, lambda _: None)


def records_gone(injection: Injection) -> Look:
    """Return a look for logs of this fault's topics, on their leaders, that begin at the offset of
    the deletion."""

    def look() -> Observation:
        effects = {
            f"{e.topic}-{number}": (e, number)
            for e in intended(injection, RecordDeletion)
            for number in range(e.partitions)
        }

        def seen(partition: str) -> Seen:
            effect, number = effects[partition]
            start = _log_start(injection, effect.topic, number)
            return start == effect.before, start

        return observe("log starts at", list(effects), seen, lambda _: None)

    return look


def begins_later(injection: Injection) -> Look:
    """Return a look for logs of the workload's partitions, on their leaders, that begin at the
    offset of the deletion or later. This fault moved them, or another one of its kind."""

    def look() -> Observation:
        effects = {e.name: e for e in intended(injection, DeleteBelow)}

        def seen(partition: str) -> Seen:
            effect = effects[partition]
            start = _log_start(injection, effect.topic, effect.number)
            return isinstance(start, int) and start >= effect.before, start

        return observe("log starts at", list(effects), seen, lambda _: None)

    return look


def _log_start(injection: Injection, topic: str, number: int) -> int | str:
    """Return the log's start on the partition's leader, or the reason why it is unknown."""
    try:
        return injection.cluster.system.admin.log_start(topic, number, _PROBE_S)
    except (AdminTimeout, OrderRefused) as failure:
        return str(failure)


def _replicas(
    injection: Injection,
    claim: str,
    wanted: Callable[[ReplicaMove], Sequence[str]],
    *,
    back: bool = False,
) -> Look:
    def seen(move: ReplicaMove, view: PartitionView) -> Seen:
        replicas = [_name(injection, broker) for broker in view.replicas]
        synced = back or set(view.isr) == set(view.replicas)
        return replicas == list(wanted(move)) and synced, replicas

    return _of_partitions(injection, claim, ReplicaMove, seen, when_gone=back)


def _of_partitions(
    injection: Injection,
    claim: str,
    kind: type[P],
    seen: Callable[[P, PartitionView], Seen],
    *,
    when_gone: bool = False,
) -> Look:
    """Return a look at each partition in ZooKeeper on which this fault has an effect of that kind.
    ``when_gone`` is the result for a partition that was deleted."""
    effects = {e.name: e for e in intended(injection, kind)}

    def of_one(view: ClusterView, name: str) -> Seen:
        effect = effects[name]
        found = view.partitions.get((effect.topic, effect.number))
        return (when_gone, _GONE) if found is None else seen(effect, found)

    def why_not(name: str) -> str | None:
        done = {e.name for e in injection.done() if isinstance(e, kind)}
        return unless(done, "was not requested")(name) or held(injection, effects[name].resource)

    return _in_view(injection, claim, lambda: list(effects), of_one, why_not)


def _of_added(injection: Injection, claim: str, seen: Callable[[ClusterView, int], Seen]) -> Look:
    """Return a look at the added brokers. ``seen`` takes a ``broker.id``."""
    numbers = {effect.name: effect.number for effect in intended(injection, BrokerJoin)}

    def of_name(view: ClusterView, broker: str) -> Seen:
        return seen(view, numbers[broker])

    return _in_view(injection, claim, lambda: list(numbers), of_name, _of_another(injection))


def _of_another(injection: Injection) -> Callable[[str], str | None]:
    """Return a function that says why a broker of this fault is not looked at: it also belongs to
    another fault, which was aimed at the same time."""
    joins = {effect.name: effect for effect in intended(injection, BrokerJoin)}

    def why_not(broker: str) -> str | None:
        was_there = None if joins[broker] in injection.done() else "was not added by this"
        return held(injection, joins[broker].resource) or was_there

    return why_not


def _held(view: ClusterView, broker: int) -> list[str]:
    """Return the partitions of which the broker has a replica."""
    return [f"{t}-{n}" for (t, n), p in sorted(view.partitions.items()) if broker in p.replicas]


def _in_view(
    injection: Injection,
    claim: str,
    subjects: Callable[[], Sequence[str]],
    seen: Callable[[ClusterView, str], Seen],
    why_not: Callable[[str], str | None],
) -> Look:
    """Return a look at each subject in ZooKeeper. If the claim is not true, another fault may
    prevent it: on a broker (the controller, or one that must copy), or on ZooKeeper."""

    def look() -> Observation:
        names = subjects()
        found: Mapping[str, Seen]
        try:
            view = injection.cluster.system.view()
            found = {name: seen(view, name) for name in names}
        except ViewUnavailable as silence:
            found = dict.fromkeys(names, (False, str(silence)))

        def accounts(name: str) -> str | None:
            return why_not(name) or (None if found[name][0] else of_any_session(injection))

        return observe(claim, names, found.__getitem__, accounts)

    return look


def _name(injection: Injection, broker: int) -> str | None:
    return injection.cluster.members.by_id.get(broker)
