"""Knots of the ISR: who joins it, who leaves it, and what the leader may believe meanwhile."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import (
    DeleteTopic,
    DeposeController,
    DropZooKeeperConnection,
    ElectPreferred,
    ExpireSession,
    Isolate,
    Kill,
    LosePower,
    Pause,
    Reassign,
    SlowLink,
    SlowZooKeeper,
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


def joined_unseen(plan: Plan, rng: Random) -> Plan:
    """A follower is let into the ISR and loses power before the controller has heard of it."""
    topic, t = topic_of_three(plan, rng), beginning(plan, rng)
    last = Who(broker=topic.replicas[0][-1])
    down = rng.randint(2_300, 3_000)
    again = t + down + rng.randint(400, 3_000)
    return tied(
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
    return tied(
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
    return tied(
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
    return tied(
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
    return tied(
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
    return tied(
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


def too_many_messages(plan: Plan, rng: Random) -> Plan:
    """In 0.8 a follower that is too many messages behind is dropped long before its time is over;
    a producer that waits for it is answered then. It holds the watermark until its time is over, in
    which nobody sends any more."""
    topic, t = topic_of_three(plan, rng, min_insync_replicas="1"), beginning(plan, rng)
    leader, _, last = (Who(broker=broker) for broker in topic.replicas[0])
    return tied(
        plainly(plan),
        [
            (t, apart(last, leader, 6_500)),
            *((t + 100 * n, produce(rng.choice((-1, 1)), 1)) for n in range(40)),
        ],
        topics=[topic],
        settings=(
            ("ackproof.generation", "0.8"),
            ("replica.lag.max.messages", rng.choice(("1", "5"))),
            ("replica.lag.time.max.ms", "5000"),
        ),
        brokers=3,
        run_ms=t + 7_000,
    )


def away_and_back(plan: Plan, rng: Random) -> Plan:
    """A replica is moved off a broker and back to it before that broker, far from ZooKeeper, has
    heard that it is to be closed; by then it is in the ISR again."""
    topic, t = topic_of_three(plan, rng, 4, min_insync_replicas="1"), beginning(plan, rng)
    first, second, last = topic.replicas[0]
    spare = next(broker for broker in range(1, 5) if broker not in topic.replicas[0])
    way_ms = rng.randint(600, 900)
    return tied(
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
    return tied(
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


def taken_out(plan: Plan, rng: Random) -> Plan:
    """A broker without a controller has carried out a request to start a replica, and takes it out
    of its queue; the connection is lost with that. As long as it lies there the replica, which is
    being moved there, is not let into the ISR.

    ZooKeeper is far: of the notification and three questions each takes its way there and back.
    """
    topic, t = topic_of_three(plan, rng, 4, min_insync_replicas="1"), beginning(plan, rng)
    first, second, _ = topic.replicas[0]
    spare = next(broker for broker in range(1, 5) if broker not in topic.replicas[0])
    lost = t + rng.randint(1_900, 2_400)
    again = lost + rng.randint(1_450, 1_700)
    return tied(
        plainly(plan),
        [
            *((t + 100 * n, produce(1, 1)) for n in range(30)),
            (t, SlowZooKeeper(who=Who(broker=spare), delay_ms=200, for_ms=5_000)),
            (t + 20, Reassign(topic=TOPIC, partition=0, replicas=(first, second, spare))),
            *((at, DropZooKeeperConnection(who=Who(broker=spare))) for at in (lost, again)),
        ],
        topics=[topic],
        settings=(("zookeeper.session.timeout.ms", "6000"),),
        brokers=4,
        run_ms=t + 6_000,
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
    return tied(
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
    return tied(
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
