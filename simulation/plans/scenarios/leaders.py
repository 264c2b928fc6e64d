"""Scenarios of leaders, controllers, and topics that are moved and deleted."""

from dataclasses import replace
from random import Random

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from simulation.plans.actions import (
    Action,
    AddPartitions,
    CommitALot,
    Consume,
    CreateTopic,
    DeleteRecords,
    DeleteTopic,
    DeposeController,
    ElectPreferred,
    ExpireSession,
    Isolate,
    Kill,
    MixUpDisks,
    Pause,
    Reassign,
    SlowDisk,
    SlowLink,
    SlowZooKeeper,
    Stop,
    Who,
    WriteNonsense,
)
from simulation.plans.plan import Plan
from simulation.plans.scenarios.building import (
    CONTROLLER,
    FOLLOWER,
    LEADER,
    STRAGGLER,
    TOPIC,
    UNTIL_LED_MS,
    apart,
    beginning,
    extended,
    led_from_outside,
    plainly,
    produce,
    topic_of_three,
)

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
    return extended(
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
    return extended(
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
    return extended(
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
    return extended(
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
    return extended(
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
    return extended(
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
    return extended(
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
    return extended(plan, made, run_ms=t + 8_000)


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
    return extended(late, orders, topics=[topic], brokers=4, run_ms=t + 14_000)


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
    return extended(
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
    return extended(
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
    return extended(
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
    return extended(
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
    return extended(
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
    return extended(
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
    return extended(
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


def nonsense(plan: Plan, rng: Random) -> Plan:
    """Orders that nobody understands."""
    paths = ("/admin/preferred_replica_election", "/admin/reassign_partitions")
    left = WriteNonsense(path=rng.choice(paths), for_ms=rng.randint(100, 3_000))
    return extended(plan, [(beginning(plan, rng), left)])
