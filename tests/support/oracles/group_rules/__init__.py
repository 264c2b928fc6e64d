"""The rules of a consumer group, as Kafka's protocol has them: each step is compared with them."""

from ackproof.broker.groups.events import Effect, Event
from ackproof.broker.groups.groups import Groups
from tests.support.oracles.group_rules import watch


class CheckedGroups(Groups):
    """Groups whose every step is judged; a step that breaks a rule raises Violation."""

    def step(self, event: Event) -> tuple[Effect, ...]:
        known = watch.before(self, event)
        effects = super().step(event)
        watch.check(self, event, effects, known)
        return effects
