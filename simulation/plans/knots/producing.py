"""Knots of idempotent producers: answers that are lost, and leaders that must remember."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import (
    Action,
    CreateTopic,
    CutFromClients,
    DeleteRecords,
    ElectPreferred,
    ExpireSession,
    Isolate,
    Kill,
    LosePower,
    Pause,
    Produce,
    SlowDisk,
    Stop,
    Who,
)
from simulation.plans.knots.strands import LEADER, TOPIC, beginning, produce, tied, topic_of_three
from simulation.plans.plan import Plan

IN_FLIGHT = 5
"""What Kafka's clients have at most (``max.in.flight.requests.per.connection``)."""


UNREPLICATED = 0.4
"""Of these knots, that the partition has one replica: nobody else may lead it."""
STARTS: tuple[Action, ...] = (
    Kill(who=LEADER, down_ms=50),
    Kill(who=LEADER, down_ms=400),
    Stop(who=LEADER, down_ms=1_000),
)
RESIGNATIONS: tuple[Action, ...] = (
    Kill(who=LEADER, down_ms=6_000),
    LosePower(who=LEADER, down_ms=400),
    Stop(who=LEADER, down_ms=3_000),
    ExpireSession(who=LEADER),
    Pause(who=LEADER, for_ms=6_000),
)


def burst(batches: int, pause_ms: int) -> Produce:
    """By the plan's first producer; see :func:`numbered`."""
    return Produce(
        producer=0,
        topic=TOPIC,
        partition=0,
        acks=-1,
        batches=batches,
        records=1,
        pause_ms=pause_ms,
        in_flight=IN_FLIGHT,
    )


def numbered(plan: Plan) -> Plan:
    """The first producer is idempotent, and sends nothing else."""
    others = (
        timed
        for timed in plan.actions
        if not (isinstance(timed.action, Produce) and timed.action.producer == 0)
    )
    return replace(plan, producers=(True, *plan.producers[1:])).with_actions(tuple(others))


def answers_lost(plan: Plan, rng: Random) -> Plan:
    """Batches are appended, and their answers lost, just before somebody else leads, or the same
    broker again after a start: all of them are sent once more. Answers are lost for good when a
    client has given the connection up; else TCP sends them again, be their process dead or not."""
    three, t = topic_of_three(plan, rng), beginning(plan, rng)
    single = rng.random() < UNREPLICATED
    topic = replace(three, replicas=(three.replicas[0][:1],)) if single else three
    lost = t + rng.randint(300, 1_500)
    gone = lost + rng.randint(100, 400)
    change: Action = rng.choice(STARTS if single else RESIGNATIONS)
    return tied(
        numbered(plan),
        [
            (t, burst(100, rng.choice((100, 150)))),  # for two seconds at least
            (lost, CutFromClients(who=LEADER, direction="out", for_ms=rng.randint(4_200, 6_000))),
            (gone, change),
            (gone + 8_000, burst(6, 0)),
        ],
        topics=[topic],
        settings=(
            ("replica.lag.time.max.ms", "10000"),
            ("zookeeper.session.timeout.ms", "2000"),
        ),
        brokers=3,
        run_ms=t + 16_000,
    )


def cut_and_repeated(plan: Plan, rng: Random) -> Plan:
    """A leader that is deposed without knowing appends batches, gives them up as a follower, and
    leads again when they are repeated: they are not in its log any more. What somebody else has
    appended there meanwhile is committed, so that an answer out of memory would be an ack; and one
    out of a snapshot, since segments are small."""
    three = topic_of_three(plan, rng, min_insync_replicas="1", segment_bytes="200")
    t = beginning(plan, rng)
    topic = CreateTopic(topic=TOPIC, replicas=(three.replicas[0][:2],), config=three.config)
    apart = Isolate(
        who=LEADER, peer=None, direction="both", clients=False, zookeeper=True, for_ms=3_500
    )
    successor = Who(broker=three.replicas[0][1])
    beside = len(plan.producers)
    plan = numbered(plan)
    return tied(
        replace(plan, producers=(*plan.producers, False)),
        [
            (t - 400, burst(3, 50)),
            (t, apart),
            (t + rng.randint(20, 200), burst(10, 100)),
            (t, CutFromClients(who=successor, direction="in", for_ms=9_000)),
            *((t + 5_000 + 500 * n, ElectPreferred()) for n in range(8)),
            *((t + 4_000 + 100 * n, replace(produce(1, 1), producer=beside)) for n in range(60)),
        ],
        topics=[topic],
        settings=(
            ("auto.leader.rebalance.enable", "false"),
            ("replica.fetch.backoff.ms", "100"),
            ("replica.lag.time.max.ms", "10000"),
            ("zookeeper.session.timeout.ms", "2000"),
        ),
        brokers=3,
        run_ms=t + 16_000,
    )


def far_behind(plan: Plan, rng: Random) -> Plan:
    """A follower's fetch is lost with its connection, and with it where it would have gone on. When
    it is back, one partition's leader has what it lacks; the other's has deleted that, and begins
    where the follower has nothing: all that it has is thrown away, its producers with it."""
    three = topic_of_three(plan, rng, min_insync_replicas="1")
    topic, t = replace(three, replicas=three.replicas * 2), beginning(plan, rng)
    leader, _, last = (Who(broker=broker) for broker in topic.replicas[0])
    unheard = Isolate(
        who=last,
        peer=leader,
        direction="out",
        clients=False,
        zookeeper=False,
        for_ms=rng.randint(2_800, 3_500),
    )
    other = replace(produce(1, 1), producer=len(plan.producers), partition=1)
    plan = numbered(plan)
    return tied(
        replace(plan, producers=(*plan.producers, False)),
        [
            (t - 400, burst(80, 50)),
            *((t + 20 * n, other) for n in range(40)),
            (t + rng.randint(20, 200), unheard),
            *((t + at, DeleteRecords(topic=TOPIC, partition=0)) for at in (2_000, 2_400)),
            (t + 5_000, burst(5, 50)),
        ],
        topics=[topic],
        settings=(
            ("replica.fetch.backoff.ms", "100"),
            ("replica.lag.time.max.ms", "1000"),
            ("replica.socket.timeout.ms", "1500"),
        ),
        brokers=3,
        run_ms=t + 9_000,
    )


def torn_segments(plan: Plan, rng: Random) -> Plan:
    """The power fails, again and again, where a log has many small segments, of which the last ones
    may be on disk and earlier ones not, since each is flushed in the background and the disk is
    slow. Before, the broker has ended in good order, or was killed: what that one said of the log
    is not to be believed after the next end."""
    topic = topic_of_three(plan, rng, min_insync_replicas="1", segment_bytes="500")
    t = beginning(plan, rng)
    who = Who(broker=rng.choice(topic.replicas[0]))
    ends: tuple[Action, ...] = (Stop(who=who, down_ms=300), Kill(who=who, down_ms=50))
    cuts = (t + rng.randint(1_000, 2_000) + 2_700 * n for n in range(5))
    beside, large = len(plan.producers), replace(produce(1, 1), records=rng.choice((1, 10)))
    plan = numbered(plan)
    return tied(
        replace(plan, producers=(*plan.producers, False)),
        [
            (t - 400, burst(250, 50)),
            *((t + 100 * n, replace(large, producer=beside)) for n in range(120)),
            (0, SlowDisk(who=who, delay_ms=rng.choice((300, 1_000, 3_000)), for_ms=t + 14_000)),
            (t, rng.choice(ends)),
            *((at, LosePower(who=who, down_ms=rng.choice((50, 400)))) for at in cuts),
        ],
        topics=[topic],
        settings=(
            ("log.flush.offset.checkpoint.interval.ms", "500"),
            ("replica.lag.time.max.ms", "3000"),
            ("zookeeper.session.timeout.ms", "2000"),
        ),
        brokers=3,
        run_ms=t + 18_000,
    )
