"""Scenarios of producers, disks and groups."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from simulation.plans.actions import (
    Action,
    BreakDisk,
    CommitALot,
    Consume,
    CreateTopic,
    CutFromClients,
    DeleteRecords,
    ElectPreferred,
    ExpireSession,
    Isolate,
    Kill,
    LosePower,
    LosePowerAfter,
    Pause,
    Produce,
    SlowDisk,
    Stop,
    Timed,
    Who,
)
from simulation.plans.plan import Plan, Settings
from simulation.plans.scenarios.building import (
    LEADER,
    TOPIC,
    beginning,
    extended,
    plainly,
    produce,
    topic_of_three,
)
from simulation.plans.scenarios.leaders import to_and_fro

IN_FLIGHT = 5
"""What Kafka's clients have at most (``max.in.flight.requests.per.connection``)."""


UNREPLICATED = 0.4
"""Of these scenarios, that the partition has one replica: nobody else may lead it."""
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
    return extended(
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
    return extended(
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


def named_and_unsynced(plan: Plan, rng: Random) -> Plan:
    """A log of small segments, each record flushed: the power fails behind a flush of a segment
    whose name may not be there yet, or beside one that is being deleted."""
    topic = topic_of_three(
        plan, rng, min_insync_replicas="1", segment_bytes="500", flush_messages="1"
    )
    t = beginning(plan, rng)
    who = Who(broker=rng.choice(topic.replicas[0]))
    beside = len(plan.producers)
    plan = numbered(plan)
    return extended(
        replace(plan, producers=(*plan.producers, False)),
        [
            (t - 400, burst(100, 50)),
            *((t + 60 * n, replace(produce(1, 1), producer=beside)) for n in range(100)),
            *((t + 1_800 * n, _failing(who, rng, 1_000)) for n in range(4)),
            *((t + at, DeleteRecords(topic=TOPIC, partition=0)) for at in (1_900, 3_700)),
        ],
        topics=[topic],
        settings=(
            ("replica.lag.time.max.ms", "3000"),
            ("zookeeper.session.timeout.ms", "2000"),
        ),
        brokers=3,
        run_ms=t + 9_000,
    )


def failed_while_handing_over(plan: Plan, rng: Random) -> Plan:
    """A broker is to end and does not reach the controller. While it waits its disk refuses to
    sync, and when its logs are closed it works again: what was refused was written in the
    background, so that no log knows of it."""
    topic, t = topic_of_three(plan, rng, min_insync_replicas="1"), beginning(plan, rng)
    who = Who(broker=rng.choice(topic.replicas[0]))
    unheard = Isolate(
        who=who,
        peer=Who(role="controller"),
        direction="both",
        clients=False,
        zookeeper=False,
        for_ms=800,
    )
    ends: list[tuple[float, Action]] = []
    for at in (t, t + 4_000):
        fails_ms = rng.randint(200, 400)
        broken = BreakDisk(who=who, operation="fsync", for_ms=fails_ms)
        ends += [
            (at - 10, unheard),
            (at, Stop(who=who, down_ms=500)),
            (at + rng.randint(50, 300), broken),
        ]
    return extended(
        plan,
        [(t - 400, burst(40, 50)), *ends, (t + 4_000, burst(40, 50))],
        topics=[topic],
        settings=(
            ("replica.high.watermark.checkpoint.interval.ms", "100"),
            ("zookeeper.session.timeout.ms", "2000"),
        ),
        brokers=3,
        run_ms=t + 8_000,
    )


def _failing(who: Who, rng: Random, for_ms: int) -> LosePowerAfter:
    return LosePowerAfter(
        who=who,
        operation=rng.choice(("write", "cut", "names", "sync")),
        nth=rng.randint(1, 8),
        for_ms=for_ms,
        down_ms=rng.choice((50, 400)),
    )


def cut_while_flushing(plan: Plan, rng: Random) -> Plan:
    """As in to and fro, and what the second broker is to give up is being flushed: of small
    segments each full one is, in the background, on a disk that is slow by then, and now and then
    whatever has waited for 100 ms.

    What such a flush says to be durable when it is over is not what has come in the place of what
    it began with; nor are the producers that were remembered with it. That is less, and too little
    for another segment: whoever begins one flushes at once, and the flush before counts no more.
    """
    plan = to_and_fro(plan, rng)
    *others, topic = plan.topics
    unflushed = {name: value for name, value in topic.config if name != "flush.messages"}
    begins = min(t.at_ms for t in plan.actions if isinstance(t.action, ElectPreferred))
    ends = max(t.at_ms for t in plan.actions if isinstance(t.action, ElectPreferred))
    slow = SlowDisk(
        who=Who(broker=topic.replicas[0][1]),
        delay_ms=rng.choice((500, 1_000, 2_000)),
        for_ms=plan.run_ms,
    )
    kept = (_few(timed, begins) for timed in plan.actions if not _is_late(timed, ends))
    slow_from = rng.choice((0, begins + rng.randint(800, 1_200)))
    in_time = (("flush.ms", "100"),) if rng.random() < 0.5 else ()
    config = (*unflushed.items(), ("segment.bytes", "400"), *in_time)
    return extended(
        replace(plan, topics=(*others, replace(topic, config=config))).with_actions(tuple(kept)),
        [
            (slow_from, slow),
            *((begins + 500 + 60 * n, produce(1, 3)) for n in range(13)),
        ],
        settings=(
            ("log.flush.offset.checkpoint.interval.ms", "500"),
            ("log.flush.scheduler.interval.ms", "100"),
        ),
    )


def cut_while_flushed_in_time(plan: Plan, rng: Random) -> Plan:
    """As in to and fro, and what the second broker is to give up is being flushed because what lies
    before it has waited for ``flush.ms``: that has to wait no longer than it takes to find out that
    this flush counts no more."""
    plan = to_and_fro(plan, rng)
    *others, topic = plan.topics
    begins = min(t.at_ms for t in plan.actions if isinstance(t.action, ElectPreferred))
    ends = max(t.at_ms for t in plan.actions if isinstance(t.action, ElectPreferred))
    kept = tuple(timed for timed in plan.actions if not _is_late(timed, ends))
    slow = SlowDisk(who=Who(broker=topic.replicas[0][1]), delay_ms=1_000, for_ms=plan.run_ms)
    in_time = replace(topic, config=(("flush.ms", "2500"), ("min.insync.replicas", "1")))
    return extended(
        replace(plan, topics=(*others, in_time)).with_actions(kept),
        [(begins + 700, slow)],
        settings=(("log.flush.scheduler.interval.ms", "100"),),
    )


def _few(timed: Timed, before_ms: int) -> Timed:
    """What the first leader appends is little."""
    action = timed.action
    if not isinstance(action, Produce) or action.topic != TOPIC or timed.at_ms >= before_ms:
        return timed
    return replace(timed, action=replace(action, batches=1))


def _is_late(timed: Timed, after_ms: int) -> bool:
    action = timed.action
    return isinstance(action, Produce) and action.topic == TOPIC and timed.at_ms > after_ms


COORDINATOR = Who(role="leader", topic=OFFSETS_TOPIC)
"""With one partition of ``__consumer_offsets``, of all groups."""

ONE_COORDINATOR: Settings = (
    ("auto.leader.rebalance.enable", "false"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("offsets.topic.num.partitions", "1"),
    ("offsets.topic.replication.factor", "3"),
    ("zookeeper.session.timeout.ms", "4000"),
)
GROUP = "k"


def member(for_ms: int, sleeps_ms: int = 0, *, leaves: bool = False) -> Consume:
    """Of the scenario's own group."""
    return Consume(group=GROUP, topic=TOPIC, for_ms=for_ms, leaves=leaves, sleeps_ms=sleeps_ms)


def with_group(
    plan: Plan, rng: Random, actions: Iterable[tuple[float, Action]], run_ms: int
) -> Plan:
    """On a topic with two partitions, of which the first takes records all the time: each commit
    is another one."""
    first = topic_of_three(plan, rng, 4)
    topic = CreateTopic(topic=TOPIC, replicas=first.replicas * 2)
    records = [(100.0 * n, produce(1, 1)) for n in range(run_ms // 100)]
    return extended(
        plainly(plan),
        [*records, *actions],
        topics=[topic],
        settings=ONE_COORDINATOR,
        brokers=4,
        run_ms=run_ms,
    )


def coordinator_away_and_back(plan: Plan, rng: Random) -> Plan:
    """A group's coordinator loses its office, another stores commits meanwhile, and the first one
    has it again: what it knew is old."""
    away = rng.randint(4_000, 6_000)
    back = away + rng.randint(3_000, 5_000)
    return with_group(
        plan,
        rng,
        [
            (0, member(back + 6_000)),
            (200, member(rng.choice((away + 500, back + 6_000)))),
            (away, ExpireSession(who=COORDINATOR)),
            *((back + 700 * n, ElectPreferred()) for n in range(3)),
            (back + 2_500, member(5_000, leaves=True)),
        ],
        run_ms=back + 9_000,
    )


def coordinator_lost(plan: Plan, rng: Random) -> Plan:
    """A coordinator is gone just when a generation begins or is given its assignments; who comes
    after it knows what it had stored, and no more."""
    joins = rng.randint(3_000, 5_000)
    gone = joins + rng.randint(300, 700)  # after the others have been called by a heartbeat
    loss: Action = rng.choice(
        (Kill(who=COORDINATOR, down_ms=3_000), Pause(who=COORDINATOR, for_ms=9_000))
    )
    return with_group(
        plan,
        rng,
        [
            (0, member(joins + 14_000)),
            (joins, member(joins + 10_000)),
            (gone, loss),
            (gone + 10, ExpireSession(who=COORDINATOR)),
            (gone + rng.randint(500, 3_000), member(8_000)),
        ],
        run_ms=joins + 15_000,
    )


def assignments_overtaken(plan: Plan, rng: Random) -> Plan:
    """What a generation's leader has assigned waits to be stored, since a follower of the
    coordinator is cut off, and others come and go meanwhile: by the time that it is stored there is
    another generation, which is given its own or nothing. So do commits, or their time is over."""
    joins = rng.randint(3_000, 5_000)
    held_up = Isolate(
        who=COORDINATOR,
        peer=Who(role="follower", topic=OFFSETS_TOPIC),
        direction="both",
        clients=False,
        zookeeper=False,
        for_ms=rng.randint(2_500, 4_000),
    )
    plan = with_group(
        plan,
        rng,
        [
            (0, member(joins + 12_000)),
            (joins, member(joins + 9_000)),
            (joins + rng.randint(0, 800), held_up),
            *((joins + 700 * n, member(6_000)) for n in range(1, 6)),
            (joins + 900, CommitALot(topic=TOPIC, groups=3, rounds=2, metadata_bytes=10)),
        ],
        run_ms=joins + 14_000,
    )
    return extended(
        plan,
        (),
        settings=(
            ("offsets.commit.timeout.ms", rng.choice(("1000", "5000"))),
            ("replica.lag.time.max.ms", "10000"),
        ),
    )
