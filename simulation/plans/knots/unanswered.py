"""Knots of what was carried out and not heard of: answers that are lost, and requests that are
tried again while the first copy is still on its way."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import (
    DeposeController,
    ElectPreferred,
    LoseAnswer,
    Pause,
    SlowLink,
    Who,
)
from simulation.plans.knots.leadership import preferring
from simulation.plans.knots.strands import (
    CONTROLLER,
    LEADER,
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

PARTITION = f"/brokers/topics/{TOPIC}/partitions/0"


def written_unheard(plan: Plan, rng: Random) -> Plan:
    """A broker is elected controller, a leader takes a follower out of the ISR and lets it in
    again, and of each the answer is lost with the connection. Tried again, both meet what they have
    written themselves."""
    topic, t = topic_of_three(plan, rng, min_insync_replicas="1"), beginning(plan, rng)
    last = Who(broker=topic.replicas[0][2])
    count = max(plan.brokers, 3)
    away = t + 2_000
    return tied(
        plan,
        [
            *((t - 100, unanswered(Who(broker=b), "/controller")) for b in range(1, count + 1)),
            (t, DeposeController()),
            (away, Pause(who=last, for_ms=rng.randint(2_500, 3_500))),
            *((away + 500 * n, unanswered(LEADER, PARTITION, 490)) for n in range(12)),
            *((away + 100 * n, produce(-1, 1)) for n in range(40)),
        ],
        topics=[topic],
        settings=(
            ("replica.fetch.backoff.ms", "100"),
            ("replica.lag.time.max.ms", "1000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=3,
        run_ms=away + 7_000,
    )


def unanswered(who: Who, path: str, for_ms: int = 3_000) -> LoseAnswer:
    """The first write there."""
    return LoseAnswer(who=who, path=path, nth=1, expires=False, for_ms=for_ms)


def given_up_order(plan: Plan, rng: Random) -> Plan:
    """What a controller says of a new leader takes long to come to a broker that has no replica; it
    is given up, said again on another connection and heard there, and so is that the former leader
    leads again. Then the first copy comes."""
    topic, t = topic_of_three(plan, rng, 4), beginning(plan, rng) + UNTIL_LED_MS
    first, second, last = topic.replicas[0]
    deaf = next(broker for broker in range(1, 5) if broker not in topic.replicas[0])
    late = SlowLink(
        who=CONTROLLER, peer=Who(broker=deaf), delay_ms=rng.randint(5_000, 7_000), for_ms=1_000
    )
    back = t + rng.randint(2_500, 3_500)
    return tied(
        plan,
        [
            *led_from_outside((deaf,), t),
            (t, preferring(second, first, last)),
            (t + 700, late),
            (t + 720, ElectPreferred()),
            (t + 1_700, preferring(first, second, last)),
            (back, ElectPreferred()),
        ],
        topics=[topic],
        settings=(
            ("auto.leader.rebalance.enable", "false"),
            ("controller.socket.timeout.ms", "1500"),
            ("replica.lag.time.max.ms", "10000"),
        ),
        brokers=4,
        run_ms=t + 9_000,
    )


def unheard_fetch(plan: Plan, rng: Random) -> Plan:
    """A fetch, which says where its follower goes on, is on its way for longer than that waits; on
    another connection the next one is there before, in the same session. What the leader has not
    heard it must be told once more. In "far behind" the first one is often there when the link is
    whole again."""
    topic, t = topic_of_three(plan, rng, min_insync_replicas="1"), beginning(plan, rng)
    leader, *others = (Who(broker=broker) for broker in topic.replicas[0])
    follower = rng.choice(others)
    late = SlowLink(who=follower, peer=leader, delay_ms=4_000, for_ms=rng.choice((300, 700)))
    return tied(
        plainly(plan),
        [
            *((t + 20 * n, replace(produce(1, 1), partition=n % 2)) for n in range(60)),
            (t + rng.randint(500, 800), late),
        ],
        topics=[replace(topic, replicas=topic.replicas * 2)],
        settings=(
            ("auto.leader.rebalance.enable", "false"),
            ("replica.fetch.backoff.ms", "100"),
            ("replica.lag.time.max.ms", rng.choice(("1000", "10000"))),
            ("replica.socket.timeout.ms", "1500"),
        ),
        brokers=3,
        run_ms=t + 6_000,
    )
