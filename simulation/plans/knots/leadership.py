"""Knots in which leadership changes hands: words, questions and answers of epochs that are over.

To move leadership without anybody leaving the ISR, another replica is made the preferred one (a
reassignment to the same brokers in another order) and elected. Orders take up to half a second:
the administrator asks broker after broker until it meets the controller.
"""

from dataclasses import replace
from random import Random

from simulation.plans.actions import (
    DeposeController,
    ElectPreferred,
    ExpireSession,
    Isolate,
    Kill,
    Pause,
    Reassign,
    SlowLink,
    Who,
)
from simulation.plans.knots.strands import (
    CONTROLLER,
    FOLLOWER,
    LEADER,
    STRAGGLER,
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
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
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
            *led_from_outside(topic.replicas[0], t),
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
    who has 0 and 2, must go back to 0 and ask once more. What it has flushed before that counts as
    flushed no longer where it is written anew.
    """
    flushed_every = rng.choice(("1", "3", "1000"))
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1", flush_messages=flushed_every)
    t = beginning(plan, rng) + UNTIL_LED_MS
    first, second, last = topic.replicas[0]
    return tied(
        plainly(plan),
        [
            *led_from_outside(topic.replicas[0], t),
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


def to_and_fro_and_to(plan: Plan, rng: Random) -> Plan:
    """As in to and fro, and then the second broker leads once more: the first one follows, with
    more of the epoch in which it led first than the leader has.

    Asked where epoch 2 ended, the leader, who has 0, 1 and 3, speaks of 1; the follower, who has 0
    and 2, goes back to where its own 0 ended, and only by asking once more to where the other's did
    (KIP-279).
    """
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
    first, second, last = topic.replicas[0]
    again = t + 4_700
    return tied(
        plainly(plan),
        [
            *led_from_outside(topic.replicas[0], t),
            (t, produce(-1, rng.choice((1, 3)))),
            (t + 600, apart(Who(broker=first), Who(broker=second), rng.randint(4_300, 4_500))),
            (t + 700, produce(1, rng.choice((1, 3, 10)))),
            (t + 900, preferring(second, first, last)),
            (t + 1_700, ElectPreferred()),
            (t + 2_300, produce(1, rng.choice((1, 3, 10)))),
            (t + 2_500, preferring(first, second, last)),
            (t + 3_100, ElectPreferred()),
            (t + 3_700, produce(1, rng.choice((1, 3, 10)))),
            (t + 3_900, preferring(second, first, last)),
            (again, ElectPreferred()),
            *((again + 1_000 + 100 * n, produce(rng.choice((-1, 1)), 1)) for n in range(20)),
        ],
        topics=[topic],
        settings=MOVES_ALONE,
        brokers=4,
        run_ms=again + 5_000,
    )


def leaderless(plan: Plan, rng: Random) -> Plan:
    """All of the ISR seem to have bounced, and its leader only has another session: it lives, with
    producers that wait for its followers, and is told that nobody leads before these are back."""
    topic, t = topic_of_three(plan, rng, 4), beginning(plan, rng) + UNTIL_LED_MS
    leader, *followers = (Who(broker=broker) for broker in topic.replicas[0])
    expire = [ExpireSession(who=who) for who in (leader, *followers)]
    return tied(
        plainly(plan),
        [
            *led_from_outside(topic.replicas[0], t),
            *((t + 20 * n, produce(-1, 1)) for n in range(20)),
            *((t + 100, Kill(who=who, down_ms=rng.randint(3_000, 6_000))) for who in followers),
            *((t + rng.randint(300, 350), each) for each in expire),
        ],
        topics=[topic],
        settings=(
            ("replica.lag.time.max.ms", "10000"),
            ("replica.socket.timeout.ms", "5000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=4,
        run_ms=t + 9_000,
    )


def passed_over(plan: Plan, rng: Random) -> Plan:
    """A follower is told what is committed when it has entered the next epoch, in which the same
    broker leads: a third one has gone. What it passes over it must be told once more."""
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
    leader, follower, gone = (Who(broker=broker) for broker in topic.replicas[0])
    late = SlowLink(who=leader, peer=follower, delay_ms=rng.randint(100, 300), for_ms=2_000)
    return tied(
        plainly(plan),
        [
            *led_from_outside(topic.replicas[0], t),
            (t, late),
            *((t + 100 + 20 * n, produce(1, 1)) for n in range(40)),
            (t + 400, Kill(who=gone, down_ms=3_000)),
            (t + rng.randint(500, 800), ExpireSession(who=gone)),
        ],
        topics=[topic],
        settings=MOVES_ALONE,
        brokers=4,
        run_ms=t + 6_000,
    )


def answers_late(who: Who, peer: Who) -> SlowLink:
    """By a second."""
    return SlowLink(who=who, peer=peer, delay_ms=1_000, for_ms=4_000)


def inside_a_batch(plan: Plan, rng: Random) -> Plan:
    """By watermark (0.8): a leader's watermark is inside a batch of its own, and it resigns.

    All have a batch of 2; one of the followers has not heard that it is committed, follows the
    other without reaching it, and leads then with the batch cut off. It appends 5 at once, and the
    others say that they have 2.

    They reach it again a second after they were told to follow it. A second later they are
    connected, in one more they are refused (their question was of the epoch before), and for
    another one they wait for the first batch: it resigns in that time. Now and then it does not:
    then the others' logs end inside that batch, and they must give up what they have of it.
    """
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
    first, second, last = topic.replicas[0]
    unaware = Who(broker=last)
    resigns = ((t + rng.randint(5_400, 5_750), ElectPreferred()),)
    return tied(
        plainly(plan),
        [
            *led_from_outside(topic.replicas[0], t),
            (t, preferring(second, first, last)),
            (t + 600, replace(produce(-1, 1), records=2)),
            (t + rng.randint(620, 700), apart(unaware, Who(broker=first), 2_200)),
            (t + 700, apart(unaware, Who(broker=second), 2_200)),
            (t + 1_300, ElectPreferred()),
            (t + 1_500, preferring(last, second, first)),
            (t + 2_000, ElectPreferred()),
            *((t + 2_500 + 20 * n, replace(produce(1, 1), records=5)) for n in range(5)),
            *((t + 2_000, answers_late(unaware, Who(broker=peer))) for peer in (first, second)),
            (t + 2_600, preferring(second, first, last)),
            *rng.choice((resigns, resigns, ())),
        ],
        topics=[topic],
        settings=(*MOVES_ALONE, ("ackproof.generation", "0.8")),
        brokers=4,
        run_ms=t + 8_000,
    )


def late_answer(plan: Plan, rng: Random) -> Plan:
    """The answer to a fetch arrives two elections later. The same broker leads again, and has
    followed another in between; what the answer brings it has given up.

    The follower has an empty log: any other asks first where its log and the leader's part, on the
    same connection, after the late answer. It follows that broker in another partition all the
    time, else it would have closed the connection.

    The record is there as soon as the link is slow: an answer to a fetch that has waited in vain
    would be late instead, with nothing in it. Fetches wait for 0.1 s, since one that was refused,
    of the epoch before, leaves the other partition's waiting alone.
    """
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
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
            *led_from_outside(topic.replicas[0], t),
            (t, preferring(second, first, last)),
            (t + 1_000, apart(other, leader, 500)),
            (t + 1_000, unread),
            (t + 1_000, late),
            (t + 1_001, produce(1, rng.choice((1, 3)))),
            (t + 1_200, ElectPreferred()),
            (t + 2_900, produce(1, rng.choice((1, 3, 5)))),
            (t + 3_900, preferring(first, second, last)),
            (t + 4_500, ElectPreferred()),
            *((t + 5_900 + 100 * n, produce(rng.choice((-1, 1)), 1)) for n in range(20)),
        ],
        topics=[topic],
        settings=(*MOVES_ALONE, ("replica.fetch.wait.max.ms", "100")),
        brokers=4,
        run_ms=t + 11_000,
    )


def slow_claimant(plan: Plan, rng: Random) -> Plan:
    """A replica has read the ISR and waits for the preferred one, which is gone. It sleeps while
    another one leads, drops it from the ISR, commits and goes; then it goes on where it was."""
    topic, t = topic_of_three(plan, rng, min_insync_replicas="1"), beginning(plan, rng)
    preferred, slow, other = (Who(broker=broker) for broker in topic.replicas[0])
    asleep = t + rng.randint(50, 400)
    gone = asleep + rng.randint(3_500, 4_000)
    return tied(
        plainly(plan),
        [
            *((t + 100 * n, produce(rng.choice((-1, 1)), 1)) for n in range(80)),
            (t, Kill(who=preferred, down_ms=15_000)),
            (t + 10, ExpireSession(who=preferred)),
            (asleep, Pause(who=slow, for_ms=gone + 100 - asleep)),
            (gone, Kill(who=other, down_ms=8_000)),
            (gone + 10, ExpireSession(who=other)),
        ],
        topics=[topic],
        settings=(
            ("ackproof.preferred.replica.wait.ms", "500"),
            ("replica.lag.time.max.ms", "1000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=3,
        run_ms=t + 20_000,
    )


def following_inside_a_batch(plan: Plan, rng: Random) -> Plan:
    """As in "inside a batch", and the leader stays: what the others have of its batch they must
    give up, and are sent it as a whole."""
    plan = inside_a_batch(plan, rng)
    last = max(t.at_ms for t in plan.actions if _is_of_topic(t.action))
    kept = (
        t for t in plan.actions if not (isinstance(t.action, ElectPreferred) and t.at_ms > last)
    )
    return plan.with_actions(tuple(kept))


def _is_of_topic(action: object) -> bool:
    return isinstance(action, Reassign) and action.topic == TOPIC
