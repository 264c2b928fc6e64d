"""Knots of topics that are deleted, and of what is remembered of them by those who should not."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import (
    Action,
    DeleteRecords,
    DeleteTopic,
    DeposeController,
    ExpireSession,
    Isolate,
    Kill,
    Reassign,
    SlowDisk,
    Stop,
    Who,
)
from simulation.plans.knots.strands import (
    CONTROLLER,
    TOPIC,
    UNTIL_LED_MS,
    apart,
    beginning,
    led_from_outside,
    plainly,
    produce,
    tied,
    topic_of_three,
)
from simulation.plans.plan import Plan


def named_again(plan: Plan, rng: Random) -> Plan:
    """What a broker notes of a log that is deleted is not to be taken for the next one's of that
    name, when that broker is killed: where the log began, say, which is beyond the end of the new
    one. It was noted for the last time when the broker stopped in good order. Of some plans the
    controller gives way while that broker, whose disk is slow, is about to delete the log."""
    topic = topic_of_three(plan, rng, min_insync_replicas="1")
    t = beginning(plan, rng)
    who = Who(broker=rng.choice(topic.replicas[0]))
    killed = t + rng.randint(4_500, 6_000)
    stopped, acks = rng.randint(500, 900), [rng.choice((-1, 1)) for _ in range(12)]
    down_ms = rng.choice((50, 3_000))
    deposed: list[tuple[int, Action]] = []
    again = t + 3_200
    if rng.random() < 0.5:
        again += 600
        deposed = [
            (t + 2_400, SlowDisk(who=who, delay_ms=200, for_ms=1_000)),
            (t + rng.randint(2_550, 2_950), DeposeController()),
        ]
    return tied(
        plainly(plan),
        [
            *((t - 400 + 20 * n, produce(1, 1)) for n in range(20)),
            (t + 200, DeleteRecords(topic=TOPIC, partition=0)),
            (t + stopped, Stop(who=who, down_ms=300)),
            (t + 2_500, DeleteTopic(topic=TOPIC)),
            *deposed,
            (again, topic),
            *((again + 400 + 300 * n, produce(each, 1)) for n, each in enumerate(acks)),
            (killed, Kill(who=who, down_ms=down_ms)),
        ],
        topics=[topic],
        settings=(
            ("log.flush.start.offset.checkpoint.interval.ms", "60000"),
            ("replica.lag.time.max.ms", "3000"),
            ("zookeeper.session.timeout.ms", "2000"),
        ),
        brokers=3,
        run_ms=t + 9_000,
    )


def deleted_meanwhile(plan: Plan, rng: Random) -> Plan:
    """A topic is deleted while a broker that has nothing of it is reached by nobody, and its
    session over. Registered again, it is told of all topics that there are by the same controller
    as before, and of that one nothing."""
    topic = topic_of_three(plan, rng, 4)
    t = beginning(plan, rng) + UNTIL_LED_MS
    others = set(range(1, max(plan.brokers, 4) + 1)) - set(topic.replicas[0])
    who = Who(broker=rng.choice(sorted(others)))
    unreached = Isolate(
        who=who,
        peer=None,
        direction="both",
        clients=False,
        zookeeper=True,
        for_ms=rng.randint(5_000, 7_000),
    )
    return tied(
        plan,
        [
            *led_from_outside((who.broker,), t),
            (t, unreached),
            (t + rng.randint(3_000, 4_000), DeleteTopic(topic=TOPIC)),
        ],
        topics=[topic],
        settings=(("zookeeper.session.timeout.ms", "2000"),),
        brokers=4,
        run_ms=t + 10_000,
    )


def deleted_and_moved(plan: Plan, rng: Random) -> Plan:
    """One topic is deleted while a broker, which does not hear that it is to delete its replica,
    dies and comes back; another one while it is moved to a broker that does not reach its leader
    for a while; and one that was moved off a broker and back. All must be gone in the end, though
    nobody asks for any deletion after that."""
    topic, t = topic_of_three(plan, rng, 4), beginning(plan, rng) + UNTIL_LED_MS
    first, second, dying = topic.replicas[0]
    spare = next(broker for broker in range(1, 5) if broker not in topic.replicas[0])
    beside = f"{TOPIC}-beside"
    moved = replace(topic, topic=beside, replicas=((first, second),))
    back = replace(moved, topic=f"{TOPIC}-back")
    unheard = Isolate(
        who=CONTROLLER,
        peer=Who(broker=dying),
        direction="out",
        clients=False,
        zookeeper=False,
        for_ms=rng.randint(600, 2_500),
    )
    return tied(
        plan,
        [
            *led_from_outside(topic.replicas[0], t),
            (t, unheard),
            (t + 20, DeleteTopic(topic=TOPIC)),
            (t + 600, Kill(who=Who(broker=dying), down_ms=rng.choice((100, 1_000, 3_000)))),
            (t + rng.randint(610, 700), ExpireSession(who=Who(broker=dying))),
            (t + 650, apart(Who(broker=spare), Who(broker=first), rng.randint(2_500, 3_500))),
            (t + 700, Reassign(topic=beside, partition=0, replicas=(first, spare))),
            (t + 1_400, DeleteTopic(topic=beside)),
            (t + 700, Reassign(topic=back.topic, partition=0, replicas=(first,))),
            (t + 1_700, Reassign(topic=back.topic, partition=0, replicas=(first, second))),
            (t + rng.randint(3_000, 4_000), DeleteTopic(topic=back.topic)),
        ],
        topics=[topic, moved, back],
        settings=(
            ("auto.leader.rebalance.enable", "false"),
            ("replica.lag.time.max.ms", "10000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=4,
        run_ms=t + 8_000,
    )
