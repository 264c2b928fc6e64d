"""Knots of what a follower asks, and whether it was heard."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import SlowLink, Who
from simulation.plans.knots.strands import beginning, plainly, produce, tied, topic_of_three
from simulation.plans.plan import Plan


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
