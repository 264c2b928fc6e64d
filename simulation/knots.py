"""Knots: what a plan drawn at random hardly ever has, tied into one on purpose.

Each is a way in which something did go wrong, or would without one line of the broker: actions
that mean something in this order and within this time only. They have a topic of their own,
``k0``, so that what else the plan does to its topics does not undo them.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Final

from simulation.actions import (
    CLIENT_WORK,
    Action,
    AddPartitions,
    CommitALot,
    Consume,
    CreateTopic,
    DeleteTopic,
    DeposeController,
    ElectPreferred,
    ExpireSession,
    Isolate,
    Kill,
    LosePower,
    MixUpDisks,
    Pause,
    Produce,
    Reassign,
    SlowZooKeeper,
    Timed,
    Who,
    WriteNonsense,
)
from simulation.plan import Plan, Settings

ODDS: Final = 0.3
"""Of a plan that it has a knot."""

ALONE: Final = 0.5
"""Of a knot that nothing else happens to the cluster."""

TOPIC: Final = "k0"
LEADER, FOLLOWER, STRAGGLER = (
    Who(role="leader", topic=TOPIC),
    Who(role="follower", topic=TOPIC),
    Who(role="straggler", topic=TOPIC),
)
CONTROLLER: Final = Who(role="controller")

Knot = Callable[[Plan, Random], Plan]


def tie(plan: Plan, rng: Random, knot: str | None) -> Plan:
    """``plan`` with this knot; None: with any or none."""
    if knot is None:
        if rng.random() >= ODDS:
            return plan
        knot = rng.choice(list(KNOTS))
    if rng.random() < ALONE:
        kept = (timed for timed in plan.actions if isinstance(timed.action, CLIENT_WORK))
        plan = plan.with_actions(tuple(kept))
    return KNOTS[knot](plan, rng)


def _with(
    plan: Plan,
    actions: Iterable[tuple[float, Action]],
    *,
    settings: Settings = (),
    topics: Iterable[CreateTopic] = (),
    brokers: int = 1,
    run_ms: int = 0,
) -> Plan:
    """At least so many brokers, and so long a run."""
    timed = [Timed(at_ms=int(at_ms), action=action) for at_ms, action in actions]
    return replace(
        plan,
        brokers=max(plan.brokers, brokers),
        settings=tuple({**dict(plan.settings), **dict(settings)}.items()),
        topics=(*plan.topics, *topics),
        actions=tuple(sorted((*plan.actions, *timed), key=lambda each: each.at_ms)),
        run_ms=max(plan.run_ms, run_ms),
    )


def _topic(plan: Plan, rng: Random, brokers: int = 3, **config: str) -> CreateTopic:
    """On three of the brokers."""
    replicas = rng.sample(range(1, max(plan.brokers, brokers) + 1), 3)
    given = tuple((name.replace("_", "."), value) for name, value in config.items())
    return CreateTopic(topic=TOPIC, replicas=(tuple(replicas),), config=given)


def _produce(acks: int, batches: int, pause_ms: int = 0) -> Produce:
    return Produce(
        producer=0,
        topic=TOPIC,
        partition=0,
        acks=acks,  # type: ignore[arg-type]
        batches=batches,
        records=1,
        pause_ms=pause_ms,
    )


def _begin(plan: Plan, rng: Random) -> int:
    return rng.randrange(500, max(1_000, plan.run_ms - 8_000))


# --- replication ------------------------------------------------------------------------------


def _joined_unseen(plan: Plan, rng: Random) -> Plan:
    """A follower is let into the ISR and loses power before the controller has heard of it."""
    topic, t = _topic(plan, rng), _begin(plan, rng)
    last = Who(broker=topic.replicas[0][-1])
    down = rng.randint(2_300, 3_000)
    again = t + down + rng.randint(400, 3_000)
    return _with(
        plan,
        [
            *((t + 300 * n, _produce(-1, 3)) for n in range(40)),
            (t, Kill(who=last, down_ms=down)),
            (again, LosePower(who=last, down_ms=rng.randint(50, 300))),
        ],
        topics=[topic],
        settings=(("zookeeper.session.timeout.ms", "2000"), ("replica.lag.time.max.ms", "3000")),
        brokers=3,
        run_ms=t + 20_000,
    )


def _joining_in_flight(plan: Plan, rng: Random) -> Plan:
    """A follower is in the ISR as ZooKeeper has it, its leader has not heard of that, and does not
    hear of the follower any more."""
    topic, t = _topic(plan, rng, 4, min_insync_replicas="1"), _begin(plan, rng)
    leader, _, last = (Who(broker=broker) for broker in topic.replicas[0])
    back = t + rng.randint(2_500, 3_000)
    silent = Isolate(
        who=last, peer=leader, direction="both", clients=False, zookeeper=False, for_ms=3_000
    )
    return _with(
        plan,
        [
            *((t + 2_000 + 50 * n, _produce(rng.choice((-1, -1, 1)), 1)) for n in range(80)),
            (t, Kill(who=last, down_ms=back - t)),
            (back - 100, SlowZooKeeper(who=leader, delay_ms=300, for_ms=4_000)),
            (back + rng.randint(150, 1_300), silent),
        ],
        topics=[topic],
        settings=(("zookeeper.session.timeout.ms", "2000"), ("replica.lag.time.max.ms", "3000")),
        brokers=4,
        run_ms=t + 9_000,
    )


def _former_controller(plan: Plan, rng: Random) -> Plan:
    """A controller says who leads; a replica hears of it after two elections of its successor.

    An election of the preferred leader is what the controller says to a replica first: of a broker
    that came or went it speaks in UpdateMetadata, and what is to follow waits for the answer.
    Before, it must have heard that the preferred one is in the ISR again, which takes it 7.5 s.
    """
    topic, t = _topic(plan, rng, 4), _begin(plan, rng) + 9_000
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
    return _with(
        plan,
        [
            *((t - 500 + 150 * n, _produce(rng.choice((-1, 1)), 1)) for n in range(20)),
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


def _left_behind(plan: Plan, rng: Random) -> Plan:
    """One follower has not heard of two elections, and fetches from a leader who has followed
    another in between; it holds what they all gave up."""
    topic, t = _topic(plan, rng, 4, min_insync_replicas="1"), _begin(plan, rng)
    first, second, last = (Who(broker=broker) for broker in topic.replicas[0])
    unheard = Isolate(
        who=CONTROLLER,
        peer=last,
        direction="out",
        clients=False,
        zookeeper=False,
        for_ms=rng.randint(3_000, 5_000),
    )
    apart = Isolate(
        who=first, peer=second, direction="both", clients=False, zookeeper=False, for_ms=700
    )
    return _with(
        plan,
        [
            (t, unheard),
            (t, apart),
            (t + 50, _produce(1, rng.choice((2, 5, 10)))),
            (t + rng.randint(400, 650), ExpireSession(who=first)),
            (t + rng.randint(1_200, 2_500), ElectPreferred()),
            (t + 2_600, ElectPreferred()),
            *((t + 1_000 + 100 * n, _produce(rng.choice((-1, 1)), 1)) for n in range(40)),
        ],
        topics=[topic],
        settings=(
            ("replica.lag.time.max.ms", "10000"),
            ("replica.socket.timeout.ms", "1500"),
            ("controller.socket.timeout.ms", "5000"),
        ),
        brokers=4,
        run_ms=t + 10_000,
    )


def _doomed_shrink(plan: Plan, rng: Random) -> Plan:
    """A topic is deleted while its leader's ISR write is carried out and the leader has not heard
    of that; producers wait for those who are left."""
    topic, t = _topic(plan, rng, 4, min_insync_replicas="1"), _begin(plan, rng)
    leader, _, last = (Who(broker=broker) for broker in topic.replicas[0])
    shrink = t + 1_000
    silent = Isolate(
        who=last, peer=leader, direction="both", clients=False, zookeeper=False, for_ms=4_000
    )
    return _with(
        plan,
        [
            *((t + 100 * n, _produce(-1, 1)) for n in range(40)),
            (t, silent),
            (
                shrink - 200,
                SlowZooKeeper(who=leader, delay_ms=rng.randint(200, 400), for_ms=3_000),
            ),
            (shrink + rng.randint(900, 1_700), DeleteTopic(topic=TOPIC)),
        ],
        topics=[topic],
        settings=(("replica.lag.time.max.ms", "1000"), ("zookeeper.session.timeout.ms", "6000")),
        brokers=4,
        run_ms=t + 8_000,
    )


# --- administration ---------------------------------------------------------------------------


def _twins(plan: Plan, rng: Random) -> Plan:
    """Two administrators make topics of the same names at the same time."""
    t = _begin(plan, rng)
    made: list[tuple[float, Action]] = []
    for number in range(8):
        replicas = (tuple(rng.sample(range(1, plan.brokers + 1), min(2, plan.brokers))),)
        for min_isr in ("1", "2"):
            config = (("min.insync.replicas", min_isr),)
            topic = CreateTopic(topic=f"w{number}", replicas=replicas, config=config)
            made.append((t + 400 * number + rng.choice((0, 0, 2)), topic))
    return _with(plan, made, run_ms=t + 8_000)


def _moved_and_extended(plan: Plan, rng: Random) -> Plan:
    """Partitions are added to a topic of which others are just being moved, and the controller
    hears of them late."""
    topic, t = _topic(plan, rng, 4), _begin(plan, rng)
    orders: list[tuple[float, Action]] = []
    for number in range(10):
        target = tuple(rng.sample(range(1, max(plan.brokers, 4) + 1), 3))
        at = t + 1_200 * number
        orders.append((at, Reassign(topic=TOPIC, partition=0, replicas=target)))
        orders.append((at + rng.randint(-10, 30), AddPartitions(topic=TOPIC, replicas=(target,))))
    late = replace(plan, zookeeper_servers=3, zookeeper_lag_ms=50)
    return _with(late, orders, topics=[topic], brokers=4, run_ms=t + 14_000)


def _nonsense(plan: Plan, rng: Random) -> Plan:
    """Orders that nobody understands."""
    paths = ("/admin/preferred_replica_election", "/admin/reassign_partitions")
    left = WriteNonsense(path=rng.choice(paths), for_ms=rng.randint(100, 3_000))
    return _with(plan, [(_begin(plan, rng), left)])


def _placed(plan: Plan, _rng: Random) -> Plan:
    """The broker chooses who leads."""
    return replace(plan, placed_topics=4)


# --- machines ---------------------------------------------------------------------------------


def _mixed_disks(plan: Plan, rng: Random) -> Plan:
    """Two machines get each other's disk."""
    topic, t = _topic(plan, rng), _begin(plan, rng)
    who, other, _ = (Who(broker=broker) for broker in topic.replicas[0])
    return _with(
        plan,
        [
            *((100 + 100 * n, _produce(1, 3)) for n in range(10)),
            (t, MixUpDisks(who=who, other=other, for_ms=rng.choice((3_000, 8_000)))),
        ],
        topics=[topic],
        brokers=3,
        run_ms=t + 10_000,
    )


# --- groups -----------------------------------------------------------------------------------


def _many_commits(plan: Plan, _rng: Random) -> Plan:
    """The offsets topic is rewritten, with more than a batch holds."""
    lots = CommitALot(topic=plan.topics[0].topic, groups=620, rounds=2, metadata_bytes=4_000)
    return _with(
        plan, [(0, lots)], settings=(("offsets.topic.num.partitions", "1"),), run_ms=40_000
    )


def _offsets_half_made(plan: Plan, rng: Random) -> Plan:
    """The offsets topic is made by one who has not heard yet that a broker is gone, so that some
    of its partitions have no state before that one is back."""
    dead = Who(broker=rng.randint(1, 3))
    topic = plan.topics[0].topic
    return _with(
        plan,
        [
            (0, Pause(who=CONTROLLER, for_ms=2_500)),
            (20, Kill(who=dead, down_ms=12_000)),
            (100, ExpireSession(who=dead)),
            *(
                (400 + 200 * n, Consume(group=f"g{n}", topic=topic, for_ms=7_000, leaves=True))
                for n in range(4)
            ),
            *(
                (
                    200 * n,
                    Produce(
                        producer=0,
                        topic=topic,
                        partition=0,
                        acks=1,
                        batches=1,
                        records=1,
                        pause_ms=0,
                    ),
                )
                for n in range(30)
            ),
        ],
        settings=(
            ("offsets.topic.num.partitions", "6"),
            ("offsets.topic.replication.factor", "1"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        brokers=3,
        run_ms=20_000,
    )


KNOTS: Final[dict[str, Knot]] = {
    "joined unseen": _joined_unseen,
    "joining in flight": _joining_in_flight,
    "former controller": _former_controller,
    "left behind": _left_behind,
    "doomed shrink": _doomed_shrink,
    "twins": _twins,
    "moved and extended": _moved_and_extended,
    "nonsense": _nonsense,
    "placed": _placed,
    "mixed disks": _mixed_disks,
    "many commits": _many_commits,
    "offsets half made": _offsets_half_made,
}
