"""Knots of the cluster as a whole: orders, machines, groups."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import (
    Action,
    AddPartitions,
    CommitALot,
    Consume,
    CreateTopic,
    ExpireSession,
    Kill,
    MixUpDisks,
    Pause,
    Produce,
    Reassign,
    Who,
    WriteNonsense,
)
from simulation.plans.knots.strands import (
    CONTROLLER,
    TOPIC,
    beginning,
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
        orders.append((at + rng.randint(-10, 30), AddPartitions(topic=TOPIC, replicas=(target,))))
    late = replace(plan, zookeeper_servers=3, zookeeper_lag_ms=50)
    return tied(late, orders, topics=[topic], brokers=4, run_ms=t + 14_000)


def nonsense(plan: Plan, rng: Random) -> Plan:
    """Orders that nobody understands."""
    paths = ("/admin/preferred_replica_election", "/admin/reassign_partitions")
    left = WriteNonsense(path=rng.choice(paths), for_ms=rng.randint(100, 3_000))
    return tied(plan, [(beginning(plan, rng), left)])


def placed(plan: Plan, _rng: Random) -> Plan:
    """The broker chooses who leads."""
    return replace(plan, placed_topics=4)


def mixed_disks(plan: Plan, rng: Random) -> Plan:
    """Two machines get each other's disk."""
    topic, t = topic_of_three(plan, rng), beginning(plan, rng)
    who, other, _ = (Who(broker=broker) for broker in topic.replicas[0])
    return tied(
        plan,
        [
            *((100 + 100 * n, produce(1, 3)) for n in range(10)),
            (t, MixUpDisks(who=who, other=other, for_ms=rng.choice((3_000, 8_000)))),
        ],
        topics=[topic],
        brokers=3,
        run_ms=t + 10_000,
    )


def many_commits(plan: Plan, _rng: Random) -> Plan:
    """The offsets topic is rewritten, with more than a batch holds."""
    lots = CommitALot(topic=plan.topics[0].topic, groups=620, rounds=2, metadata_bytes=4_000)
    return tied(plan, [(0, lots)], settings=(("offsets.topic.num.partitions", "1"),), run_ms=40_000)


def offsets_half_made(plan: Plan, rng: Random) -> Plan:
    """The offsets topic is made by one who has not heard yet that a broker is gone, so that some
    of its partitions have no state before that one is back."""
    dead = Who(broker=rng.randint(1, 3))
    topic = plan.topics[0].topic
    return tied(
        plan,
        [
            (0, Pause(who=CONTROLLER, for_ms=2_500)),
            (20, Kill(who=dead, down_ms=12_000)),
            (100, ExpireSession(who=dead)),
            *(
                (400 + 200 * n, Consume(group=f"g{n}", topic=topic, for_ms=7_000, leaves=True))
                for n in range(4)
            ),
            *(
                (
                    200 * n,
                    Produce(
                        producer=0,
                        topic=topic,
                        partition=0,
                        acks=1,
                        batches=1,
                        records=1,
                        pause_ms=0,
                    ),
                )
                for n in range(30)
            ),
        ],
        settings=(
            ("offsets.topic.num.partitions", "6"),
            ("offsets.topic.replication.factor", "1"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=3,
        run_ms=20_000,
    )
