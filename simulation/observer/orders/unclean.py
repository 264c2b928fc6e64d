"""**LastReadCounts**: a controller allows unclean elections for the topics that were found to have
them when it read that last, whatever a topic of that name had before.

It reads that when topics are new, or have more partitions, and when settings change. A topic that
allowed them is deleted and made again without: if it went by the former, records would be lost that
nobody gave up. Seldom does one controller see all that, and the whole ISR die afterwards. So when
topics change, it is rehearsed (:mod:`~simulation.observer.orders.rehearsal`) what it would go by if
one of them came, and went, and had them, and had them not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import TopicAssignment
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.controller import Controller
from ackproof.broker.controller.events import Event
from simulation.observer.orders.rehearsal import Rehearsal
from simulation.violation import Violation

ANEW: Final = tuple(UUID(int=number) for number in (1, 2, 3))
"""Ids of those that are made again."""


def stepped(controller: Controller, event: Event) -> None:
    """A controller has taken in an event; raises Violation."""
    context = controller.context
    if context is None:
        return
    _judge(context, event, "")
    if isinstance(event, events.TopicsChanged):
        topic = next((t for t in event.topics if t in context.topics), None)
        if topic is not None and topic not in context.deletions:
            rehearsal = Rehearsal(controller)
            for then in _changes(topic, context.topics[topic]):
                rehearsal.take(then)
                _judge(rehearsal.context, then, "if it had been made again or set otherwise, ")


def _changes(topic: str, known: TopicAssignment) -> Iterator[Event]:
    allowed = events.UncleanElectionsChanged(enabled={topic: True})
    once, twice, thrice = (replace(known, topic_id=each) for each in ANEW)
    yield allowed
    yield events.TopicsChanged(topics={topic: known})
    yield allowed
    yield events.TopicsChanged(topics={topic: once})
    yield events.TopicsChanged(topics={topic: twice}, unclean=frozenset({topic}))
    yield events.TopicsChanged(topics={}, gone=frozenset({topic}))
    yield events.TopicsChanged(topics={topic: thrice})


def _judge(context: Context, event: Event, when: str) -> None:
    for topic, allowed in _read(event).items():
        if topic in context.topics and (topic in context.unclean) != allowed:
            what = f"unclean elections of {topic} are {_said(allowed)}"
            raise Violation("LastReadCounts", f"{when}{what}, and would be {_said(not allowed)}")


def _read(event: Event) -> Mapping[str, bool]:
    match event:
        case events.UncleanElectionsChanged():
            return event.enabled
        case events.Elected() | events.TopicsChanged():
            return {topic: topic in event.unclean for topic in event.topics}
        case _:
            return {}


def _said(allowed: bool) -> str:
    return "allowed" if allowed else "not allowed"
