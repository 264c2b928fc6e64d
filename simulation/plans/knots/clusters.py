"""Knots of the cluster as a whole: orders, machines, groups."""

from dataclasses import replace
from random import Random

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from simulation.plans.actions import (
    Action,
    AddPartitions,
    CommitALot,
    Consume,
    CreateTopic,
    DeleteTopic,
    ExpireSession,
    Isolate,
    Kill,
    MixUpDisks,
    Pause,
    Reassign,
    SlowLink,
    SlowZooKeeper,
    Who,
    WriteNonsense,
)
from simulation.plans.knots.strands import (
    CONTROLLER,
    TOPIC,
    UNTIL_LED_MS,
    beginning,
    led_from_outside,
    plainly,
    produce,
    tied,
    topic_of_three,
)
from simulation.plans.plan import Plan


def twins(plan: Plan, rng: Random) -> Plan:
    """Two administrators make topics of the same names at the same time."""
    t = beginning(plan, rng)
    made: list[tuple[float, Action]] = []
    for number in range(8):
        replicas = (tuple(rng.sample(range(1, plan.brokers + 1), min(2, plan.brokers))),)
        for min_isr in ("1", "2"):
            config = (("min.insync.replicas", min_isr),)
            topic = CreateTopic(topic=f"w{number}", replicas=replicas, config=config)
            made.append((t + 400 * number + rng.choice((0, 0, 2)), topic))
    return tied(plan, made, run_ms=t + 8_000)


def moved_and_extended(plan: Plan, rng: Random) -> Plan:
    """Partitions are added to a topic of which others are just being moved, and the controller
    hears of them late."""
    topic, t = topic_of_three(plan, rng, 4), beginning(plan, rng)
    orders: list[tuple[float, Action]] = []
    for number in range(10):
        target = tuple(rng.sample(range(1, max(plan.brokers, 4) + 1), 3))
        at = t + 1_200 * number
        orders.append((at, Reassign(topic=TOPIC, partition=0, replicas=target)))
        orders.append((at + rng.randint(-50, 300), AddPartitions(topic=TOPIC, replicas=(target,))))
    orders.append((t - 100, SlowZooKeeper(who=CONTROLLER, delay_ms=60, for_ms=13_000)))
    late = replace(plan, zookeeper_servers=3, zookeeper_lag_ms=50)
    return tied(late, orders, topics=[topic], brokers=4, run_ms=t + 14_000)


def nonsense(plan: Plan, rng: Random) -> Plan:
    """Orders that nobody understands."""
    paths = ("/admin/preferred_replica_election", "/admin/reassign_partitions")
    left = WriteNonsense(path=rng.choice(paths), for_ms=rng.randint(100, 3_000))
    return tied(plan, [(beginning(plan, rng), left)])


def half_deleted(plan: Plan, rng: Random) -> Plan:
    """The controller dies while it removes what a deleted topic has in ZooKeeper, node after node,
    the order to delete it last of all. It is far from ZooKeeper: a node takes it 0.3 s, and all of
    them 4 s. One of the topic's brokers may not hear for a while that it is to delete anything.
    Partitions may be added at the same time: when that was begun nobody had ordered a deletion."""
    topic = topic_of_three(plan, rng, 4)
    t = beginning(plan, rng) + UNTIL_LED_MS
    deaf = Isolate(
        who=Who(broker=topic.replicas[0][2]),
        peer=None,
        direction="in",
        clients=False,
        zookeeper=False,
        for_ms=rng.choice((1, 1_500)),
    )
    added = AddPartitions(topic=TOPIC, replicas=topic.replicas)
    more = [(t + 150 * number, added) for number in range(-3, 4)] * (plan.seed % 2)
    return tied(
        plan,
        [
            *led_from_outside(topic.replicas[0], t),
            (t, SlowZooKeeper(who=CONTROLLER, delay_ms=150, for_ms=8_000)),
            (t + 10, deaf),
            (t + 20, DeleteTopic(topic=TOPIC)),
            (t + rng.randint(800, 4_500), Kill(who=CONTROLLER, down_ms=rng.choice((100, 3_000)))),
            *more,
        ],
        topics=[topic],
        settings=(("zookeeper.session.timeout.ms", "2000"),),
        brokers=4,
        run_ms=t + 9_000,
    )


def placed(plan: Plan, _rng: Random) -> Plan:
    """The broker chooses who leads."""
    return replace(plan, placed_topics=4)


def mixed_disks(plan: Plan, rng: Random) -> Plan:
    """Two machines get each other's disk, on which there is another partition than on theirs, and
    all of it synced."""
    three, t = topic_of_three(plan, rng, flush_messages="1"), beginning(plan, rng) + 1_000
    one, another, both = three.replicas[0]
    topic = replace(three, replicas=((one, both), (another, both)))
    who, other = Who(broker=one), Who(broker=another)
    return tied(
        plainly(plan),
        [
            *((100 + 100 * n, replace(produce(1, 3), partition=n % 2)) for n in range(10)),
            (t, MixUpDisks(who=who, other=other, for_ms=rng.choice((4_500, 8_000)))),
        ],
        topics=[topic],
        settings=(("zookeeper.session.timeout.ms", "2000"),),
        brokers=3,
        run_ms=t + 10_000,
    )


def many_commits(plan: Plan, _rng: Random) -> Plan:
    """The offsets topic is rewritten, with more than a batch holds, while commits are on their way
    nearly all the time: the coordinator's followers are far."""
    lots = CommitALot(topic=plan.topics[0].topic, groups=620, rounds=2, metadata_bytes=4_000)
    coordinator = Who(role="leader", topic=OFFSETS_TOPIC)
    far = (
        SlowLink(who=coordinator, peer=Who(broker=broker), delay_ms=40, for_ms=3_000)
        for broker in range(1, max(plan.brokers, 3) + 1)
    )
    slowed = [(at, each) for each in far for at in range(500, 38_000, 3_000)]
    return tied(
        plan,
        [(0, lots), *slowed],
        settings=(
            ("offsets.topic.num.partitions", "1"),
            ("offsets.topic.replication.factor", "3"),
            ("offsets.topic.segment.bytes", "100000000"),
            ("replica.lag.time.max.ms", "10000"),
        ),
        brokers=3,
        run_ms=40_000,
    )


def offsets_half_made(plan: Plan, rng: Random) -> Plan:
    """The offsets topic is made by one who has not heard yet that a broker is gone, so that some
    of its partitions have no state before that one is back. Nobody has asked for it before."""
    dead, alive = (Who(broker=broker) for broker in rng.sample(range(1, 4), 2))
    topic, t = CreateTopic(topic=TOPIC, replicas=((alive.broker,),)), UNTIL_LED_MS
    others = (timed for timed in plan.actions if not isinstance(timed.action, Consume))
    return tied(
        plainly(plan).with_actions(tuple(others)),
        [
            *led_from_outside((dead.broker,), t),
            (t, Pause(who=CONTROLLER, for_ms=2_500)),
            (t + 20, Kill(who=dead, down_ms=10_000)),
            (t + 100, ExpireSession(who=dead)),
            *(
                (t + 400 + 100 * n, Consume(group=f"g{n}", topic=TOPIC, for_ms=6_000, leaves=True))
                for n in range(6)
            ),
            *((t + 200 * n, produce(1, 1)) for n in range(30)),
        ],
        topics=[topic],
        settings=(
            ("offsets.topic.num.partitions", "6"),
            ("offsets.topic.replication.factor", "1"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=3,
        run_ms=t + 13_000,
    )
