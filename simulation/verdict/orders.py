"""What an administrator was told is done must be so in the end."""

from collections.abc import Iterable, Iterator
from typing import Final

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from simulation.model.history import History
from simulation.model.observer import Observer
from simulation.plans.actions import AlterTopic, CreateTopic, DeleteTopic
from simulation.plans.plan import Plan
from simulation.verdict.led import Hosted
from simulation.violation import Violation

OFFSETS_BYTES_MAX: Final = 32 * 2**20
"""More than ten times what any plan has groups commit, and the slack that rewriting leaves."""


def check(plan: Plan, observer: Observer, history: History) -> None:
    """Raises Violation. Of topics that are deleted at some time, or altered, nothing is said."""
    orders = [timed.action for timed in plan.actions]
    deleted = {order.topic for order in orders if isinstance(order, DeleteTopic)}
    altered = {order.topic for order in orders if isinstance(order, AlterTopic)}
    for order in history.done:
        if isinstance(order, CreateTopic) and order.topic not in deleted | altered:
            _settings_are_the_makers(order, observer)
    for name in sorted(history.extended.keys() - deleted):
        there = len(observer.topics[name].partitions) if name in observer.topics else 0
        if there < history.extended[name]:
            told = history.extended[name]
            raise Violation("OrdersKept", f"{name} was to have {told} partitions, it has {there}")


def _settings_are_the_makers(order: CreateTopic, observer: Observer) -> None:
    there = observer.configs.get(order.topic, {})
    if there != dict(order.config):
        raise Violation(
            "OrdersKept",
            f"{order.topic} was made with {dict(order.config)}, and has the settings {there}",
        )


def leaders_are_spread(observer: Observer, topics: Iterable[str]) -> None:
    """Raises Violation when the broker has the same one lead all of ``topics``, which it placed
    by itself while everybody was up."""
    first = {observer.topics[name].assignment.partitions[0].replicas[0] for name in topics}
    if len(first) == 1:
        raise Violation("LeadersSpread", f"broker {first.pop()} leads all of {list(topics)}")


def offsets_log_is_bounded(observer: Observer, hosted: Hosted) -> None:
    """Raises Violation."""
    for number, size in _offsets_sizes(observer, hosted):
        if size > OFFSETS_BYTES_MAX:
            raise Violation("OffsetsLogBounded", f"{OFFSETS_TOPIC}-{number} has {size:,} bytes")


def _offsets_sizes(observer: Observer, hosted: Hosted) -> Iterator[tuple[int, int]]:
    """By partition of ``__consumer_offsets``, bytes of a log."""
    topic = observer.topics.get(OFFSETS_TOPIC)
    for number, partition in topic.partitions.items() if topic is not None else ():
        for broker in partition.isr:
            found = hosted(broker, TopicPartition(OFFSETS_TOPIC, number))
            yield number, 0 if found is None else found.log.size
