"""Scenarios of the ISR: who joins and leaves it, and what leaders believe meanwhile."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import (
    Action,
    DeleteTopic,
    DeposeController,
    DropZooKeeperConnection,
    ElectPreferred,
    ExpireSession,
    Isolate,
    Kill,
    LoseAnswer,
    LosePower,
    Pause,
    Reassign,
    SlowLink,
    SlowZooKeeper,
    Who,
)
from simulation.plans.plan import Plan
from simulation.plans.scenarios.building import (
    CONTROLLER,
    LEADER,
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
from simulation.plans.scenarios.leaders import preferring
from simulation.plans.scenarios.records import numbered


def joined_unseen(plan: Plan, rng: Random) -> Plan:
    """A follower is let into the ISR and loses power before the controller has heard of it."""
    topic, t = topic_of_three(plan, rng), beginning(plan, rng)
    last = Who(broker=topic.replicas[0][-1])
    down = rng.randint(2_300, 3_000)
    again = t + down + rng.randint(400, 3_000)
    return extended(
        plan,
        [
            *((t + 300 * n, produce(-1, 3)) for n in range(40)),
            (t, Kill(who=last, down_ms=down)),
            (again, LosePower(who=last, down_ms=rng.randint(50, 300))),
        ],
        topics=[topic],
        settings=(("zookeeper.session.timeout.ms", "2000"), ("replica.lag.time.max.ms", "3000")),
        brokers=3,
        run_ms=t + 20_000,
    )


def bounced_unseen(plan: Plan, rng: Random) -> Plan:
    """Replicas lose power and are registered again before the controller looks: it finds all of
    them there, by other epochs, and nobody who was away. Of all of the ISR one is right by being
    the leader, and then alone. What it writes of them may take a while: until then they are told
    of nothing that is about to change."""
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
    bounced = [Who(broker=broker) for broker in topic.replicas[0][: rng.choice((1, 2, 3, 3))]]
    way_ms = rng.choice((1, 300))
    return extended(
        plainly(plan),
        [
            *led_from_outside(topic.replicas[0], t),
            *((t - 400 + 50 * n, produce(rng.choice((-1, -1, 1)), 1)) for n in range(60)),
            (t, Pause(who=CONTROLLER, for_ms=2_000)),
            (t + 1_000, SlowZooKeeper(who=CONTROLLER, delay_ms=way_ms, for_ms=3_000)),
            *((t + rng.randint(20, 60), LosePower(who=who, down_ms=100)) for who in bounced),
            *((t + 70, ExpireSession(who=who)) for who in bounced),
        ],
        topics=[topic],
        settings=(("zookeeper.session.timeout.ms", "6000"), ("replica.lag.time.max.ms", "10000")),
        brokers=4,
        run_ms=t + 8_000,
    )


def joining_in_flight(plan: Plan, rng: Random) -> Plan:
    """A follower is about to be in the ISR, or is, as ZooKeeper has it; the leader has not heard
    of that, and not of the follower for so long that it counts as lagging. What it knows already it
    is told once more meanwhile, by another controller."""
    topic, t = topic_of_three(plan, rng, 4, min_insync_replicas="1"), beginning(plan, rng)
    leader, _, last = (Who(broker=broker) for broker in topic.replicas[0])
    back = t + rng.randint(2_500, 3_000)
    return extended(
        plainly(plan),
        [
            *((t + 2_000 + 50 * n, produce(rng.choice((-1, -1, 1)), 1)) for n in range(120)),
            (t, Pause(who=last, for_ms=back - t)),
            (
                back - 100,
                SlowZooKeeper(who=leader, delay_ms=rng.randint(500, 700), for_ms=6_000),
            ),
            (back + rng.randint(150, 1_300), apart(last, leader, 4_000)),
            (back + rng.randint(250, 500), DeposeController()),
        ],
        topics=[topic],
        settings=(
            ("replica.fetch.backoff.ms", "100"),
            ("replica.lag.time.max.ms", "1000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=4,
        run_ms=t + 11_000,
    )


def unheard_of(plan: Plan, rng: Random) -> Plan:
    """A follower is let into the ISR, and its leader never hears that it is: ZooKeeper's answer is
    lost, and the session that it was for. The follower leads by then, and neither the leader nor
    the other follower has heard of that.

    The leader is far from ZooKeeper: two questions take 600 ms each, the write is carried out after
    1.5 s, and for 0.3 s the answer is on its way.
    """
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
    leader, joining, other = (Who(broker=broker) for broker in topic.replicas[0])
    back = t + 3_500
    lost = back + rng.randint(1_560, 1_740)
    return extended(
        plainly(plan),
        [
            *led_from_outside(topic.replicas[0], t),
            (t - 300, produce(-1, 1)),
            (t, Pause(who=joining, for_ms=back - t)),
            (t + 50, produce(1, 1)),
            (back - 100, SlowZooKeeper(who=leader, delay_ms=300, for_ms=3_500)),
            (back + 1_000, unheard(leader, 7_000)),
            (back + 1_000, unheard(other, 7_000)),
            (lost, DropZooKeeperConnection(who=leader)),
            (lost + 20, ExpireSession(who=leader)),
            *((back + 2_000 + 60 * n, produce(-1, 1)) for n in range(60)),
        ],
        topics=[topic],
        settings=(
            ("auto.leader.rebalance.enable", "false"),
            ("replica.fetch.backoff.ms", "100"),
            ("replica.lag.time.max.ms", "1500"),
            ("replica.socket.timeout.ms", "5000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=4,
        run_ms=t + 12_000,
    )


def unheard(who: Who, for_ms: int) -> Isolate:
    """It does not hear the controller."""
    return Isolate(
        who=who, peer=CONTROLLER, direction="in", clients=False, zookeeper=False, for_ms=for_ms
    )


def short_watermark(plan: Plan, rng: Random) -> Plan:
    """A new leader does not know yet that its last records are committed, and a follower that
    lacks just these fetches from it before anybody else does.

    That one had all when its session ended, and it with it in the ISR: one that is dropped for
    lagging lacks more, which the next leader knows of.
    """
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
    ids = topic.replicas[0]
    first, second, last = (Who(broker=broker) for broker in ids)
    out = t + 2_500
    return extended(
        plainly(plan),
        [
            *led_from_outside(topic.replicas[0], t),
            (t, Reassign(topic=TOPIC, partition=0, replicas=(ids[1], ids[0], ids[2]))),
            (t + 100, produce(-1, rng.choice((1, 3)))),
            (t + 1_200, apart(last, first, 4_500)),
            (t + 1_300, ExpireSession(who=last)),
            (out, SlowLink(who=second, peer=last, delay_ms=200, for_ms=2_000)),
            (out, produce(1, 1)),
            (out + rng.randint(10, 40), apart(first, second, 1_500)),
            (out + rng.randint(50, 200), ElectPreferred()),
            *((out + 1_500 + 100 * n, produce(rng.choice((-1, 1)), 1)) for n in range(20)),
        ],
        topics=[topic],
        settings=(
            ("auto.leader.rebalance.enable", "false"),
            ("replica.fetch.backoff.ms", "100"),
            ("replica.fetch.wait.max.ms", "500"),
            ("replica.lag.time.max.ms", "1500"),
            ("replica.socket.timeout.ms", "5000"),
        ),
        brokers=4,
        run_ms=t + 8_000,
    )


def too_few_left(plan: Plan, rng: Random) -> Plan:
    """Records wait for a follower that is dropped from the ISR, and then too few are left: who
    let them in with enough of them must not say so any more."""
    topic, t = topic_of_three(plan, rng, min_insync_replicas="3"), beginning(plan, rng)
    leader, _, last = (Who(broker=broker) for broker in topic.replicas[0])
    return extended(
        plainly(plan),
        [
            (t, apart(last, leader, rng.randint(2_500, 4_000))),
            *((t + 100 * n, produce(-1, 1)) for n in range(30)),
        ],
        topics=[topic],
        settings=(
            ("replica.fetch.wait.max.ms", "100"),
            ("replica.lag.time.max.ms", "1000"),
            ("replica.socket.timeout.ms", "1500"),
        ),
        brokers=3,
        run_ms=t + 8_000,
    )


def away_and_back(plan: Plan, rng: Random) -> Plan:
    """A replica is moved off a broker and back to it before that broker, far from ZooKeeper, has
    heard that it is to be closed; by then it is in the ISR again."""
    topic, t = topic_of_three(plan, rng, 4, min_insync_replicas="1"), beginning(plan, rng)
    first, second, last = topic.replicas[0]
    spare = next(broker for broker in range(1, 5) if broker not in topic.replicas[0])
    way_ms = rng.randint(600, 900)
    return extended(
        plainly(plan),
        [
            *((t + 100 * n, produce(-1, 1)) for n in range(80)),
            (t, SlowZooKeeper(who=Who(broker=last), delay_ms=way_ms, for_ms=7_000)),
            (t + 100, Reassign(topic=TOPIC, partition=0, replicas=(first, second, spare))),
            (
                t + rng.randint(1_000, 1_800),
                Reassign(topic=TOPIC, partition=0, replicas=(first, second, last)),
            ),
        ],
        topics=[topic],
        settings=(
            ("replica.fetch.backoff.ms", "100"),
            ("replica.lag.time.max.ms", "10000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=4,
        run_ms=t + 12_000,
    )


def sent_elsewhere(plan: Plan, rng: Random) -> Plan:
    """A partition is on its way to two brokers, of which one is in the ISR by then and the other
    cannot be, and is sent elsewhere instead. The one counts for as long as it may be elected, and
    keeps nothing once it is to have none."""
    topic = topic_of_three(plan, rng, 5, min_insync_replicas="1")
    t = beginning(plan, rng)
    first, second, last = topic.replicas[0]
    one, other = (broker for broker in range(1, 6) if broker not in topic.replicas[0])
    instead = t + rng.randint(300, 1_200)
    return extended(
        plainly(plan),
        [
            *((t + 50 * n, produce(rng.choice((-1, -1, 1)), 1)) for n in range(80)),
            (t - 100, apart(Who(broker=other), Who(broker=first), 3_000)),
            (t, Reassign(topic=TOPIC, partition=0, replicas=(first, one, other))),
            (instead, Reassign(topic=TOPIC, partition=0, replicas=(first, second, last))),
            (instead + rng.randint(-50, 20), apart(Who(broker=one), Who(broker=first), 2_000)),
        ],
        topics=[topic],
        settings=(
            ("replica.fetch.backoff.ms", "100"),
            ("replica.lag.time.max.ms", "10000"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=5,
        run_ms=t + 9_000,
    )


def doomed_shrink(plan: Plan, rng: Random) -> Plan:
    """A topic is deleted while its leader's ISR write is carried out and the leader has not heard
    of that; producers wait for those who are left.

    The write is decided on 0.6 to 1 s after the follower was cut off, carried out 2.4 s later, and
    answered in 0.8 s more.
    """
    topic = topic_of_three(plan, rng, 4, min_insync_replicas="1")
    t = beginning(plan, rng) + UNTIL_LED_MS
    leader, _, last = (Who(broker=broker) for broker in topic.replicas[0])
    return extended(
        plan,
        [
            *led_from_outside(topic.replicas[0], t),
            *((t + 100 * n, produce(-1, 1)) for n in range(40)),
            (t, apart(last, leader, 4_500)),
            (t + 500, SlowZooKeeper(who=leader, delay_ms=800, for_ms=4_000)),
            (t + rng.randint(3_250, 3_500), DeleteTopic(topic=TOPIC)),
        ],
        topics=[topic],
        settings=(
            ("replica.fetch.wait.max.ms", "100"),
            ("replica.lag.time.max.ms", "600"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=4,
        run_ms=t + 8_000,
    )


def made_again(plan: Plan, rng: Random) -> Plan:
    """A topic is deleted and made again while a follower's fetch of it is under way: the new one
    begins in the same epoch, and the offset in the request is the former one's.

    Another topic keeps the connection open over which it comes. Records of acks=1 carry the new
    log past that offset, and those of acks=-1 would be acknowledged by it.
    """
    topic, t = topic_of_three(plan, rng, 4, min_insync_replicas="1"), beginning(plan, rng)
    leader, _, follower = (Who(broker=broker) for broker in topic.replicas[0])
    late = SlowLink(who=follower, peer=leader, delay_ms=rng.randint(3_500, 5_000), for_ms=150)
    return extended(
        plainly(plan),
        [
            (t, late),
            (t + 30, produce(1, rng.choice((1, 3)))),
            (t + 400, DeleteTopic(topic=TOPIC)),
            *((t + after, topic) for after in (1_500, 2_000)),
            *((t + 2_600 + 50 * n, produce(-1, 1)) for n in range(30)),
            *((t + 2_625 + 50 * n, produce(1, 1)) for n in range(30)),
        ],
        topics=[topic, replace(topic, topic=f"{TOPIC}-beside")],
        settings=(
            ("auto.leader.rebalance.enable", "false"),
            ("replica.fetch.wait.max.ms", "500"),
            ("replica.lag.time.max.ms", "10000"),
            ("replica.socket.timeout.ms", "10000"),
        ),
        brokers=4,
        run_ms=t + 10_000,
    )


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
    return extended(
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
    return extended(
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


PARTITION = f"/brokers/topics/{TOPIC}/partitions/0"


def written_unheard(plan: Plan, rng: Random) -> Plan:
    """A broker is elected controller, a leader takes a follower out of the ISR and lets it in
    again, and of each the answer is lost with the connection. Tried again, both meet what they have
    written themselves."""
    topic, t = topic_of_three(plan, rng, min_insync_replicas="1"), beginning(plan, rng)
    last = Who(broker=topic.replicas[0][2])
    count = max(plan.brokers, 3)
    away = t + 2_000
    return extended(
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
    return extended(
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
    return extended(
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
