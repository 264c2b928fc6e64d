"""Knots in which leadership changes hands: words, questions and answers of epochs that are over.

To move leadership without anybody leaving the ISR, another replica is made the preferred one (a
reassignment to the same brokers in another order) and elected. Orders take up to half a second:
the administrator asks broker after broker until it meets the controller.
"""

from dataclasses import replace
from random import Random

from simulation.actions import (
    DeposeController,
    ElectPreferred,
    ExpireSession,
    Isolate,
    Reassign,
    SlowLink,
    Who,
)
from simulation.knots.strands import (
    CONTROLLER,
    FOLLOWER,
    LEADER,
    STRAGGLER,
    TOPIC,
    apart,
    beginning,
    plainly,
    produce,
    tied,
    topic_of_three,
)
from simulation.plan import Plan

MOVES_ALONE = (
    ("auto.leader.rebalance.enable", "false"),
    ("replica.fetch.backoff.ms", "100"),
    ("replica.fetch.wait.max.ms", "500"),
    ("replica.lag.time.max.ms", "10000"),
    ("replica.socket.timeout.ms", "10000"),
)
"""Leadership moves when somebody asks for it, and nobody leaves the ISR meanwhile."""


def preferring(*replicas: int) -> Reassign:
    """The first of them is the preferred leader now."""
    return Reassign(topic=TOPIC, partition=0, replicas=replicas)


def former_controller(plan: Plan, rng: Random) -> Plan:
    """A controller says who leads; a replica hears of it after two elections of its successor.

    An election of the preferred leader is what the controller says to a replica first: of a broker
    that came or went it speaks in UpdateMetadata, and what is to follow waits for the answer.
    Before, it must have heard that the preferred one is in the ISR again, which takes it 7.5 s.
    """
    topic, t = topic_of_three(plan, rng, 4), beginning(plan, rng) + 9_000
    preferred = Who(broker=topic.replicas[0][0])
    cut = Isolate(
        who=CONTROLLER,
        peer=rng.choice((LEADER, FOLLOWER, STRAGGLER)),
        direction="out",
        clients=False,
        zookeeper=False,
        for_ms=rng.randint(2_200, 2_800),
    )
    way_out = rng.choice((DeposeController(), ExpireSession(who=CONTROLLER)))
    return tied(
        plan,
        [
            *((t - 500 + 150 * n, produce(rng.choice((-1, 1)), 1)) for n in range(20)),
            (t - 9_000, ExpireSession(who=preferred)),
            (t, cut),
            (t + 20, ElectPreferred()),
            (t + rng.randint(1_200, 1_500), way_out),
            (t + rng.randint(1_700, 1_900), ExpireSession(who=preferred)),
        ],
        topics=[topic],
        settings=(
            ("controller.socket.timeout.ms", "5000"),
            ("auto.leader.rebalance.enable", "false"),
            ("replica.lag.time.max.ms", "10000"),
        ),
        brokers=4,
        run_ms=t + 8_000,
    )


def left_behind(plan: Plan, rng: Random) -> Plan:
    """One follower has not heard of two elections, and fetches from a leader who has followed
    another in between; it holds what they both gave up, and names an offset that the leader has
    reached again."""
    topic, t = topic_of_three(plan, rng, 4, min_insync_replicas="1"), beginning(plan, rng)
    first, second, last = topic.replicas[0]
    unheard = Isolate(
        who=CONTROLLER,
        peer=Who(broker=last),
        direction="out",
        clients=False,
        zookeeper=False,
        for_ms=rng.randint(3_500, 5_500),
    )
    given_up = rng.choice((1, 2, 5))
    return tied(
        plainly(plan),
        [
            (t, preferring(second, first, last)),
            (t + 600, unheard),
            (t + 600, apart(Who(broker=first), Who(broker=second), 700)),
            (t + 650, produce(1, given_up)),
            (t + 750, ElectPreferred()),
            (t + 1_450, produce(1, given_up + 2)),
            (t + 1_700, preferring(first, second, last)),
            (t + 2_300, ElectPreferred()),
            *((t + 2_900 + 100 * n, produce(rng.choice((-1, 1)), 1)) for n in range(20)),
        ],
        topics=[topic],
        settings=(*MOVES_ALONE, ("controller.socket.timeout.ms", "10000")),
        brokers=4,
        run_ms=t + 10_000,
    )


def to_and_fro(plan: Plan, rng: Random) -> Plan:
    """Two brokers lead in turn, neither hears of what the other appends, and one of them has
    appended in an epoch that the other has never heard of (KIP-279).

    Asked where epoch 2 ended, the leader, who has epochs 0, 1 and 4, speaks of 1; the follower,
    who has 0 and 2, must go back to 0 and ask once more.
    """
    topic, t = topic_of_three(plan, rng, 4, min_insync_replicas="1"), beginning(plan, rng)
    first, second, last = topic.replicas[0]
    return tied(
        plainly(plan),
        [
            (t, produce(-1, rng.choice((1, 3)))),
            (t + 600, apart(Who(broker=first), Who(broker=second), rng.randint(2_800, 3_500))),
            (t + 700, produce(1, rng.choice((1, 3, 10)))),
            (t + 900, preferring(second, first, last)),
            (t + 1_500, produce(1, rng.choice((1, 3, 10)))),
            (t + 1_700, ElectPreferred()),
            (t + 2_300, produce(1, rng.choice((1, 3, 10)))),
            (t + 2_500, preferring(first, second, last)),
            (t + 3_100, ElectPreferred()),
            *((t + 3_800 + 100 * n, produce(rng.choice((-1, 1)), 1)) for n in range(20)),
        ],
        topics=[topic],
        settings=MOVES_ALONE,
        brokers=4,
        run_ms=t + 8_000,
    )


def late_answer(plan: Plan, rng: Random) -> Plan:
    """The answer to a fetch arrives two elections later. The same broker leads again, and has
    followed another in between; what the answer brings it has given up.

    The follower has an empty log: any other asks first where its log and the leader's part, on the
    same connection, after the late answer. It follows that broker in another partition all the
    time, else it would have closed the connection.
    """
    topic, t = topic_of_three(plan, rng, 4, min_insync_replicas="1"), beginning(plan, rng)
    first, second, last = topic.replicas[0]
    topic = replace(topic, replicas=topic.replicas * 2)
    leader, other, follower = (Who(broker=broker) for broker in (first, second, last))
    late = SlowLink(who=leader, peer=follower, delay_ms=rng.randint(5_000, 7_000), for_ms=150)
    unread = Isolate(
        who=follower, peer=other, direction="in", clients=False, zookeeper=False, for_ms=7_500
    )
    return tied(
        plainly(plan),
        [
            (t, preferring(second, first, last)),
            (t + 600, apart(other, leader, 500)),
            (t + 600, unread),
            (t + 600, late),
            (t + 630, produce(1, rng.choice((1, 3)))),
            (t + 800, ElectPreferred()),
            (t + 2_500, produce(1, rng.choice((1, 3, 5)))),
            (t + 3_500, preferring(first, second, last)),
            (t + 4_100, ElectPreferred()),
            *((t + 5_500 + 100 * n, produce(rng.choice((-1, 1)), 1)) for n in range(20)),
        ],
        topics=[topic],
        settings=MOVES_ALONE,
        brokers=4,
        run_ms=t + 11_000,
    )
