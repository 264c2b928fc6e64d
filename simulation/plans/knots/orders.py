"""Knots of orders that meet each other, or something else that happens to what they are about."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import DeleteTopic, ExpireSession, Isolate, Kill, Reassign, Who
from simulation.plans.knots.strands import (
    CONTROLLER,
    TOPIC,
    UNTIL_LED_MS,
    apart,
    beginning,
    led_from_outside,
    tied,
    topic_of_three,
)
from simulation.plans.plan import Plan


def deleted_and_moved(plan: Plan, rng: Random) -> Plan:
    """One topic is deleted while a broker, which does not hear that it is to delete its replica,
    dies and comes back; another one while it is moved to a broker that does not reach its leader
    for a while. Both must be gone in the end, though nobody asks for any deletion after that."""
    topic, t = topic_of_three(plan, rng, 4), beginning(plan, rng) + UNTIL_LED_MS
    first, second, dying = topic.replicas[0]
    spare = next(broker for broker in range(1, 5) if broker not in topic.replicas[0])
    beside = f"{TOPIC}-beside"
    moved = replace(topic, topic=beside, replicas=((first, second),))
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
        ],
        topics=[topic, moved],
        settings=(
            ("auto.leader.rebalance.enable", "false"),
            ("replica.lag.time.max.ms", "10000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=4,
        run_ms=t + 8_000,
    )
