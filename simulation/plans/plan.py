"""A plan as data, and the streams of randomness of a seed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from pydantic import TypeAdapter

from simulation.plans.actions import CreateTopicOrder, Timed

Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """One whole run. ``topics`` are created before the clock of the actions starts."""

    seed: int
    brokers: int
    """The number of brokers. Their ids begin at 1."""
    settings: Settings
    """The properties of every broker."""
    producers: tuple[bool, ...]
    """For each producer, whether it is idempotent."""
    topics: tuple[CreateTopicOrder, ...]
    zookeeper_servers: int = 1
    zookeeper_lag_ms: int = 0
    """The largest lag of ZooKeeper's followers behind its leader."""
    actions: tuple[Timed, ...]
    """The actions in the order of their times."""
    run_ms: int
    """The time at which every fault is healed, in virtual milliseconds after the plan began."""

    @property
    def guarantees_records(self) -> bool:
        """Return whether records are guaranteed anything.

        With truncation by high watermark they are not: it loses records by design (KIP-101).
        """
        return all(name != "ackproof.generation" for name, _ in self.settings)

    def properties_of(self, broker: int) -> dict[str, str]:
        """Return the properties of a broker. If consumers may read from followers, brokers are in
        two racks."""
        properties = dict(self.settings)
        if "replica.selector.class" in properties:
            properties["broker.rack"] = rack_of(broker)
        return properties

    @property
    def lag_max_ms(self) -> int:
        """Return ``replica.lag.time.max.ms``."""
        return int(dict(self.settings).get("replica.lag.time.max.ms", 30_000))

    @property
    def lag_max_messages(self) -> float:
        """Return ``replica.lag.max.messages``, which is infinite by default."""
        return float(dict(self.settings).get("replica.lag.max.messages", "inf"))

    @property
    def led_by_leaders(self) -> bool:
        """Return whether there is no controller (``ackproof.coordination=leader``)."""
        return ("ackproof.coordination", "leader") in self.settings

    def with_actions(self, actions: tuple[Timed, ...]) -> "SimulationPlan":
        """Return the plan with other actions."""
        return replace(self, actions=actions)

    def with_more(self, more: Iterable[Timed]) -> "SimulationPlan":
        """Return the plan with further actions."""
        actions = sorted((*self.actions, *more), key=lambda each: each.at_ms)
        return self.with_actions(tuple(actions))


_PLANS = TypeAdapter(SimulationPlan)


def to_json(plan: SimulationPlan) -> str:
    """Return the plan as text for ``--replay``."""
    return _PLANS.dump_json(plan, indent=1).decode()


def from_json(text: str) -> SimulationPlan:
    """Return the plan of a text from :func:`to_json`. Raises pydantic's ValidationError."""
    return _PLANS.validate_json(text)


def rack_of(broker: int) -> str:
    """Return one of two racks."""
    return f"rack-{broker % 2}"


def stream(seed: int, purpose: str) -> Random:
    """Return the source of randomness for one purpose. Draws for another purpose do not
    affect it."""
    return Random(f"{seed}/{purpose}")
