"""Named scenarios, one row each: sequences of actions that are hardly ever drawn by chance.

In each of them something did go wrong, or would without one line of the broker. The order and the
times of the actions matter. The scenarios have a topic of their own, which no other action of the
plan changes.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from simulation.plans.actions import (
    AddPartitionsOrder,
    BreakDisk,
    ClientWork,
    CommitMany,
    Consume,
    CutFromClients,
    DeleteRecordsOrder,
    DeleteTopicOrder,
    DeposeController,
    DropZooKeeperConnection,
    ElectPreferredOrder,
    ExpireSession,
    KillBroker,
    LoseAnswer,
    LoseBrokerPower,
    LosePowerAfter,
    PauseBroker,
    ReassignOrder,
    SlowDisk,
    SlowLink,
    SlowZooKeeper,
    StopBroker,
    Target,
)
from simulation.plans.plan import SimulationPlan, stream
from simulation.plans.scenario import (
    BESIDE,
    CONTROLLER,
    FIRST,
    FIVE,
    FOUR,
    LAST,
    LEADER,
    ONE,
    OTHER,
    SECOND,
    SPARE,
    THREE,
    TOPIC,
    TWO,
    Drawn,
    Scenario,
    Steps,
    between,
    burst,
    cut,
    cut_apart,
    every,
    move,
    once,
    one_of,
    produce,
    topic,
    with_scenario,
)

STABLE_SETTINGS = (
    ("auto.leader.rebalance.enable", "false"),
    ("replica.fetch.backoff.ms", "100"),
    ("replica.fetch.wait.max.ms", "500"),
    ("replica.lag.time.max.ms", "10000"),
    ("replica.socket.timeout.ms", "10000"),
)
"""Settings with which leadership moves only by order, and no replica leaves the ISR meanwhile."""
SLOW_SESSIONS = ("zookeeper.session.timeout.ms", "6000")
FAST_SESSIONS = ("zookeeper.session.timeout.ms", "2000")
LONG_LAG = ("replica.lag.time.max.ms", "10000")
SHORT_LAG = ("replica.lag.time.max.ms", "3000")
BACKOFF = ("replica.fetch.backoff.ms", "100")
SHORT_WAIT = ("replica.fetch.wait.max.ms", "100")
NO_REBALANCE = ("auto.leader.rebalance.enable", "false")
ALONE_TOPIC = topic(min_insync_replicas="1")
"""A topic on which a leader without followers may acknowledge."""
SOME: Any = one_of(1, 3, 10)
ANY_ACKS: Any = one_of(-1, 1)
MOSTLY_ALL: Any = one_of(-1, -1, 1)


def alternate_leaders(sent: Any, apart_ms: Any) -> Steps:
    """Return steps in which two brokers lead in turn, and neither learns what the other appends."""
    return (
        (0, produce(-1, sent)),
        (600, cut_apart(FIRST, SECOND, apart_ms)),
        (700, produce(1, sent)),
        (900, move(TWO, ONE, THREE)),
        (1_700, ElectPreferredOrder()),
        (2_300, produce(1, SOME)),
        (2_500, move(ONE, TWO, THREE)),
        (3_100, ElectPreferredOrder()),
    )


FLUSHED: Any = one_of(
    topic(min_insync_replicas="1", segment_bytes="400"),
    topic(min_insync_replicas="1", segment_bytes="400", flush_ms="100"),
    topic(min_insync_replicas="1", flush_ms="2500"),
)
"""A topic with background flushes of full segments, of records that have waited for a while, or of
both."""


def lose_answer(target: Target, path: str, for_ms: int = 3_000) -> LoseAnswer:
    """Return a fault that loses the answer to the first write at a path."""
    return LoseAnswer(target=target, path=path, nth=1, expires=False, for_ms=for_ms)


# --- groups ---------------------------------------------------------------------------------------

COORDINATOR = Target(role="leader", topic=OFFSETS_TOPIC)
"""The coordinator of all groups, if ``__consumer_offsets`` has one partition."""
ONE_COORDINATOR = (
    NO_REBALANCE,
    ("group.initial.rebalance.delay.ms", "0"),
    ("offsets.topic.num.partitions", "1"),
    ("offsets.topic.replication.factor", "3"),
    ("zookeeper.session.timeout.ms", "4000"),
)
TWO_PARTITIONS = topic((ONE, TWO, THREE), (ONE, TWO, THREE))


def member(for_ms: Any, *, leaves: bool = False) -> Consume:
    """Return a member of the scenario's own group."""
    return Consume(group="k", topic=TOPIC, for_ms=for_ms, leaves=leaves, pause_once_ms=0)


AWAY: Any = once(between(4_000, 6_000))
BACK: Any = once(AWAY + between(3_000, 5_000))
JOINS: Any = once(between(3_000, 5_000))
ITS_FOLLOWER: Final = Target(role="follower", topic=OFFSETS_TOPIC)
LOSS: Any = one_of(
    KillBroker(target=COORDINATOR, down_ms=3_000), PauseBroker(target=COORDINATOR, for_ms=9_000)
)
COORDINATOR_LOST: Final = (
    (JOINS + 500, LOSS),
    (JOINS + 510, ExpireSession(target=COORDINATOR)),
)

# --- others ---------------------------------------------------------------------------------------

LOST: Any = once(between(5_060, 5_240))
GIVEN_UP: Any = once(one_of(1, 2, 5))
ASLEEP: Any = once(between(50, 400))
AWAKE_MS: Any = once(between(3_600, 4_100))
INSTEAD: Any = once(between(300, 1_200))
WAY_MS: Any = once(between(50, 100))
DOWN_MS: Any = once(between(2_300, 3_000))
BACK_MS: Any = once(between(2_500, 3_000))
SIZE: Any = once(one_of(1, 10))
FAILS_MS: Any = between(1_000, 2_000)
CHOSEN: Final = Target(broker=once(one_of(ONE, TWO, THREE)))
"""One of the replicas, the same in all steps."""
RESIGNS: Final = ((between(5_400, 5_750), ElectPreferredOrder()),)
SLOW_SECOND: Final = SlowDisk(target=SECOND, delay_ms=one_of(500, 1_000, 2_000), for_ms=10_000)
PARTITION: Final = f"/brokers/topics/{TOPIC}/partitions/0"
DEPOSED_MEANWHILE: Final = (
    (2_400, SlowDisk(target=CHOSEN, delay_ms=200, for_ms=1_000)),
    (between(2_550, 2_950), DeposeController()),
)
LOSE_EVERY_ANSWER: Any = Drawn(
    lambda drawing: tuple(
        (-100, lose_answer(Target(broker=each), "/controller")) for each in drawing.brokers
    )
)
LATER_MOVES_AT: Any = once(WAY_MS + WAY_MS + between(800, 1_900))
LATER_MOVES: Final = (
    (LATER_MOVES_AT, move(ONE, TWO, FIVE)),
    (LATER_MOVES_AT + 500, move(ONE, THREE)),
)


def _cancelled_moves() -> Steps:
    """Return steps that cancel a reassignment and order another one to the other spare broker,
    several times."""
    steps, at = [], LATER_MOVES_AT
    for links in (FIVE, FOUR, FIVE):
        steps.append((at, ReassignOrder(topic=TOPIC, partition=0, replicas=None)))
        at = once(at + between(200, 1_400))
        steps.append((at, move(ONE, links, THREE)))
        at = once(at + between(400, 800))
    return tuple(steps)


CANCELLED_MOVES: Final = _cancelled_moves()


def _moved_and_extended() -> Steps:
    targets = [
        once(Drawn(lambda drawing: tuple(drawing.rng.sample(drawing.brokers, 3))))
        for _ in range(10)
    ]
    return tuple(
        step
        for number, target in enumerate(targets)
        for step in (
            (1_200 * number, ReassignOrder(topic=TOPIC, partition=0, replicas=target)),
            (
                1_200 * number + between(-50, 300),
                AddPartitionsOrder(topic=TOPIC, replicas=(target,)),
            ),
        )
    )


def _failing() -> LosePowerAfter:
    """Return a power failure directly after an operation on the disk."""
    return LosePowerAfter(
        target=CHOSEN,
        operation=one_of("write", "cut", "names", "sync"),
        nth=between(1, 8),
        for_ms=1_000,
        down_ms=one_of(50, 400),
    )


def _bounced(count: int) -> Steps:
    """Return steps in which ``count`` replicas lose power and register again."""
    return tuple(
        step
        for target in (FIRST, SECOND, LAST)[:count]
        for step in (
            (between(20, 60), LoseBrokerPower(target=target, down_ms=100)),
            (70, ExpireSession(target=target)),
        )
    )


def _failed_handing_over(at_ms: int) -> Steps:
    broken = BreakDisk(target=CHOSEN, operation="fsync", for_ms=between(200, 400))
    return (
        (at_ms - 10, cut(CHOSEN, CONTROLLER, "both", 800)),
        (at_ms, StopBroker(target=CHOSEN, down_ms=500)),
        (at_ms + between(50, 300), broken),
    )


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "short watermark": Scenario(
        about="A new leader does not know yet that its last records are committed. A follower that "
        "lacks exactly these records fetches from it before the other follower does. It had "
        "all records when its session ended, and so did the ISR.",
        brokers=4,
        outside=(ONE, TWO, THREE),
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            (0, move(TWO, ONE, THREE)),
            (100, produce(-1, one_of(1, 3))),
            (1_200, cut_apart(LAST, FIRST, 4_500)),
            (1_300, ExpireSession(target=LAST)),
            (2_500, SlowLink(target=SECOND, peer=LAST, delay_ms=200, for_ms=2_000)),
            (2_500, produce(1)),
            (between(2_510, 2_540), cut_apart(FIRST, SECOND, 1_500)),
            (between(2_550, 2_700), ElectPreferredOrder()),
            *every(4_000, 100, 20, produce(ANY_ACKS)),
        ),
        settings=(
            *STABLE_SETTINGS,
            ("replica.lag.time.max.ms", "1500"),
            ("replica.socket.timeout.ms", "5000"),
        ),
        length_ms=8_000,
    ),
    "to and fro": Scenario(
        about="Two brokers lead in turn, and one has appended in an epoch that the other does not "
        "know. The leader has epochs 0, 1 and 3. When it is asked where epoch 2 ended, it "
        "answers with epoch 1. The follower, which has 0 and 2, must go back to 0 and ask "
        "once more (KIP-279).",
        brokers=4,
        outside=(ONE, TWO, THREE),
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            *alternate_leaders(SOME, between(4_300, 4_500)),
            (3_700, produce(1, SOME)),
            (3_900, move(TWO, ONE, THREE)),
            (4_700, ElectPreferredOrder()),
            *every(5_700, 100, 20, produce(ANY_ACKS)),
        ),
        settings=STABLE_SETTINGS,
        length_ms=9_700,
    ),
    "unheard of": Scenario(
        about="A follower is let into the ISR, and its leader does not learn it: ZooKeeper's "
        "answer is lost with the session. The follower leads by then, which neither the "
        "leader nor the other follower knows. Two requests to ZooKeeper take 600 ms each, "
        "the write is carried out after 1.5 s, and the answer is under way for 0.3 s.",
        brokers=4,
        outside=(ONE, TWO, THREE),
        needs_controller=True,
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            (-300, produce(-1)),
            (0, PauseBroker(target=SECOND, for_ms=3_500)),
            (50, produce(1)),
            (3_400, SlowZooKeeper(target=FIRST, delay_ms=300, for_ms=3_500)),
            (4_500, cut(FIRST, CONTROLLER, "in", 7_000)),
            (4_500, cut(LAST, CONTROLLER, "in", 7_000)),
            (LOST, DropZooKeeperConnection(target=FIRST)),
            (LOST + 20, ExpireSession(target=FIRST)),
            *every(5_500, 60, 60, produce(-1)),
        ),
        settings=(
            *STABLE_SETTINGS,
            ("replica.lag.time.max.ms", "1500"),
            ("replica.socket.timeout.ms", "5000"),
            SLOW_SESSIONS,
        ),
        length_ms=12_000,
    ),
    "joining in flight": Scenario(
        about="A follower is about to be in the ISR, or is in ZooKeeper's already. The leader does "
        "not know that, and has received nothing from the follower for so long that it "
        "counts as lagging. Another controller meanwhile sends the leader a state that it "
        "has already.",
        brokers=4,
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            *every(2_000, 50, 120, produce(MOSTLY_ALL)),
            (0, PauseBroker(target=LAST, for_ms=BACK_MS)),
            (BACK_MS + -100, SlowZooKeeper(target=FIRST, delay_ms=between(500, 700), for_ms=6_000)),
            (BACK_MS + between(150, 1_300), cut_apart(LAST, FIRST, 4_000)),
            (BACK_MS + between(250, 500), DeposeController()),
        ),
        settings=(BACKOFF, ("replica.lag.time.max.ms", "1000"), SLOW_SESSIONS),
        length_ms=11_000,
    ),
    "left behind": Scenario(
        about="A follower does not know of two elections, and fetches from a leader that has "
        "followed another one in between. It holds records that both gave up, and names an "
        "offset that the leader has reached again.",
        brokers=4,
        outside=(ONE, TWO, THREE),
        needs_controller=True,
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            (0, move(TWO, ONE, THREE)),
            (600, cut(CONTROLLER, LAST, "out", between(3_500, 5_500))),
            (600, cut_apart(FIRST, SECOND, 700)),
            (650, produce(1, GIVEN_UP)),
            (750, ElectPreferredOrder()),
            (1_450, produce(1, GIVEN_UP + 2)),
            (1_700, move(ONE, TWO, THREE)),
            (2_300, ElectPreferredOrder()),
            *every(2_900, 100, 20, produce(ANY_ACKS)),
        ),
        settings=(*STABLE_SETTINGS, ("controller.socket.timeout.ms", "10000")),
        length_ms=10_000,
    ),
    "too few left": Scenario(
        about="Records wait for a follower that is removed from the ISR, and then too few replicas "
        "are left. The leader appended with enough of them, and must not acknowledge any "
        "more.",
        topics=(topic(min_insync_replicas="3"),),
        producer="plain",
        steps=(
            (0, cut_apart(LAST, FIRST, between(2_500, 4_000))),
            *every(0, 100, 30, produce(-1)),
        ),
        settings=(
            SHORT_WAIT,
            ("replica.lag.time.max.ms", "1000"),
            ("replica.socket.timeout.ms", "1500"),
        ),
        length_ms=8_000,
    ),
    "away and back": Scenario(
        about="A replica is moved off a broker and back. The broker, which has a slow link to "
        "ZooKeeper, has not learned of the first move yet, and must not close a replica that "
        "is in the ISR again.",
        brokers=4,
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            *every(0, 100, 80, produce(-1)),
            (0, SlowZooKeeper(target=LAST, delay_ms=between(600, 900), for_ms=7_000)),
            (100, move(ONE, TWO, FOUR)),
            (between(1_000, 1_800), move(ONE, TWO, THREE)),
        ),
        settings=(BACKOFF, LONG_LAG, SLOW_SESSIONS),
        length_ms=12_000,
    ),
    "coordinator away and back": Scenario(
        about="A group's coordinator loses its office, another one stores commits meanwhile, and "
        "the first one gets the office again. Its old state is out of date.",
        brokers=4,
        begins_ms=0,
        topics=(TWO_PARTITIONS,),
        producer="plain",
        steps=(
            *every(0, 100, 160, produce(1)),
            (0, member(BACK + 6_000)),
            (200, member(one_of(AWAY + 500, BACK + 6_000))),
            (AWAY, ExpireSession(target=COORDINATOR)),
            *every(BACK, 700, 3, ElectPreferredOrder()),
            (BACK + 2_500, member(5_000, leaves=True)),
        ),
        settings=ONE_COORDINATOR,
        length_ms=BACK + 9_000,
    ),
    "made again": Scenario(
        about="A topic is deleted and created again while a follower's fetch of it is under way. "
        "The new topic begins in the same epoch, and the offset in the request is the former "
        "one's. Another topic keeps the connection open. Records with acks=1 carry the new "
        "log past that offset, and the fetch would acknowledge those with acks=-1.",
        brokers=4,
        topics=(ALONE_TOPIC, replace(ALONE_TOPIC, topic=f"{TOPIC}-beside")),
        producer="plain",
        steps=(
            (0, SlowLink(target=LAST, peer=FIRST, delay_ms=between(3_500, 5_000), for_ms=150)),
            (30, produce(1, one_of(1, 3))),
            (400, DeleteTopicOrder(topic=TOPIC)),
            *every(1_500, 500, 2, ALONE_TOPIC),
            *every(2_600, 50, 30, produce(-1)),
            *every(2_625, 50, 30, produce(1)),
        ),
        settings=(*STABLE_SETTINGS, ("replica.fetch.backoff.ms", "1000")),
        length_ms=10_000,
    ),
    "cut and repeated": Scenario(
        about="A leader that was deposed without its knowledge appends batches, truncates them as "
        "a follower, and leads again when they are sent again. Its log does not hold them "
        "any more. An answer from memory, or from a snapshot, would acknowledge batches that "
        "the other leader replaced.",
        topics=(topic((ONE, TWO), min_insync_replicas="1", segment_bytes="200"),),
        producer="numbered",
        steps=(
            (-400, burst(3, 50)),
            (0, cut(LEADER, None, "both", 3_500, zookeeper=True)),
            (between(20, 200), burst(10, 100)),
            (0, CutFromClients(target=SECOND, direction="in", for_ms=9_000)),
            *every(5_000, 500, 8, ElectPreferredOrder()),
            *every(4_000, 100, 60, produce(1, producer=BESIDE)),
        ),
        settings=(NO_REBALANCE, BACKOFF, LONG_LAG, FAST_SESSIONS),
        length_ms=16_000,
    ),
    "joined unseen": Scenario(
        about="A follower is let into the ISR and loses power before the controller learns of its "
        "membership.",
        topics=(topic(),),
        steps=(
            *every(0, 300, 40, produce(-1, 3)),
            (0, KillBroker(target=LAST, down_ms=DOWN_MS)),
            (DOWN_MS + between(400, 3_000), LoseBrokerPower(target=LAST, down_ms=between(50, 300))),
        ),
        settings=(FAST_SESSIONS, SHORT_LAG),
        length_ms=20_000,
    ),
    "doomed shrink": Scenario(
        about="A topic is deleted while its leader's ISR write is carried out, and the leader does "
        "not know the outcome yet. Producers wait for the remaining replicas. The write is "
        "decided 0.6 to 1 s after the cut, carried out 2.4 s later, and answered after "
        "another 0.8 s.",
        brokers=4,
        outside=(ONE, TWO, THREE),
        topics=(ALONE_TOPIC,),
        steps=(
            *every(0, 100, 40, produce(-1)),
            (0, cut_apart(LAST, FIRST, 4_500)),
            (500, SlowZooKeeper(target=FIRST, delay_ms=800, for_ms=4_000)),
            (between(3_250, 3_500), DeleteTopicOrder(topic=TOPIC)),
        ),
        settings=(SHORT_WAIT, ("replica.lag.time.max.ms", "600"), SLOW_SESSIONS),
        length_ms=8_000,
    ),
    "inside a batch": Scenario(
        about="Truncation by watermark (0.8): a leader's watermark is inside a batch of its own, "
        "and it resigns or stays. All have a batch of 2. One follower, which does not know "
        "that it is committed, becomes leader with the batch truncated, and appends 5 "
        "records at once. The others have 2, and must truncate their part of the new batch.",
        brokers=4,
        outside=(ONE, TWO, THREE),
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            (0, move(TWO, ONE, THREE)),
            (600, produce(-1, records=2)),
            (between(620, 700), cut_apart(LAST, FIRST, 2_200)),
            (700, cut_apart(LAST, SECOND, 2_200)),
            (1_300, ElectPreferredOrder()),
            (1_500, move(THREE, TWO, ONE)),
            (2_000, ElectPreferredOrder()),
            *every(2_500, 20, 5, produce(1, records=5)),
            (2_000, SlowLink(target=LAST, peer=FIRST, delay_ms=1_000, for_ms=4_000)),
            (2_000, SlowLink(target=LAST, peer=SECOND, delay_ms=1_000, for_ms=4_000)),
            (2_600, move(TWO, ONE, THREE)),
            one_of(RESIGNS, RESIGNS, ()),
        ),
        settings=(*STABLE_SETTINGS, ("ackproof.generation", "0.8")),
        length_ms=8_000,
    ),
    "slow claimant": Scenario(
        about="A replica has read the ISR and waits for the preferred one, which is gone. It is "
        "paused while another one leads, removes it from the ISR, commits and disappears. "
        "Then it continues with its outdated ISR.",
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            *every(0, 100, 80, produce(ANY_ACKS)),
            (0, KillBroker(target=FIRST, down_ms=15_000)),
            (10, ExpireSession(target=FIRST)),
            (ASLEEP, PauseBroker(target=SECOND, for_ms=AWAKE_MS)),
            (ASLEEP + AWAKE_MS + -100, KillBroker(target=LAST, down_ms=8_000)),
            (ASLEEP + AWAKE_MS + -90, ExpireSession(target=LAST)),
        ),
        settings=(
            ("ackproof.preferred.replica.wait.ms", "500"),
            ("replica.lag.time.max.ms", "1000"),
            SLOW_SESSIONS,
        ),
        length_ms=20_000,
    ),
    "moved and extended": Scenario(
        about="Partitions are added to a topic while others of it are being moved, and the "
        "controller learns of them late.",
        brokers=4,
        zookeeper_lag_ms=50,
        topics=(topic(),),
        steps=(
            *_moved_and_extended(),
            (-100, SlowZooKeeper(target=CONTROLLER, delay_ms=60, for_ms=13_000)),
        ),
        length_ms=14_000,
    ),
    "bounced unseen": Scenario(
        about="Replicas lose power and register again before the controller looks. It finds all of "
        "them registered, with other epochs. Of the whole ISR, it may trust only the leader. "
        "Its write of the new states may take a while.",
        brokers=4,
        outside=(ONE, TWO, THREE),
        needs_controller=True,
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            *every(-400, 50, 60, produce(MOSTLY_ALL)),
            (0, PauseBroker(target=CONTROLLER, for_ms=2_000)),
            (1_000, SlowZooKeeper(target=CONTROLLER, delay_ms=one_of(1, 300), for_ms=3_000)),
            one_of(*(_bounced(count) for count in (1, 2, 3, 3))),
        ),
        settings=(SLOW_SESSIONS, LONG_LAG),
        length_ms=8_000,
    ),
    "cut while flushing": Scenario(
        about="As in to and fro, and the records that the second broker must truncate are being "
        "flushed in the background on a slow disk. The flush makes neither the records that "
        "replace them durable, nor the producer state that belongs to them. Later records "
        "wait no longer than flush.ms allows.",
        brokers=4,
        outside=(ONE, TWO, THREE),
        topics=(FLUSHED,),
        producer="plain",
        steps=(
            *alternate_leaders(1, between(2_800, 3_500)),
            (one_of(-1_500, between(2_400, 2_900)), SLOW_SECOND),
            one_of(every(2_200, 60, 13, produce(1, 3)), ()),
        ),
        settings=(
            *STABLE_SETTINGS,
            ("log.flush.offset.checkpoint.interval.ms", "500"),
            ("log.flush.scheduler.interval.ms", "100"),
        ),
        length_ms=8_000,
    ),
    "failed while handing over": Scenario(
        about="A broker must stop and cannot reach the controller. While it waits, its disk "
        "rejects syncs, and it works again when the logs are closed. The rejected data was "
        "written in the background, so that no log knows of it.",
        needs_controller=True,
        topics=(ALONE_TOPIC,),
        steps=(
            (-400, burst(40, 50)),
            *_failed_handing_over(0),
            *_failed_handing_over(4_000),
            (4_000, burst(40, 50)),
        ),
        settings=(("replica.high.watermark.checkpoint.interval.ms", "100"), FAST_SESSIONS),
        length_ms=8_000,
    ),
    "assignments overtaken": Scenario(
        about="The assignments of a generation wait to be stored, since a follower of the "
        "coordinator is cut off. Meanwhile members join and leave, or the coordinator is "
        "lost. When the assignments are stored, there is another generation. Commits wait in "
        "the same way, or time out.",
        brokers=4,
        begins_ms=0,
        topics=(TWO_PARTITIONS,),
        producer="plain",
        steps=(
            *every(0, 100, 170, produce(1)),
            (0, member(JOINS + 12_000)),
            (JOINS, member(JOINS + 9_000)),
            (
                JOINS + between(0, 800),
                cut(COORDINATOR, ITS_FOLLOWER, "both", between(2_500, 4_000)),
            ),
            *every(JOINS + 700, 700, 5, member(6_000)),
            (JOINS + 900, CommitMany(topic=TOPIC, groups=3, rounds=2, metadata_bytes=10)),
            one_of((), (), COORDINATOR_LOST),
        ),
        settings=(
            *ONE_COORDINATOR,
            ("offsets.commit.timeout.ms", one_of("1000", "5000")),
            LONG_LAG,
        ),
        length_ms=JOINS + 14_000,
    ),
    "sent elsewhere": Scenario(
        about="A partition is being moved to two brokers. One is in the ISR already, and the other "
        "cannot join. Then the partition is moved elsewhere. The first broker counts as long "
        "as it may be elected, and must keep nothing once its replica is removed.",
        brokers=5,
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            *every(0, 50, 80, produce(MOSTLY_ALL)),
            (-100, cut_apart(OTHER, FIRST, 3_000)),
            (0, move(ONE, FOUR, FIVE)),
            (INSTEAD, move(ONE, TWO, THREE)),
            (INSTEAD + between(-50, 20), cut_apart(SPARE, FIRST, 2_000)),
        ),
        settings=(BACKOFF, LONG_LAG, SLOW_SESSIONS),
        length_ms=9_000,
    ),
    "torn segments": Scenario(
        about="The power fails several times while a log has many small segments. The last ones "
        "may be on disk and earlier ones not, since each is flushed in the background and "
        "the disk is slow. Before, the broker has stopped in order, or was killed.",
        topics=(topic(min_insync_replicas="1", segment_bytes="500"),),
        producer="numbered",
        steps=(
            (-400, burst(250, 50)),
            *every(0, 100, 120, produce(1, records=SIZE, producer=BESIDE)),
            (-500, SlowDisk(target=CHOSEN, delay_ms=one_of(300, 1_000, 3_000), for_ms=14_500)),
            (
                0,
                one_of(
                    StopBroker(target=CHOSEN, down_ms=300), KillBroker(target=CHOSEN, down_ms=50)
                ),
            ),
            *every(FAILS_MS, 2_700, 5, LoseBrokerPower(target=CHOSEN, down_ms=one_of(50, 400))),
        ),
        settings=(
            ("log.flush.offset.checkpoint.interval.ms", "500"),
            SHORT_LAG,
            FAST_SESSIONS,
        ),
        length_ms=18_000,
    ),
    "named and unsynced": Scenario(
        about="A log has small segments, and each record is flushed. The power fails after a flush "
        "of a segment whose name may not be durable yet, or beside one that is being "
        "deleted.",
        topics=(topic(min_insync_replicas="1", segment_bytes="500", flush_messages="1"),),
        producer="numbered",
        steps=(
            (-400, burst(100, 50)),
            *every(0, 60, 100, produce(1, producer=BESIDE)),
            *every(0, 1_800, 4, _failing()),
            *every(1_900, 1_800, 2, DeleteRecordsOrder(topic=TOPIC, partition=0)),
        ),
        settings=(SHORT_LAG, FAST_SESSIONS),
        length_ms=9_000,
    ),
    "overtaken by the leader": Scenario(
        about="The leader removes one follower from the ISR. The controller, with a delay of half "
        "a second to ZooKeeper, removes the other one, whose session is over or whose "
        "machine was off for a moment. An unconditional write of the controller's state "
        "would let the first follower in again, which lacks records committed meanwhile. A "
        "retry without the reason for the write would trust the second one.",
        brokers=4,
        outside=(ONE, TWO, THREE),
        topics=(ALONE_TOPIC,),
        producer="numbered",
        steps=(
            *every(0, 50, 100, produce(-1, producer=BESIDE)),
            (0, cut_apart(LAST, FIRST, 7_000)),
            (2_000, SlowZooKeeper(target=CONTROLLER, delay_ms=500, for_ms=3_500)),
            one_of(
                ((between(2_500, 4_300), ExpireSession(target=SECOND)),),
                ((between(500, 2_400), LoseBrokerPower(target=SECOND, down_ms=one_of(50, 300))),),
            ),
            (between(5_000, 7_000), KillBroker(target=LEADER, down_ms=4_000)),
        ),
        settings=(SHORT_WAIT, SHORT_LAG, FAST_SESSIONS),
        length_ms=11_000,
    ),
    "written unheard": Scenario(
        about="A broker is elected controller, and a leader removes a follower from the ISR and "
        "lets it in again. The answer to each of these writes is lost with the connection. "
        "When they retry, both meet their own earlier writes.",
        topics=(ALONE_TOPIC,),
        steps=(
            LOSE_EVERY_ANSWER,
            (0, DeposeController()),
            (2_000, PauseBroker(target=LAST, for_ms=between(2_500, 3_500))),
            *every(2_000, 500, 12, lose_answer(LEADER, PARTITION, 490)),
            *every(2_000, 100, 40, produce(-1)),
        ),
        settings=(BACKOFF, ("replica.lag.time.max.ms", "1000"), SLOW_SESSIONS),
        length_ms=9_000,
    ),
    "deleted and moved": Scenario(
        about="One topic is deleted while a broker, which does not learn that it must delete its "
        "replica, dies and returns. Another one is deleted while it is moved to a broker "
        "that cannot reach its leader for a while. A third one was moved off a broker and "
        "back. All must be gone in the end, though no client requests a deletion after that.",
        brokers=4,
        outside=(ONE, TWO, THREE),
        needs_controller=True,
        topics=(
            topic(),
            topic((ONE, TWO), name=f"{TOPIC}-beside"),
            topic((ONE, TWO), name=f"{TOPIC}-back"),
        ),
        steps=(
            (0, cut(CONTROLLER, LAST, "out", between(600, 2_500))),
            (20, DeleteTopicOrder(topic=TOPIC)),
            (600, KillBroker(target=LAST, down_ms=one_of(100, 1_000, 3_000))),
            (between(610, 700), ExpireSession(target=LAST)),
            (650, cut_apart(SPARE, FIRST, between(2_500, 3_500))),
            (700, move(ONE, FOUR, name=f"{TOPIC}-beside")),
            (1_400, DeleteTopicOrder(topic=f"{TOPIC}-beside")),
            (700, move(ONE, name=f"{TOPIC}-back")),
            (1_700, move(ONE, TWO, name=f"{TOPIC}-back")),
            (between(3_000, 4_000), DeleteTopicOrder(topic=f"{TOPIC}-back")),
        ),
        settings=(NO_REBALANCE, LONG_LAG, SLOW_SESSIONS),
        length_ms=8_000,
    ),
    "named again": Scenario(
        about="A broker's checkpoints of a deleted log must not count for the next log of that "
        "name when the broker is killed. The log start, for example, would be beyond the end "
        "of the new log. It was written for the last time when the broker stopped in order. "
        "Sometimes the controller resigns while the broker is about to delete the log.",
        topics=(ALONE_TOPIC,),
        producer="plain",
        steps=(
            *every(-400, 20, 20, produce(1)),
            (200, DeleteRecordsOrder(topic=TOPIC, partition=0)),
            (between(500, 900), StopBroker(target=CHOSEN, down_ms=300)),
            (2_500, DeleteTopicOrder(topic=TOPIC)),
            one_of((), DEPOSED_MEANWHILE),
            (3_800, ALONE_TOPIC),
            *every(4_200, 300, 12, produce(ANY_ACKS)),
            (between(4_500, 6_000), KillBroker(target=CHOSEN, down_ms=one_of(50, 3_000))),
        ),
        settings=(
            ("log.flush.start.offset.checkpoint.interval.ms", "60000"),
            SHORT_LAG,
            FAST_SESSIONS,
        ),
        length_ms=9_000,
    ),
    "sent on": Scenario(
        about="A partition is being moved to a broker that cannot join the ISR, then to another "
        "such broker, and then elsewhere. Or the move is cancelled and ordered again several "
        "times, perhaps while its leader, with a slow link to ZooKeeper, cancels it. The "
        "last order is carried out, and no broker of a former order keeps anything.",
        brokers=5,
        topics=(ALONE_TOPIC,),
        steps=(
            *every(0, 50, 80, produce(-1)),
            (-100, cut_apart(SPARE, FIRST, 5_000)),
            (-100, cut_apart(OTHER, FIRST, 5_000)),
            (-50, SlowZooKeeper(target=FIRST, delay_ms=WAY_MS, for_ms=10_000)),
            (0, move(ONE, TWO, FOUR)),
            one_of(LATER_MOVES, CANCELLED_MOVES),
        ),
        settings=(LONG_LAG, SLOW_SESSIONS),
        length_ms=13_000,
    ),
}
"""The scenarios in the order of their turns."""

NEED_CONTROLLER: Final = frozenset(name for name, row in SCENARIOS.items() if row.needs_controller)
"""Scenarios that need a controller."""

# --- assignment of scenarios to plans -------------------------------------------------------------

ODDS: Final = 0.5
"""The probability that a plan has a scenario."""

ALONE: Final = 0.5
"""The probability that nothing else happens to the cluster then."""

TURN_EVERY: Final = 2
"""One in so many seeds has the scenario of its turn, in a short run without other actions.

All scenarios occur within twice their number of seeds. Random draws alone would miss a third of
them.
"""

SHORT_MS: Final = 10_000

TURNS_WITHOUT_CONTROLLER: Final = (
    "sent elsewhere",
    "away and back",
    "slow claimant",
    "moved and extended",
    "doomed shrink",
    "assignments overtaken",
    "too few left",
    "made again",
    "sent on",
)
"""Scenarios that are more informative without a controller, in the order of their turns there."""
LED_TURN_EVERY: Final = 12
LED_TURN: Final = 10
"""The remainder of the seeds that have such a turn."""


def turn_without_controller(seed: int) -> str | None:
    """Return the scenario whose turn it is without a controller, or None."""
    turn, rest = divmod(seed, LED_TURN_EVERY)
    return (
        TURNS_WITHOUT_CONTROLLER[turn % len(TURNS_WITHOUT_CONTROLLER)] if rest == LED_TURN else None
    )


def alone_in_short_plan(plan: SimulationPlan, rng: Random, scenario: str) -> SimulationPlan:
    """Return the scenario in a short plan without other actions."""
    return with_scenario(
        shortened(without_faults(with_newest_generation(plan))), rng, SCENARIOS[scenario]
    )


def add_scenario(
    plan: SimulationPlan, rng: Random, scenario: str | None, *, led: bool
) -> SimulationPlan:
    """Add a scenario to a plan.

    With None it is the scenario whose turn it is, a random one or none. ``led`` says that the plan
    will have no controller.
    """
    turn, rest = divmod(plan.seed, TURN_EVERY)
    if scenario is None and rest:
        scenario = tuple(SCENARIOS)[turn % len(SCENARIOS)]
        if led and scenario in NEED_CONTROLLER:
            scenario = _drawn(plan.seed, led=True)
        return alone_in_short_plan(plan, rng, scenario)
    if scenario is None:
        if rng.random() >= ODDS:
            return plan
        scenario = _drawn(plan.seed, led=led)
    if rng.random() < ALONE:
        plan = without_faults(plan)
    return with_scenario(plan, rng, SCENARIOS[scenario])


def without_faults(plan: SimulationPlan) -> SimulationPlan:
    """Return the plan without faults and orders."""
    kept = (timed for timed in plan.actions if isinstance(timed.action, ClientWork))
    return plan.with_actions(tuple(kept))


def with_newest_generation(plan: SimulationPlan) -> SimulationPlan:
    """Return the plan with the newest generation: older ones truncate without leader epochs."""
    kept = ((name, value) for name, value in plan.settings if name != "ackproof.generation")
    return replace(plan, settings=tuple(kept))


def shortened(plan: SimulationPlan) -> SimulationPlan:
    """Return the beginning of the plan."""
    run_ms = min(plan.run_ms, SHORT_MS)
    kept = tuple(timed for timed in plan.actions if timed.at_ms < run_ms)
    return replace(plan, actions=kept, run_ms=run_ms)


def _drawn(seed: int, *, led: bool) -> str:
    """Draw one number for each scenario. A further scenario then changes only the plans that it
    wins."""
    scenarios = SCENARIOS.keys() - NEED_CONTROLLER if led else SCENARIOS.keys()
    return min(scenarios, key=lambda scenario: stream(seed, f"scenario {scenario}").random())
