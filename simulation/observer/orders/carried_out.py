"""**OrdersEnd**: from wherever a controller is, its orders are carried out if nothing goes wrong
from now on, whatever else is ordered.

* A topic that is to be deleted is gone in the end, and not before each of its replicas has been
  deleted: also when brokers die meanwhile and come back, when partitions are added, when it was
  being moved as the order came, or if it has no partitions at all.
* A partition is in the end where the last order has it, and no order stands: also when that has
  replaced another one half-way. Taken back, it is where it was before the first (KIP-455; in which
  order is not remembered, by Kafka's controller neither).

Judged by a rehearsal (:mod:`~simulation.observer.orders.rehearsal`), when an order is given: of two
that meet, or of an order and a death within the few ms that the order takes, plans have few.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import ReplicaAssignment, TopicAssignment
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.controller import Controller
from ackproof.broker.controller.events import Event
from ackproof.broker.types import BrokerId, TopicPartition
from simulation.observer.orders.rehearsal import Rehearsal
from simulation.violation import Violation

Target = tuple[BrokerId, ...]


def stepped(controller: Controller, event: Event, before: Mapping[str, TopicAssignment]) -> None:
    """A controller has taken in an event; ``before`` are its topics until then. Raises
    Violation."""
    context = controller.context
    if context is None or _is_deposed(context):
        return
    match event:
        case events.DeletionAsked():
            _are_deleted(controller, event.topics & context.deletions.keys())
        case events.ReassignmentAsked() | events.ReassignmentsAltered():
            for tp in event.targets:
                was, now = _assignment(before, tp), context.assignment(tp)
                if was is not None and now is not None and _moves(now) and not _moves(was):
                    _is_moved(controller, tp, was.replicas, now)
        case _:
            pass


def _are_deleted(controller: Controller, topics: Collection[str]) -> None:
    for topic in sorted(topics):
        _is_gone(Rehearsal(controller), topic, "")
        bounced = Rehearsal(controller)
        bounced.bounce(bounced.context.live.keys())
        _is_gone(bounced, topic, ", and brokers have died meanwhile and are back")
        extended = Rehearsal(controller)
        extended.take(_one_more(extended.context, topic))
        _is_gone(extended, topic, ", and a partition is added to it meanwhile")
        emptied = Rehearsal(controller)
        emptied.take(events.TopicsChanged(topics={}, gone=frozenset({topic})))
        emptied.take(events.TopicsChanged(topics={topic: _without_partitions(controller, topic)}))
        emptied.take(events.DeletionAsked(topics=frozenset({topic})))
        _is_gone(emptied, topic, ", and has no partitions")


def _is_moved(
    controller: Controller, tp: TopicPartition, former: Target, now: ReplicaAssignment
) -> None:
    """It was on ``former``, quietly, until this order came."""
    _is_there(Rehearsal(controller), tp, now.target, "")
    deleted = Rehearsal(controller)
    deleted.take(events.DeletionAsked(topics=frozenset({tp.topic})))
    _is_gone(deleted, tp.topic, f", and {tp} was being moved")
    live = Rehearsal(controller).context.live.keys()
    others = [target for target in _others(former, now) if live >= set(target)]
    for target in others:
        instead = f", and it was to move to {list(now.target)} before"
        _is_there(_ordered(controller, tp, target), tp, target, instead)
    if now.adding:  # else it ends with the next write, and there is nothing to be taken back
        once = _ordered(controller, tp, None)
        _is_there(once, tp, former, f", and it was to move to {list(now.target)} before")
        for target in others:
            if not set(now.adding).isdisjoint(target):
                both = f", and it was to move to {list(now.target)} and {list(target)} before"
                _is_there(_ordered(controller, tp, target, None), tp, former, both)


def _others(former: Target, now: ReplicaAssignment) -> Iterator[Target]:
    """Where else it could be sent half-way: with those that are new, and without them."""
    kept = tuple(broker for broker in former if broker not in now.target)
    for target in ((*now.adding, *kept), (*kept, *now.adding), now.adding, kept):
        if target and target not in (now.target, former):
            yield target


def _ordered(controller: Controller, tp: TopicPartition, *targets: Target | None) -> Rehearsal:
    """One after the other, each before the one before it has ended."""
    rehearsal = Rehearsal(controller)
    for target in targets:
        rehearsal.take(events.ReassignmentsAltered(targets={tp: target}, token=0))
    return rehearsal


def _is_gone(rehearsal: Rehearsal, topic: str, after: str) -> None:
    rehearsal.play_out()
    kept = rehearsal.gone.get(topic)
    if kept is None:
        raise Violation("OrdersEnd", f"{topic} is to be deleted{after}: it would be there for good")
    if kept:
        raise Violation("OrdersEnd", f"{topic} is to be deleted{after}: {list(kept)} would be kept")


def _is_there(rehearsal: Rehearsal, tp: TopicPartition, target: Target, after: str) -> None:
    rehearsal.play_out()
    context = rehearsal.context
    ends, what = context.assignment(tp), f"{tp} is to be on {sorted(target)}{after}"
    if ends is None or _moves(ends) or set(ends.replicas) != set(target):
        raise Violation("OrdersEnd", f"{what}: it would be {ends}")
    hosts = sorted(broker for broker, _ in context.replica_phases.of(tp))
    if hosts != sorted(target):
        raise Violation("OrdersEnd", f"{what}: brokers {hosts} would have it")


def _one_more(context: Context, topic: str) -> events.TopicsChanged:
    """A partition beside the others, on the brokers of one of them."""
    known = context.topics[topic]
    number, like = max(known.partitions.items())
    added = {**known.partitions, number + 1: ReplicaAssignment(replicas=like.target)}
    return events.TopicsChanged(topics={topic: replace(known, partitions=added)})


def _without_partitions(controller: Controller, topic: str) -> TopicAssignment:
    """As its node may be: a tool has written it."""
    assert controller.context is not None
    return replace(controller.context.topics[topic], partitions={})


def _assignment(
    topics: Mapping[str, TopicAssignment], tp: TopicPartition
) -> ReplicaAssignment | None:
    return topics[tp.topic].partitions.get(tp.partition) if tp.topic in topics else None


def _moves(assignment: ReplicaAssignment) -> bool:
    return bool(assignment.adding or assignment.removing)


def _is_deposed(context: Context) -> bool:
    """A successor has written: it knows what this one does not."""
    return any(state.controller_epoch > context.epoch for state in context.states.values())
