"""The plan of a run: all decisions that are made before the first step, as a pure function of a
seed.

Swarm testing (Groce et al., ISSTA 2012): each seed leaves some kinds of action out. With all kinds
at all times, every run would be the same mixture, and a case that needs many of one kind and none
of another would never occur. Faults come close together: two within one session timeout find what
one a minute never does.

Not planned are the arrival of messages, the damage of a crash, and which session ends first. These
come from streams of their own (:func:`~simulation.plans.plan.stream`), so leaving an action out
disturbs the rest as little as possible.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final, Literal

from ackproof.broker.replication.leader import RACK_AWARE
from simulation.plans import actions as act
from simulation.plans.plan import Settings, SimulationPlan, stream
from simulation.plans.scenarios import (
    NEED_CONTROLLER,
    add_scenario,
    alone_in_short_plan,
    turn_without_controller,
)

# --- variations -----------------------------------------------------------------------------------
#
# Changes of plans that are already drawn. Each has a stream of its own and leaves the other draws
# as they are.

RETAINED: Final = 0.15
"""The share of plans with a topic that retains little."""
INDEXED: Final = 0.5
"""The share of plans with indexes."""
UNCLEAN: Final = 0.07
"""The share of plans in which a topic begins to allow unclean elections."""
SLOW_DISKS: Final = 0.2
"""The share of plans with slow disks."""
MID_STEP: Final = 0.3
"""The share of plans with power failures in the middle of steps."""
LOST_ANSWERS: Final = 0.2
"""The share of plans in which ZooKeeper's answers to some writes are lost."""
STATIC: Final = 0.4
"""The share of plans in which members of groups may be static, and join again."""
WRITTEN_PATHS: Final = (
    "/controller",
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/topics",
    "/admin",
    "/config",
    "/",
)
"""The paths of such writes."""
QUEUE_PATH: Final = "/brokers/state"
"""The path of such writes without a controller."""
FLUSHED: Final = 0.25
"""The share of plans with ``flush.ms``."""
OFFSETS_SEGMENTS: Final = 0.6
"""The share of plans with small segments of ``__consumer_offsets``."""
IN_RACKS: Final = 0.85
"""The share of plans with brokers in racks."""


def with_pipelining(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Let some idempotent producers have several unanswered batches."""
    ahead = tuple(rng.choice((1, 5)) for _ in plan.producers)
    return plan.with_actions(
        tuple(
            replace(timed, action=replace(timed.action, in_flight=ahead[timed.action.producer]))
            if isinstance(timed.action, act.ProduceBatches)
            else timed
            for timed in plan.actions
        )
    )


def with_retention(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Let one topic retain little, in some plans."""
    if rng.random() >= RETAINED:
        return plan
    first, *others = plan.topics
    limit = rng.choice((("retention.ms", "3000"), ("retention.bytes", "1500")))
    config = {name: value for name, value in first.config if name != "retention.ms"}
    config |= dict((("segment.bytes", "500"), limit))
    kept = replace(first, config=tuple(config.items()))
    settings = {**dict(plan.settings), "log.retention.check.interval.ms": "1000"}
    return replace(plan, topics=(kept, *others), settings=tuple(settings.items()))


def with_indexes(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Make indexes so dense that a log of some hundred bytes has entries, in some plans."""
    if rng.random() >= INDEXED:
        return plan
    interval = (("index.interval.bytes", rng.choice(("0", "150"))),)
    topics = (replace(topic, config=(*topic.config, *interval)) for topic in plan.topics)
    return replace(plan, topics=tuple(topics))


def with_unclean_elections(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Allow elections outside the ISR for a topic from some time on, in some plans."""
    if rng.random() >= UNCLEAN:
        return plan
    order = act.AlterTopicOrder(
        topic=rng.choice(plan.topics).topic, name="unclean.leader.election.enable", value="true"
    )
    timed = act.Timed(at_ms=rng.randrange(plan.run_ms), action=order)
    return plan.with_more([timed])


def with_slow_disks(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Make the syncs of some brokers slow for a while, in some plans.

    Work that does not wait for a sync continues meanwhile, and logs are truncated, rolled or
    deleted during a sync.
    """
    if rng.random() >= SLOW_DISKS:
        return plan
    slow = (
        act.Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=act.SlowDisk(
                target=act.Target(broker=rng.randint(1, plan.brokers)),
                delay_ms=rng.choice((50, 500, 2_000)),
                for_ms=rng.choice((2_000, 10_000)),
            ),
        )
        for _ in range(rng.randint(1, 4))
    )
    return plan.with_more(slow)


def with_power_failures(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Let the power fail between two operations on a disk, in some plans.

    Rare kinds of operations are followed by a failure as often as frequent ones.
    """
    if rng.random() >= MID_STEP:
        return plan
    failures = (
        act.Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=act.LosePowerAfter(
                target=act.Target(broker=rng.randint(1, plan.brokers)),
                operation=rng.choice(("write", "cut", "names", "names", "sync", "sync")),
                nth=rng.choice((1, 1, 2, 3, 5, 8)),
                for_ms=rng.choice((5_000, 20_000)),
                down_ms=rng.choice((200, 2_000, 8_000)),
            ),
        )
        for _ in range(rng.randint(1, 4))
    )
    return plan.with_more(failures)


def with_lost_answers(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Lose some of ZooKeeper's answers, in some plans. A client that repeats the write then meets
    its own earlier write."""
    if rng.random() >= LOST_ANSWERS:
        return plan
    lost = (
        act.Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=act.LoseAnswer(
                target=act.Target(broker=rng.randint(1, plan.brokers)),
                path=rng.choice(WRITTEN_PATHS),
                nth=rng.choice((1, 1, 2, 3)),
                expires=rng.random() < 0.3,
                for_ms=rng.choice((5_000, 20_000)),
                carried_out=rng.random() < 0.7,
            ),
        )
        for _ in range(rng.randint(2, 8))
    )
    return plan.with_more([*lost, *_lost_election_answers(plan, rng.randrange(plan.run_ms))])


def _lost_election_answers(plan: SimulationPlan, at_ms: int) -> Iterator[act.Timed]:
    """Lose the answer to the next election of a controller. The other lost answers hardly ever meet
    an election."""
    for broker in range(1, plan.brokers + 1):
        lost = act.LoseAnswer(
            target=act.Target(broker=broker),
            path="/controller",
            nth=1,
            expires=False,
            for_ms=1_000,
            carried_out=True,
        )
        yield act.Timed(at_ms=at_ms, action=lost)
    yield act.Timed(at_ms=at_ms, action=act.DeposeController())


def with_static_members(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Let members of groups be static and restart, or change their topics, in some plans.

    A static member returns under another member id and keeps its partitions.
    """
    if rng.random() >= STATIC:
        return plan
    return plan.with_actions(
        tuple(
            replace(timed, action=_static(timed.action, f"static-{number}", rng))
            if isinstance(timed.action, act.Consume)
            else timed
            for number, timed in enumerate(plan.actions)
        )
    )


def _static(work: act.Consume, instance: str, rng: Random) -> act.Consume:
    again = sorted(rng.randrange(max(work.for_ms, 1)) for _ in range(rng.randint(1, 3)))
    is_static = rng.random() < 0.7
    return replace(work, instance=instance if is_static else None, rejoin_ms=tuple(again))


def with_lost_queue_answers(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Break each broker's connection in the middle of two writes to the queues for requests between
    brokers.

    The plan has no controller.
    """
    lost = (
        act.Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=act.LoseAnswer(
                target=act.Target(broker=broker),
                path=QUEUE_PATH,
                nth=rng.choice((1, 1, 2)),
                expires=False,
                for_ms=20_000,
                carried_out=carried_out,
            ),
        )
        for broker in range(1, plan.brokers + 1)
        for carried_out in (False, True)
    )
    return plan.with_more(lost)


def with_flush_ms(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Flush logs in the background when records have waited long enough, in some plans. No later
    record is needed for that."""
    if rng.random() >= FLUSHED:
        return plan
    flush_ms = {"flush.ms": rng.choice(("100", "500", "2000"))}
    topics = (
        replace(topic, config=tuple((flush_ms | dict(topic.config)).items()))
        for topic in plan.topics
    )
    looked = ("log.flush.scheduler.interval.ms", "100")
    return replace(plan, topics=tuple(topics), settings=(*plan.settings, looked))


def with_racks(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Put brokers into racks, and let consumers read from followers, in some plans."""
    if rng.random() >= IN_RACKS:
        return plan
    return replace(plan, settings=(*plan.settings, ("replica.selector.class", RACK_AWARE)))


def with_offsets_segments(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Give ``__consumer_offsets`` many segments, in some plans.

    It is then loaded in many parts, and rewritten in several batches long before it has megabytes.
    If the plan has groups, more of them commit meanwhile, so that there is something to rewrite.
    """
    if rng.random() >= OFFSETS_SEGMENTS:
        return plan
    small = ("offsets.topic.segment.bytes", rng.choice(("200", "200", "1000")))
    plan = replace(plan, settings=(small, *plan.settings))
    begun = [timed.at_ms for timed in plan.actions if isinstance(timed.action, act.Consume)]
    if not begun:
        return plan
    lots = act.CommitMany(topic=plan.topics[0].topic, groups=10, rounds=5, metadata_bytes=40)
    at_ms = rng.randrange(min(begun), max(plan.run_ms, min(begun) + 1))
    return plan.with_more([act.Timed(at_ms=at_ms, action=lots)])


# --- plans ----------------------------------------------------------------------------------------


def draw(
    seed: int, scenario: str | None = None, coordination: str = "controller"
) -> SimulationPlan:
    """Return the plan of ``seed``. A ``scenario`` is added if it is given.

    ``coordination`` is one of :data:`COORDINATION`. With ``mixed`` and ``any`` the seed chooses:
    ``mixed`` has no controller in few seeds (see :data:`LED_EVERY`), and ``any`` in half of them.
    Both leave out the printed variant, which loses records by design.
    """
    plan = _PlanDraw(stream(seed, "plan")).plan(seed)
    plan = with_pipelining(plan, stream(seed, "pipelines"))
    plan = with_retention(plan, stream(seed, "retention"))
    plan = with_racks(plan, stream(seed, "racks"))
    plan = with_unclean_elections(plan, stream(seed, "unclean"))
    plan = with_slow_disks(plan, stream(seed, "slow disks"))
    plan = with_power_failures(plan, stream(seed, "mid-step"))
    plan = with_lost_answers(plan, stream(seed, "unanswered"))
    turn = None
    if coordination == "mixed":
        turn = turn_without_controller(seed) if scenario is None else None
        led = scenario not in NEED_CONTROLLER and (turn is not None or seed % LED_EVERY == LED_AT)
        coordination = "leader-fenced" if led else "controller"
    if coordination == "any":
        coordination = stream(seed, "coordination").choice(("controller", "leader-fenced"))
    led = coordination != "controller"
    if turn is not None:
        plan = alone_in_short_plan(plan, stream(seed, "scenarios"), turn)
    else:
        plan = add_scenario(plan, stream(seed, "scenarios"), scenario, led=led)
    plan = with_indexes(plan, stream(seed, "indexes"))
    plan = with_static_members(plan, stream(seed, "static members"))
    plan = with_flush_ms(plan, stream(seed, "flush.ms"))
    plan = with_offsets_segments(plan, stream(seed, "segments of offsets"))
    if not led:
        return plan
    plan = with_lost_queue_answers(plan, stream(seed, "queues"))
    return without_controller(plan, coordination.removeprefix("leader-"))


def without_controller(plan: SimulationPlan, variant: str) -> SimulationPlan:
    """Return the plan with ``ackproof.coordination=leader``."""
    kept = [(name, value) for name, value in plan.settings if name != "ackproof.generation"]
    led = (("ackproof.coordination", "leader"), ("ackproof.coordination.variant", variant))
    actions = (t for t in plan.actions if not isinstance(t.action, act.DeposeController))
    return replace(plan, settings=(*kept, *led), actions=tuple(actions))


OPERATIONS: Final[tuple[Literal["read", "write", "fsync"], ...]] = ("read", "write", "fsync")
COORDINATION: Final = ("controller", "leader-fenced", "leader-printed", "any", "mixed")
LED_EVERY: Final = 24
"""Three of so many ``mixed`` seeds have no controller, since half of the broker's actions there
occur nowhere else. One of the three is :data:`LED_AT`, and the others have scenarios in turn."""
LED_AT: Final = 6
FAULTS_MAX = 14
BURSTS_MAX = 30


class _PlanDraw:
    """The drawing of one plan."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._brokers = rng.choice((1, 2, 3, 3, 3, 3, 4, 5))
        self._run_ms = rng.choice((10_000, 20_000, 40_000))
        self._session_ms = rng.choice((2_000, 4_000, 6_000))
        self._topics = tuple(self._topic(f"t{n}") for n in range(rng.choice((1, 1, 2))))
        self._created = 0

    def plan(self, seed: int) -> SimulationPlan:
        producers = tuple(self._chance(0.5) for _ in range(self._rng.randint(1, 3)))
        actions = [*self._faults(), *self._orders(), *self._work(len(producers))]
        return SimulationPlan(
            seed=seed,
            brokers=self._brokers,
            settings=self._settings(),
            producers=producers,
            topics=self._topics,
            zookeeper_servers=self._rng.choice((1, 1, 3)),
            zookeeper_lag_ms=self._rng.choice((0, 5, 50)),
            actions=tuple(sorted(actions, key=lambda timed: timed.at_ms)),
            run_ms=self._run_ms,
        )

    def _chance(self, odds: float) -> bool:
        return self._rng.random() < odds

    # --- the cluster --------------------------------------------------------------------------

    def _topic(self, name: str) -> act.CreateTopicOrder:
        factor = min(self._brokers, self._rng.choice((1, 2, 3, 3, 3)))
        return act.CreateTopicOrder(
            topic=name,
            replicas=tuple(self._replicas(factor) for _ in range(self._rng.choice((1, 1, 2, 3)))),
            config=self._topic_config(factor),
        )

    def _replicas(self, factor: int) -> tuple[int, ...]:
        return tuple(self._rng.sample(range(1, self._brokers + 1), factor))

    def _topic_config(self, factor: int) -> Settings:
        config = [("min.insync.replicas", str(self._rng.randint(1, factor)))]
        if self._chance(0.1):
            config.append(("unclean.leader.election.enable", "true"))
        if self._chance(0.3):
            config.append(("flush.messages", str(self._rng.choice((1, 1, 5)))))
        if self._chance(0.3):
            config.append(("segment.bytes", str(self._rng.choice((500, 4_000)))))
        if self._chance(0.1):
            config.append(("retention.ms", str(self._rng.choice((2_000, 10_000)))))
        return tuple(config)

    def _settings(self) -> Settings:
        choice = self._rng.choice
        lag_ms = choice((1_000, 3_000, 10_000))
        settings: dict[str, object] = {
            "zookeeper.session.timeout.ms": self._session_ms,
            "replica.lag.time.max.ms": lag_ms,
            "replica.fetch.wait.max.ms": choice((100, 500)),
            "replica.fetch.backoff.ms": choice((100, 1_000)),
            "replica.socket.timeout.ms": choice((1_500, 5_000)),
            "controller.socket.timeout.ms": choice((1_500, 5_000)),
            "replica.high.watermark.checkpoint.interval.ms": choice((500, 5_000)),
            "log.flush.offset.checkpoint.interval.ms": choice((1_000, 60_000)),
            "log.flush.start.offset.checkpoint.interval.ms": choice((1_000, 60_000)),
            "log.retention.check.interval.ms": choice((1_000, 3_000)),
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": choice(("true", "false")),
            "ackproof.wait.for.isr": "true",
            "leader.imbalance.check.interval.seconds": choice((2, 10)),
            "controlled.shutdown.retry.backoff.ms": 500,
            "offsets.topic.num.partitions": choice((1, 3)),
            "offsets.topic.replication.factor": min(3, self._brokers),
            "group.initial.rebalance.delay.ms": choice((0, 500)),
            "group.min.session.timeout.ms": 1_000,
            "max.incremental.fetch.session.cache.slots": 20,
        }
        if self._chance(0.1):
            settings["ackproof.generation"] = choice(("0.8", "0.10"))
        return tuple((name, str(value)) for name, value in settings.items())

    # --- faults -------------------------------------------------------------------------------

    def _faults(self) -> Iterator[act.Timed]:
        kinds = self._kept(
            {
                self._kill: 3,
                self._lose_power: 3,
                self._lose_disk: 0.5,
                self._blackout: 0.4,
                self._stop: 1,
                self._pause: 2,
                self._isolate: 2,
                self._isolate_from_zookeeper: 2,
                self._expire_session: 2,
                self._drop_connection: 2,
                self._depose: 1,
                self._fill_disk: 0.4,
                self._break_disk: 0.4,
            }
        )
        at_ms = 0
        for _ in range(self._rng.randint(1, FAULTS_MAX)):
            if at_ms == 0 or self._chance(0.5):
                at_ms = self._rng.randrange(self._run_ms)
            else:  # soon after the previous one
                at_ms += int(self._rng.expovariate(1 / (self._session_ms / 3)))
            if at_ms < self._run_ms:
                yield act.Timed(at_ms=at_ms, action=self._one_of(kinds)())

    def _kept(self, weights: dict[Callable[[], act.Action], float]) -> list[tuple[Any, float]]:
        """Keep some of the kinds, at least one."""
        kept = [(kind, weight) for kind, weight in weights.items() if self._chance(0.5)]
        return kept or [self._rng.choice(list(weights.items()))]

    def _one_of(self, kinds: list[tuple[Any, float]]) -> Callable[[], act.Action]:
        (kind,) = self._rng.choices([k for k, _ in kinds], [weight for _, weight in kinds])
        return kind  # type: ignore[no-any-return]

    def _target(self) -> act.Target:
        topic = self._rng.choice(self._topics)
        partition = self._rng.randrange(len(topic.replicas))
        match self._rng.randrange(5):
            case 0:
                return act.Target(role="controller")
            case 1 | 2:
                return act.Target(role="leader", topic=topic.topic, partition=partition)
            case 3:
                return act.Target(role="follower", topic=topic.topic, partition=partition)
            case _:
                return act.Target(broker=self._rng.randint(1, self._brokers))

    def _down_ms(self) -> int:
        """Return a duration within the session, near its end, or long after it."""
        low, high = self._rng.choice(((50, 500), (500, 2 * self._session_ms), (5_000, 20_000)))
        return self._rng.randint(low, high)

    def _for_ms(self) -> int:
        return self._rng.choice((200, 1_000, self._session_ms + 500, 3 * self._session_ms))

    def _kill(self) -> act.Action:
        return act.KillBroker(target=self._target(), down_ms=self._down_ms())

    def _lose_power(self) -> act.Action:
        return act.LoseBrokerPower(target=self._target(), down_ms=self._down_ms())

    def _lose_disk(self) -> act.Action:
        return act.LoseDisk(target=self._target(), down_ms=self._down_ms())

    def _blackout(self) -> act.Action:
        return act.Blackout(down_ms=self._down_ms())

    def _stop(self) -> act.Action:
        return act.StopBroker(target=self._target(), down_ms=self._down_ms())

    def _pause(self) -> act.Action:
        return act.PauseBroker(target=self._target(), for_ms=self._for_ms())

    def _isolate(self) -> act.Action:
        return act.Isolate(
            target=self._target(),
            peer=self._target() if self._chance(0.5) else None,
            direction=self._rng.choice(("in", "out", "both", "both")),
            clients=self._chance(0.3),
            zookeeper=self._chance(0.5),
            for_ms=self._for_ms(),
        )

    def _isolate_from_zookeeper(self) -> act.Action:
        return act.IsolateFromZooKeeper(target=self._target(), for_ms=self._for_ms())

    def _expire_session(self) -> act.Action:
        return act.ExpireSession(target=self._target())

    def _drop_connection(self) -> act.Action:
        return act.DropZooKeeperConnection(target=self._target())

    def _depose(self) -> act.Action:
        return act.DeposeController()

    def _fill_disk(self) -> act.Action:
        return act.FillDisk(target=self._target(), for_ms=self._for_ms())

    def _break_disk(self) -> act.Action:
        return act.BreakDisk(
            target=self._target(),
            operation=self._rng.choice(OPERATIONS),
            for_ms=self._for_ms(),
        )

    # --- administration -----------------------------------------------------------------------

    def _orders(self) -> Iterator[act.Timed]:
        if self._chance(0.4):
            return
        kinds = self._kept(
            {
                self._create: 1,
                self._delete: 1,
                self._add: 1,
                self._reassign: 3,
                self._elect: 2,
                self._alter: 1,
                self._delete_records: 1,
            }
        )
        for _ in range(self._rng.randint(1, 5)):
            at_ms = self._rng.randrange(self._run_ms)
            yield act.Timed(at_ms=at_ms, action=self._one_of(kinds)())

    def _any_partition(self) -> tuple[act.CreateTopicOrder, int]:
        topic = self._rng.choice(self._topics)
        return topic, self._rng.randrange(len(topic.replicas))

    def _create(self) -> act.Action:
        """Return an order for a topic with a new name, or with the name of a topic that may have
        been deleted."""
        if self._chance(0.5):
            self._created += 1
            return self._topic(f"n{self._created}")
        return self._topic(self._rng.choice(self._topics).topic)

    def _delete(self) -> act.Action:
        return act.DeleteTopicOrder(topic=self._rng.choice(self._topics).topic)

    def _add(self) -> act.Action:
        topic = self._rng.choice(self._topics)
        factor = len(topic.replicas[0])
        return act.AddPartitionsOrder(topic=topic.topic, replicas=(self._replicas(factor),))

    def _reassign(self) -> act.Action:
        topic, partition = self._any_partition()
        factor = self._rng.randint(1, min(3, self._brokers))
        replicas = None if self._chance(0.15) else self._replicas(factor)
        return act.ReassignOrder(topic=topic.topic, partition=partition, replicas=replicas)

    def _elect(self) -> act.Action:
        return act.ElectPreferredOrder()

    def _alter(self) -> act.Action:
        topic, partition = self._any_partition()
        value = str(self._rng.randint(1, len(topic.replicas[partition])))
        return act.AlterTopicOrder(topic=topic.topic, name="min.insync.replicas", value=value)

    def _delete_records(self) -> act.Action:
        topic, partition = self._any_partition()
        return act.DeleteRecordsOrder(topic=topic.topic, partition=partition)

    # --- clients ------------------------------------------------------------------------------

    def _work(self, producers: int) -> Iterator[act.Timed]:
        for _ in range(self._rng.randint(3, BURSTS_MAX)):
            topic, partition = self._any_partition()
            work = act.ProduceBatches(
                producer=self._rng.randrange(producers),
                topic=topic.topic,
                partition=partition,
                acks=self._rng.choice((-1, -1, -1, 1, 0)),
                batches=self._rng.choice((1, 3, 10, 30)),
                records=self._rng.choice((1, 1, 5)),
                pause_ms=self._rng.choice((0, 5, 50, 500)),
            )
            yield act.Timed(at_ms=self._rng.randrange(self._run_ms), action=work)
        for number in range(self._rng.choice((0, 0, 1, 3))):
            yield act.Timed(at_ms=self._rng.randrange(self._run_ms), action=self._consume(number))

    def _consume(self, number: int) -> act.Consume:
        return act.Consume(
            group=f"g{number % 2}",
            topic=self._rng.choice(self._topics).topic,
            for_ms=self._rng.choice((3_000, 15_000)),
            leaves=self._chance(0.5),
        )
