"""Knots in which two write a partition's state at the same time: one who is far from ZooKeeper and
decides by what was there, the controller or a leader without one, and one who is near and has
changed it since."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import (
    Action,
    ElectPreferred,
    ExpireSession,
    Kill,
    LosePower,
    Reassign,
    SlowZooKeeper,
    Who,
)
from simulation.plans.knots.leadership import preferring
from simulation.plans.knots.producing import numbered
from simulation.plans.knots.strands import (
    CONTROLLER,
    LEADER,
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


def overtaken_by_the_leader(plan: Plan, rng: Random) -> Plan:
    """The leader takes one follower out of the ISR while the controller, half a second away from
    ZooKeeper, takes out the other, whose session is over or whose machine was off for a moment.

    Written whatever is there, the controller's word lets the first one in again, which lacks what
    is committed meanwhile; tried again without what made it necessary, it trusts the second.
    """
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
    leader, other, last = (Who(broker=broker) for broker in topic.replicas[0])
    # Who was off registers anew when its former session is over, two seconds later.
    off = LosePower(who=other, down_ms=rng.choice((50, 300)))
    gone: tuple[tuple[float, Action], ...] = (
        (t + rng.randint(2_500, 4_300), ExpireSession(who=other)),
        (t + rng.randint(500, 2_400), off),
    )
    beside = len(plan.producers)
    plan = numbered(plan)
    return tied(
        replace(plan, producers=(*plan.producers, False)),
        [
            *led_from_outside(topic.replicas[0], t),
            *((t + 50 * n, replace(produce(-1, 1), producer=beside)) for n in range(100)),
            (t, apart(last, leader, 7_000)),
            (t + 2_000, SlowZooKeeper(who=CONTROLLER, delay_ms=500, for_ms=3_500)),
            rng.choice(gone),
            (t + rng.randint(5_000, 7_000), Kill(who=LEADER, down_ms=4_000)),
        ],
        topics=[topic],
        settings=(
            ("replica.fetch.wait.max.ms", "100"),
            ("replica.lag.time.max.ms", "3000"),
            ("zookeeper.session.timeout.ms", "2000"),
        ),
        brokers=4,
        run_ms=t + 11_000,
    )


def preferred_and_left_behind(plan: Plan, rng: Random) -> Plan:
    """A follower is to lead, since it is preferred, and its leader takes it out of the ISR while
    the controller, half a second away from ZooKeeper, writes so. What is then decided anew is
    decided by the ISR that there is."""
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
    first, second, last = topic.replicas[0]
    return tied(
        plan,
        [
            *led_from_outside(topic.replicas[0], t),
            (t, preferring(second, first, last)),
            (t + 700, apart(Who(broker=second), Who(broker=first), 7_000)),
            (t + 2_000, SlowZooKeeper(who=CONTROLLER, delay_ms=500, for_ms=4_000)),
            *((t + 2_500 + 400 * n, ElectPreferred()) for n in range(5)),
            *((t + 50 * n, produce(-1, 1)) for n in range(100)),
        ],
        topics=[topic],
        settings=(
            ("auto.leader.rebalance.enable", "false"),
            ("replica.fetch.wait.max.ms", "100"),
            ("replica.lag.time.max.ms", rng.choice(("2500", "3000", "3500"))),
        ),
        brokers=4,
        run_ms=t + 9_000,
    )


def counting_cut_short(plan: Plan, rng: Random) -> Plan:
    """The session of a leader without a controller, far from ZooKeeper, ends while it counts the
    queue of the broker to which its partition is to be moved.

    ZooKeeper is far: nine ways after the order the leader asks, and two later it would know.
    """
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t, way_ms = beginning(plan, rng), rng.randint(200, 300)
    over = t + 20 + int(rng.uniform(8.1, 9.9) * way_ms)
    first, second, _ = topic.replicas[0]
    spare = next(broker for broker in range(1, 5) if broker not in topic.replicas[0])
    return tied(
        plan,
        [
            *((t + 100 * n, produce(-1, 1)) for n in range(40)),
            (t, SlowZooKeeper(who=Who(broker=first), delay_ms=way_ms, for_ms=4_000)),
            (t + 20, Reassign(topic=TOPIC, partition=0, replicas=(first, second, spare))),
            (over, ExpireSession(who=Who(broker=first))),
        ],
        topics=[topic],
        settings=(("zookeeper.session.timeout.ms", "6000"),),
        brokers=4,
        run_ms=t + 8_000,
    )


def sent_on(plan: Plan, rng: Random) -> Plan:
    """A partition is on its way to a broker that cannot be in the ISR, and is sent to another such
    one, and then elsewhere. Or that is taken back and it is sent on, again and again, perhaps just
    when its leader, far from ZooKeeper, takes it back. The last order is carried out, and nobody
    whom a former one named keeps anything."""
    topic = topic_of_three(plan, rng, 5, min_insync_replicas="1")
    t, way_ms = beginning(plan, rng), rng.randint(50, 100)
    first, second, last = topic.replicas[0]
    one, other = (broker for broker in range(1, 6) if broker not in topic.replicas[0])
    at = t + 12 * way_ms + rng.randint(300, 900)
    orders: list[tuple[int, tuple[int, ...] | None]]
    orders = [(t, (first, second, one)), (at, (first, second, other)), (at + 500, (first, last))]
    if rng.random() < 0.5:
        orders = [(t, (first, second, one))]
        for beyond in (other, one, other):
            orders.append((at, None))
            at += rng.randint(4, 18) * way_ms
            orders.append((at, (first, beyond, last)))
            at += 8 * way_ms
    return tied(
        plan,
        [
            *((t + 50 * n, produce(-1, 1)) for n in range(80)),
            *(
                (t - 100, apart(Who(broker=each), Who(broker=first), 5_000))
                for each in (one, other)
            ),
            (t - 50, SlowZooKeeper(who=Who(broker=first), delay_ms=way_ms, for_ms=10_000)),
            *((at, Reassign(topic=TOPIC, partition=0, replicas=to)) for at, to in orders),
        ],
        topics=[topic],
        settings=(
            ("replica.lag.time.max.ms", "10000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=5,
        run_ms=t + 13_000,
    )


def offered_in_vain(plan: Plan, rng: Random) -> Plan:
    """The preferred replica is back in the ISR, and too far from ZooKeeper to claim in time what it
    is given back; nothing else happens to the partition."""
    topic, t = topic_of_three(plan, rng), beginning(plan, rng) + UNTIL_LED_MS
    preferred = Who(broker=topic.replicas[0][0])
    far = SlowZooKeeper(who=preferred, delay_ms=rng.randint(150, 350), for_ms=12_000)
    return tied(
        plainly(plan),
        [(t - 100, far), (t, ExpireSession(who=preferred))],
        topics=[topic],
        settings=(
            ("replica.lag.time.max.ms", "3000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=3,
        run_ms=t + 14_000,
    )
