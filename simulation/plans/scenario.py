"""The parts of a scenario, and its addition to a plan.

A scenario is a row of data. A number, broker or action to be drawn is a :class:`Drawn`, which is
resolved when the row is added to a plan. Each place is drawn separately, unless the value is drawn
:func:`once`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from random import Random
from typing import Any, Final, Literal

from simulation.plans import actions as act
from simulation.plans.plan import SimulationPlan

TOPIC: Final = "k0"
"""The topic of the scenarios, which no other action of a plan changes."""
CONTROLLER_START_MS: Final = 1_500
"""The time until a new controller has announced the state of the cluster."""

Steps = tuple[Any, ...]
"""Times in milliseconds after the beginning, each with an action. A step may be drawn from several
tuples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A sequence of actions that is hardly ever drawn by chance, with the cluster that it needs.

    Attributes:
        about: What happens, and why it could go wrong.
        brokers: The least number of brokers.
        steps: The actions; see :data:`Steps`.
        length_ms: The least duration.
        settings: Properties of all brokers.
        outside: Brokers of which none may be the controller at the first step. Otherwise, links
            that are cut among them, or to ZooKeeper, would be the controller's own.
        begins_ms: The time at which it begins; None if that is drawn.
        producer: Whether the first producer is a plain one, or a numbered (idempotent) one that
            sends nothing else and has a plain one beside it.
        consumes: Whether the plan may have consumers of its own.
        needs_controller: Whether it is meaningless for a cluster without a controller.
        zookeeper_lag_ms: How far two further ZooKeeper servers are behind; 0 if that is drawn.
    """

    about: str
    steps: Steps
    length_ms: Any
    brokers: int = 3
    topics: Steps = ()
    settings: tuple[tuple[str, Any], ...] = ()
    outside: tuple[Any, ...] = ()
    begins_ms: int | None = None
    producer: Literal["any", "plain", "numbered"] = "any"
    consumes: bool = True
    needs_controller: bool = False
    zookeeper_lag_ms: int = 0


# --- draws ----------------------------------------------------------------------------------------


class Drawing:
    """The draws for one plan.

    Attributes:
        replicas: The brokers of the scenario's topic, then the others.
        beside: The number of the producer beside the first one.
    """

    def __init__(self, plan: SimulationPlan, rng: Random, brokers: int) -> None:
        self.rng = rng
        self.brokers = range(1, max(plan.brokers, brokers) + 1)
        chosen = rng.sample(self.brokers, min(3, len(self.brokers)))
        self.replicas = (*chosen, *(each for each in self.brokers if each not in chosen))
        self.beside = len(plan.producers)
        self._known: dict[int, Any] = {}

    def once(self, drawn: "Drawn") -> Any:
        """Return the value that was drawn before, or draw it."""
        if id(drawn) not in self._known:
            self._known[id(drawn)] = self(drawn)
        return self._known[id(drawn)]

    def __call__(self, value: Any) -> Any:
        """Return the value with everything in it drawn."""
        if isinstance(value, Drawn):
            return self(value.draw(self))
        if isinstance(value, tuple):
            return tuple(self(each) for each in value)
        if is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in fields(value))
            return replace(value, **{name: self(getattr(value, name)) for name in names})
        return value


class Drawn:
    """A value that is drawn for each plan. A number can be added to it."""

    def __init__(self, draw: Callable[[Drawing], Any]) -> None:
        self.draw = draw

    def __add__(self, more: Any) -> "Drawn":
        return Drawn(lambda drawing: drawing(self) + drawing(more))

    __radd__ = __add__


def between(least: int, most: int) -> Any:
    """Return a whole number that will be drawn."""
    return Drawn(lambda drawing: drawing.rng.randint(least, most))


def one_of(*options: Any) -> Any:
    """Return one of the options, which will be drawn."""
    return Drawn(lambda drawing: drawing.rng.choice(options))


def once(drawn: Any) -> Any:
    """Return a value that is the same in all places of one plan."""
    return Drawn(lambda drawing: drawing.once(drawn))


def _placed(number: int) -> Any:
    return Drawn(lambda drawing: drawing.replicas[number])


ONE, TWO, THREE, FOUR, FIVE = (_placed(number) for number in range(5))
"""The numbers of brokers. The topic has its replicas on the first three."""
FIRST, SECOND, LAST, SPARE, OTHER = (
    act.Target(broker=each) for each in (ONE, TWO, THREE, FOUR, FIVE)
)
LEADER, FOLLOWER, STRAGGLER = (
    act.Target(role="leader", topic=TOPIC),
    act.Target(role="follower", topic=TOPIC),
    act.Target(role="straggler", topic=TOPIC),
)
CONTROLLER: Final = act.Target(role="controller")
BESIDE: Any = Drawn(lambda drawing: drawing.beside)
"""The producer beside a numbered one."""


# --- actions --------------------------------------------------------------------------------------


def topic(*replicas: tuple[Any, ...], name: str = TOPIC, **config: str) -> act.CreateTopicOrder:
    """Return a topic, with one partition on the first three brokers unless they are given."""
    given = tuple((key.replace("_", "."), value) for key, value in config.items())
    return act.CreateTopicOrder(topic=name, replicas=replicas or ((ONE, TWO, THREE),), config=given)


def produce(acks: Any, batches: Any = 1, **others: Any) -> act.ProduceBatches:
    """Return batches of one record by the first producer, unless said otherwise."""
    defaults = {"producer": 0, "partition": 0, "records": 1, "pause_ms": 0, **others}
    return act.ProduceBatches(topic=TOPIC, acks=acks, batches=batches, **defaults)


def burst(batches: int, pause_ms: int) -> act.ProduceBatches:
    """Return batches of a numbered producer with five in flight, the maximum of Kafka's clients
    (``max.in.flight.requests.per.connection``)."""
    return produce(-1, batches, pause_ms=pause_ms, in_flight=5)


def every(at_ms: Any, pause_ms: int, count: int, action: act.Action) -> Steps:
    """Return an action that is repeated, with separate draws each time."""
    return tuple((at_ms + pause_ms * number, action) for number in range(count))


def cut(
    target: act.Target, peer: act.Target | None, direction: str, for_ms: Any, **others: bool
) -> act.Isolate:
    """Return a cut between brokers alone, unless said otherwise."""
    cut_direction: Any = direction
    links: Any = {"clients": False, "zookeeper": False, **others}
    return act.Isolate(target=target, peer=peer, direction=cut_direction, for_ms=for_ms, **links)


def cut_apart(target: act.Target, peer: act.Target, for_ms: Any) -> act.Isolate:
    """Return a cut of two brokers from each other for a while."""
    return cut(target, peer, "both", for_ms)


def move(*replicas: Any, name: str = TOPIC) -> act.ReassignOrder:
    """Return an order to move the partition. The first broker becomes the preferred leader."""
    return act.ReassignOrder(topic=name, partition=0, replicas=replicas)


# --- a row in a plan ------------------------------------------------------------------------------


def with_scenario(plan: SimulationPlan, rng: Random, scenario: Scenario) -> SimulationPlan:
    """Return the plan with the scenario."""
    drawing = Drawing(plan, rng, scenario.brokers)
    begins = scenario.begins_ms
    if begins is None:
        begins = rng.randrange(500, max(1_000, plan.run_ms - 8_000))
    steps = scenario.steps
    if scenario.outside:
        begins += CONTROLLER_START_MS
        steps = (*_controller_elsewhere(scenario.outside), *steps)
    plan = _with_producer(plan, scenario)
    if scenario.zookeeper_lag_ms:
        lag_ms = scenario.zookeeper_lag_ms
        plan = replace(plan, zookeeper_servers=3, zookeeper_lag_ms=lag_ms)
    if not scenario.consumes:
        others = (timed for timed in plan.actions if not isinstance(timed.action, act.Consume))
        plan = plan.with_actions(tuple(others))
    timed = [
        act.Timed(at_ms=max(0, begins + at), action=each) for at, each in _flat(drawing(steps))
    ]
    return replace(
        plan.with_more(timed),
        brokers=max(plan.brokers, scenario.brokers),
        settings=tuple({**dict(plan.settings), **dict(drawing(scenario.settings))}.items()),
        topics=(*plan.topics, *drawing(scenario.topics)),
        run_ms=max(plan.run_ms, begins + drawing(scenario.length_ms)),
    )


def _flat(steps: Steps) -> Iterable[tuple[int, act.Action]]:
    for step in steps:
        if step and isinstance(step[0], tuple):
            yield from _flat(step)
        elif step:
            yield step


def _controller_elsewhere(brokers: Iterable[Any]) -> Steps:
    """Return steps that replace the controller, in which these brokers learn late that there is
    none."""
    far = (
        act.SlowZooKeeper(target=act.Target(broker=each), delay_ms=300, for_ms=500)
        for each in brokers
    )
    return (
        *((-CONTROLLER_START_MS, each) for each in far),
        (20 - CONTROLLER_START_MS, act.DeposeController()),
    )


def _with_producer(plan: SimulationPlan, scenario: Scenario) -> SimulationPlan:
    """Return the plan with the kind of producer that the scenario needs.

    A numbered producer always waits for all replicas, one batch after the other. Therefore most
    scenarios have a plain one.
    """
    match scenario.producer:
        case "plain":
            return replace(plan, producers=(False, *plan.producers[1:]))
        case "numbered":
            kept = tuple(timed for timed in plan.actions if not _is_first_producer(timed.action))
            return replace(plan, producers=(True, *plan.producers[1:], False), actions=kept)
        case "any":
            return plan


def _is_first_producer(action: act.Action) -> bool:
    return isinstance(action, act.ProduceBatches) and action.producer == 0
