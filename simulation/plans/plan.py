"""A plan as data, and the streams of randomness of a seed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from pydantic import TypeAdapter

from simulation.plans.actions import CreateTopic, Timed

Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run, whole. ``topics`` are made before the clock of the actions starts."""

    seed: int
    brokers: int
    """Ids 1 to this."""
    settings: Settings
    """Properties of every broker."""
    producers: tuple[bool, ...]
    """Whether each is idempotent."""
    topics: tuple[CreateTopic, ...]
    zookeeper_servers: int = 1
    zookeeper_lag_ms: int = 0
    """How far ZooKeeper's followers are behind its leader at most."""
    actions: tuple[Timed, ...]
    """In the order of their times."""
    run_ms: int
    """When everything is healed, in virtual ms after the start."""

    @property
    def promises(self) -> bool:
        """Whether records are promised anything: not with truncation by high watermark, which
        loses them by design (KIP-101)."""
        return all(name != "ackproof.generation" for name, _ in self.settings)

    def properties_of(self, broker: int) -> dict[str, str]:
        """Where consumers may read from followers, brokers are in two racks."""
        properties = dict(self.settings)
        if "replica.selector.class" in properties:
            properties["broker.rack"] = rack_of(broker)
        return properties

    @property
    def lag_max_ms(self) -> int:
        """``replica.lag.time.max.ms``."""
        return int(dict(self.settings).get("replica.lag.time.max.ms", 30_000))

    @property
    def lag_max_messages(self) -> float:
        """``replica.lag.max.messages``; infinite where nobody says so."""
        return float(dict(self.settings).get("replica.lag.max.messages", "inf"))

    @property
    def led_by_leaders(self) -> bool:
        """Whether there is no controller (``ackproof.coordination=leader``)."""
        return ("ackproof.coordination", "leader") in self.settings

    def with_actions(self, actions: tuple[Timed, ...]) -> "Plan":
        """The same with other actions."""
        return replace(self, actions=actions)

    def with_more(self, more: Iterable[Timed]) -> "Plan":
        """The same with these actions besides."""
        actions = sorted((*self.actions, *more), key=lambda each: each.at_ms)
        return self.with_actions(tuple(actions))


_PLANS = TypeAdapter(Plan)


def to_json(plan: Plan) -> str:
    """For ``--replay``."""
    return _PLANS.dump_json(plan, indent=1).decode()


def from_json(text: str) -> Plan:
    """The inverse of :func:`to_json`; raises pydantic's ValidationError."""
    return _PLANS.validate_json(text)


def rack_of(broker: int) -> str:
    """One of two."""
    return f"rack-{broker % 2}"


def stream(seed: int, purpose: str) -> Random:
    """Randomness for one purpose: drawing more for another one changes nothing here."""
    return Random(f"{seed}/{purpose}")
