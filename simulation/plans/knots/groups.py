"""Knots of consumer groups: coordinators that change, members that are silent for a while."""

from collections.abc import Iterable
from random import Random

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from simulation.plans.actions import (
    Action,
    CommitALot,
    Consume,
    CreateTopic,
    ElectPreferred,
    ExpireSession,
    Isolate,
    Kill,
    Pause,
    Who,
)
from simulation.plans.knots.strands import TOPIC, plainly, produce, tied, topic_of_three
from simulation.plans.plan import Plan, Settings

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
    """Of the knot's own group."""
    return Consume(group=GROUP, topic=TOPIC, for_ms=for_ms, leaves=leaves, sleeps_ms=sleeps_ms)


def with_group(
    plan: Plan, rng: Random, actions: Iterable[tuple[float, Action]], run_ms: int
) -> Plan:
    """On a topic with two partitions, of which the first takes records all the time: each commit
    is another one."""
    first = topic_of_three(plan, rng, 4)
    topic = CreateTopic(topic=TOPIC, replicas=first.replicas * 2)
    records = [(100.0 * n, produce(1, 1)) for n in range(run_ms // 100)]
    return tied(
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
    return tied(
        plan,
        (),
        settings=(
            ("offsets.commit.timeout.ms", rng.choice(("1000", "5000"))),
            ("replica.lag.time.max.ms", "10000"),
        ),
    )


def commits_overdue(plan: Plan, rng: Random) -> Plan:
    """Commits are not stored in time, since a follower of the coordinator is cut off: whoever has
    committed is told so, and the group goes by what it had, though they may be stored later."""
    begin = rng.randint(2_000, 4_000)
    held_up = Isolate(
        who=COORDINATOR,
        peer=Who(role="follower", topic=OFFSETS_TOPIC),
        direction="both",
        clients=False,
        zookeeper=False,
        for_ms=rng.randint(2_000, 4_000),
    )
    lots = CommitALot(topic=TOPIC, groups=9, rounds=1, metadata_bytes=10)
    plan = with_group(
        plan,
        rng,
        [
            (0, member(begin + 8_000)),
            (begin, held_up),
            *((begin + at, lots) for at in (100, 600)),  # the first ones of these groups
        ],
        run_ms=begin + 10_000,
    )
    overdue = (("offsets.commit.timeout.ms", "1000"), ("replica.lag.time.max.ms", "10000"))
    return tied(plan, (), settings=overdue)


def member_asleep(plan: Plan, rng: Random) -> Plan:
    """A member reads, is silent for longer than its session, and then commits: the other one has
    its partitions by then, and has read on."""
    return with_group(
        plan,
        rng,
        [
            (0, member(20_000, leaves=rng.random() < 0.5)),
            (rng.randint(500, 2_000), member(20_000, sleeps_ms=rng.randint(5_000, 9_000))),
        ],
        run_ms=22_000,
    )


def many_groups(plan: Plan, rng: Random) -> Plan:
    """What a new coordinator has to load is more than it reads at once."""
    lots = CommitALot(topic=TOPIC, groups=60, rounds=rng.choice((1, 2)), metadata_bytes=4_000)
    return with_group(
        plan,
        rng,
        [(500, lots), (rng.randint(4_000, 6_000), ExpireSession(who=COORDINATOR))],
        run_ms=10_000,
    )
