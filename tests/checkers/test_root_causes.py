"""Root causes in plain words: broker, time, place and reason, or the statement that they are
unknown."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import EpochEndOffset, LeaderAndIsr
from ackproof.broker.replication.replica import LogState, Replica
from ackproof.broker.server.replication.partition import truncated
from ackproof.broker.types import TopicPartition
from ackproof.checkers.check import check
from ackproof.checkers.context.broker_logs import ReplicaTruncation, Role, truncations_of
from ackproof.checkers.root_cause.causes import MORE, REPORTED_MAX, reported
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.narratives import fault_phrases, labels
from ackproof.checkers.root_cause.partition_context import ContextFault
from ackproof.checkers.verdict import Cause
from tests.support.builders.checked_runs import collected, replicas_of
from tests.support.builders.histories import (
    KILL,
    Made,
    a_fault,
    acked,
    at,
    losing,
    state,
    write_campaign,
)
from tests.support.builders.losses import World, cut_for_one_that_never_heard, lose
from tests.support.builders.raw_logs import batches, write_replicas


def only(world: World) -> Cause:
    (cause,) = world.root_causes().causes
    return cause


def test_a_deposed_leader_in_one_sentence() -> None:
    world = World(acks="1")
    lose(world, CauseKind.DEPOSED_LEADER, 1_500, 1_500)
    cause = only(world)
    assert cause.sentence == (
        "broker-1 acked these records as leader of epoch 0, up to 2.0 s after broker-2 was "
        "observed as leader; isolate#1 was active on broker-1; broker-2 led epoch 1 from offset 5, "
        "without them; broker-1 truncated its log from 1,505 to 5 as follower of broker-2 in epoch "
        "1 (leader epoch 0 and offset 5)."
    )
    assert (cause.records, cause.first_offset, cause.last_offset) == (1_500, 5, 1_504)


def test_records_are_laid_to_the_faults_of_their_cause() -> None:
    """So that the causes of a report and its lost records count the same for each fault."""
    world = World(acks="1")
    lose(world, CauseKind.DEPOSED_LEADER, 1_500, 1_500)
    performed = world.root_causes()
    (cause,) = performed.causes
    assert performed.faults is not None
    assert performed.faults.to_pylist() == [",".join(cause.faults)] * cause.records
    assert cause.faults == ("isolate#1",)


def test_a_follower_that_was_let_in_too_early_in_one_sentence() -> None:
    world = World(acks="all")
    lose(world, CauseKind.ISR_EXPANDED_TOO_EARLY, 2, 3)
    cause = only(world)
    assert cause.sentence == (
        "broker-1 acked these records as leader of epoch 0; broker-3 led epoch 1 from offset "
        "7, with them, and added broker-2, which lacked some of them, to the ISR 16 s after "
        "the first of these; kill#1 affected broker-1 500 ms after the first of these; "
        "broker-2 led epoch 2 from offset 5, without them; broker-1 truncated its log from 7 to 5 "
        "as follower of broker-2 in epoch 2 (leader epoch 0 and offset 5)."
    )
    row = world.root_causes().of_records.to_pylist()[0]
    assert (row["let_in"], row["let_in_by"]) == (world.rows[3]["time"], 3)


def test_follower_that_held_the_start_of_the_epoch_did_not_join_the_isr_too_early() -> None:
    """Its leader's epoch began where its own did, and the reason for the loss is unknown."""
    world = World(acks="all")
    lose(world, CauseKind.ISR_EXPANDED_TOO_EARLY, 1, 3)
    word = world.words[1]
    assert (word.leader_epoch, word.log_end) == (1, 6)
    world.words[1] = replace(word, log_end=5)
    cause = only(world)
    assert cause.kind == CauseKind.UNEXPLAINED
    assert "to the ISR" not in cause.sentence


def elected_and_killed(acks: str = "all", isr: tuple[int, ...] = (1, 2, 3)) -> World:
    world = World(acks=acks)
    world.see(900, 1, isr)
    way = cut_for_one_that_never_heard
    lose(world, CauseKind.TRUNCATED_BEFORE_LEADING, 2, 3, way=way)
    return world


def test_election_of_a_broker_killed_unaware_is_described_in_one_sentence() -> None:
    assert only(elected_and_killed()).sentence == (
        "broker-1 acked these records as leader of epoch 0; broker-3 was elected in epoch 1 "
        "but never learned of it; broker-2 had truncated its log from 7 to 5 as follower of "
        "broker-3 in epoch 1 (local high watermark) before it led; kill#1 affected broker-1 "
        "500 ms after the first of these; broker-2 led epoch 2 from offset 5, without them; "
        "broker-1 truncated its log from 7 to 5 as follower of broker-2 in epoch 2 (leader epoch 0 "
        "and offset 5)."
    )


@pytest.mark.parametrize(
    ("servers", "start", "phrase"),
    [
        ([], 0, "reassign#2 was active until 1.0 s before the last of these"),
        ([], 3, "reassign#2 began 2.0 s after the first of these"),
        (["broker-1"], 3, "reassign#2 affected broker-1 2.0 s after the first of these"),
        (None, 0, "reassign#2 was active on unknown servers until 1.0 s before the last of these"),
    ],
)
def test_active_fault_is_named_with_servers_that_it_affects(
    servers: list[str] | None, start: int, phrase: str
) -> None:
    second = 1_000_000_000
    fault = ContextFault(label="reassign#2", servers=servers, start=start * second, end=4 * second)
    assert list(fault_phrases([fault], second, 5 * second)) == [phrase]


def test_fault_that_took_data_is_named_with_how_it_did() -> None:
    fault = ContextFault(label="kill#1", servers=["broker-1"], start=0, end=9, took=1)
    power = replace(fault, label="power-failure#2")
    with_pods = replace(fault, taker="kill#1, with the storage of the pods that it ended,")
    said = "kill#1, with the storage of the pods that it ended, and power-failure#2"
    assert labels([with_pods, power]) == said


def never_told_later(world: World) -> None:
    world.orders[3] = [0]


def never_told_before(world: World) -> None:
    world.orders[3] = [2]


def heard(world: World) -> None:
    world.orders[3] = [0, 1, 2]


def heard_too_late(world: World) -> None:
    world.orders[3] = [0, 2, 1]


def of_another_make(world: World) -> None:
    world.orders = {}


def told_to_follow(world: World) -> None:
    world.words.append(Role(broker=3, life=0, leader=1, leader_epoch=1))


def another_says_that_it_led(world: World) -> None:
    world.words.append(Role(broker=1, life=0, leader=1, leader_epoch=1))


def without_power(world: World) -> None:
    world.strike("power-failure", 3, until=world.now + 20, destroys="unsynced")


def nobody_knows_whose_disk(world: World) -> None:
    without_power(world)
    for row in world.faults:
        if row["fault"] == "power-failure":
            row["servers"] = row["partitions"] = None


@pytest.mark.parametrize(
    "spoil",
    [
        never_told_later,
        never_told_before,
        heard,
        heard_too_late,
        of_another_make,
        told_to_follow,
        another_says_that_it_led,
        without_power,
        nobody_knows_whose_disk,
    ],
)
def test_broker_that_may_have_heard_of_its_election_may_have_led(
    spoil: Callable[[World], None],
) -> None:
    world = elected_and_killed()
    spoil(world)
    assert is_untold(only(world))


def test_unaware_leader_explains_the_loss_in_spite_of_an_election_outside_the_isr() -> None:
    assert is_untold(only(elected_and_killed(isr=(1, 2))))


def is_untold(cause: Cause) -> bool:
    untold = "no broker's log shows where the log ended when a later leader began."
    return cause.kind == CauseKind.UNKNOWN and cause.sentence.endswith(untold)


@pytest.mark.parametrize(("seconds", "broker", "destroys"), [(-900, 3, "unsynced"), (0, 1, "all")])
def test_a_disk_that_lost_data_before_or_elsewhere_is_no_doubt(
    seconds: float, broker: int, destroys: str
) -> None:
    world = elected_and_killed()
    world.now += seconds
    world.strike("power-failure", broker, until=world.now + 20, destroys=destroys)
    assert "broker-3 was elected in epoch 1 but never learned of it" in only(world).sentence


def test_broker_with_records_in_the_log_has_led_despite_a_shorter_log() -> None:
    """The first that broker-2 appended is of broker-3's epoch."""
    world = elected_and_killed()
    world.log[5] = replace(world.log[5], leader_epoch=1)
    cause = only(world)
    assert "never learned of it" not in cause.sentence
    assert cause.next_epoch == 1


def test_a_leader_is_deposed_by_one_that_never_hears_of_it() -> None:
    """Not only by the next one that leads, at 1,010 s."""
    world = elected_and_killed(acks="1")
    world.ack(1_008, 7)
    cause = only(world)
    assert cause.kind == CauseKind.DEPOSED_LEADER
    assert (
        "up to 3.0 s after broker-3 was observed as leader; broker-3 was elected in"
        in cause.sentence
    )


def test_acking_leader_is_identified_by_earlier_sends_of_the_producer() -> None:
    """Both leaders may have acked offset 7: it is unknown when broker-1 heard of broker-2, and of
    both later leaders began without it. What stands at offset 6 is of epoch 1."""
    world = World(acks="all")
    world.epoch = 1
    world.see(100, 2, (1, 2, 3))
    world.faults += a_fault(100, 1_000, fault="slow", servers=("broker-1",))
    world.now = 20
    world.append(2)
    world.ack(130, 7)
    world.epoch = 2
    world.see(150, 3, (3,))
    cause = only(world)
    assert (cause.epochs, cause.leaders) == ((1,), (2,))
    world.sends = [send for send in world.sends if send.sequence != 6]
    assert only(world).epochs == (0, 1)


def test_unexplained_loss_says_that_nothing_explains_it() -> None:
    world = World(acks="all")
    lose(world, CauseKind.UNEXPLAINED, 2, 3)
    cause = only(world)
    assert cause.kind == CauseKind.UNEXPLAINED
    assert "nothing in the history explains it: broker-2 was in the ISR [1, 2, 3]" in (
        cause.sentence
    )


def test_a_record_that_no_later_leader_came_without_is_not_explained() -> None:
    world = World(acks="all")
    del world.log[2]
    cause = only(world)
    assert cause.kind == CauseKind.UNEXPLAINED
    assert "no later leader is known to have begun without them" in cause.sentence


def test_loss_without_evidence_is_unknown_and_not_unexplained() -> None:
    world = World(acks="all")
    lose(world, CauseKind.UNEXPLAINED, 1, 3)
    world.rows[1:], world.words, world.truncations = [], [], []
    world.rows[0] = state(0, -1, -1, ())
    cause = only(world)
    assert cause.kind == CauseKind.UNKNOWN
    assert "the leader was not observed until the end" in cause.sentence


def test_records_that_no_broker_answered_for_are_called_that() -> None:
    world = World(acks="0")
    lose(world, CauseKind.DEPOSED_LEADER, 2, 3)
    for send in world.sends:
        object.__setattr__(send, "offset", None)
    cause = only(world)
    assert (cause.kind, cause.first_offset) == (CauseKind.UNANSWERED, None)
    assert cause.sentence.startswith(
        "no broker answered for these records (acks=0), sent while broker-1 led in epoch 0"
    )
    assert "broker-2 led epoch 1" in cause.sentence


def test_excess_causes_are_merged_into_one_entry() -> None:
    cause = only_of(1)
    made = [only_of(number) for number in range(1, REPORTED_MAX + 4)]
    kept = reported(made)
    assert len(kept) == REPORTED_MAX + 1
    assert (kept[-1].kind, kept[-1].records) == (MORE, 3 * cause.records)
    assert sum(one.records for one in kept) == sum(one.records for one in made)


def only_of(number: int) -> Cause:
    place = {"run": 1, "cell": "c", "anomaly": "lost", "topic": "t", "partition": 0}
    what = {"kind": "unknown", "sentence": ".", "records": 2, "promised": 0}
    return Cause(**place, **what, number=number, first_time=number, last_time=number)


def test_promised_records_come_first() -> None:
    made = [only_of(1), only_of(2)]
    damning = Cause(**{name: getattr(made[1], name) for name in Cause.__slots__} | {"promised": 1})
    assert reported([made[0], damning])[0] == damning


def lost_in_an_election(tmp_path: Path, told: str = "") -> Path:
    """Two records of epoch 0 are acked by broker-1, broker-2 leads epoch 1 without them; or, where
    broker-3 was ``reported`` something, that one, and broker-2 epoch 2."""
    sends, log = acked(5, 9, 9.5, 40)
    made = losing(Made(sends=sends, log=log, end=4), 1, 2)
    first, epoch = state(-5, 1, 0, (1, 2, 3), version=0), 2 if told else 1
    leaders = (3, 2)[-epoch:]
    elected = [
        state(11 + number, leader, number, (2, 3), version=number)
        for number, leader in enumerate(leaders, start=1)
    ]
    directory = write_campaign(
        tmp_path / "results",
        collected(partitions={("t", 0): made}, cluster=(first, *elected), faults=KILL),
    )
    mine = batches(3)
    write_replicas(replicas_of(directory), mine, [], [])
    for broker, said in ((1, cut_line()), (2, leads_line(epoch)), (3, told)):
        logs = directory / "runs" / "1" / "logs" / f"broker-{broker}"
        logs.mkdir(parents=True)
        (logs / f"broker-{broker}.log").write_text(said)
    return directory


# A session of Spark for two tests: test_check.py compares checks in Spark with those in process.
@pytest.mark.long
def test_orders_to_brokers_are_read_from_their_logs(tmp_path: Path, spark: SparkSession) -> None:
    """Broker-3 is elected in epoch 1 and never hears of it, broker-2 leads epoch 2."""
    directory = lost_in_an_election(tmp_path, told=order_line(0) + order_line(2))
    (cause,) = check(directory, spark=spark).causes
    assert "broker-3 was elected in epoch 1 but never learned of it" in cause.sentence
    assert (cause.next_leader, cause.next_epoch) == (2, 2)


def order_line(epoch: int) -> str:
    words = {"event": "received", "change": "LeaderAndIsr", "broker": 3, "partition": "t-0"}
    return line_of({**words, "leader": 2, "leader_epoch": epoch})


def cut_line() -> str:
    words = {"event": "completed", "change": "Truncate", "broker": 1, "partition": "t-0"}
    places = {"leader": 2, "leader_epoch": 1, "log_end_offset": 3, "offset": 1}
    return line_of({**words, **places, "due_to": "leader epoch 0 and offset 1"})


def leads_line(epoch: int) -> str:
    words = {"event": "completed", "change": "LeaderAndIsr", "broker": 2, "partition": "t-0"}
    places = {"leader": 2, "leader_epoch": epoch, "leader_epoch_start_offset": 1}
    return line_of({**words, **places, "high_watermark": 1})


def line_of(words: dict[str, object]) -> str:
    return f"INFO {json.dumps(words)} (state.change.logger)\n"


# As the other test with Spark.
@pytest.mark.long
def test_each_lost_record_has_a_row_and_the_campaign_their_causes(
    tmp_path: Path, spark: SparkSession
) -> None:
    directory = lost_in_an_election(tmp_path)
    result = check(directory, spark=spark)
    (cause,) = result.causes
    assert (cause.records, cause.kind, cause.leaders) == (2, CauseKind.UNEXPLAINED, (1,))
    assert cause.sentence.endswith("; broker-1 still holds 2 of them.")
    first, second = pq.read_table(directory / "root-causes.parquet").to_pylist()
    assert (first["offset"], second["offset"]) == (1, 2)
    assert (first["time"], first["sent"]) == (at(9), at(9) - 5)
    assert (first["epochs"], first["isr"], first["next_offset"]) == ([0], [1, 2, 3], 1)
    assert (first["cut_by"], first["cause"], first["kind"]) == ([1], 1, "unexplained")
    assert [row["copies"] for row in (first, second)] == [[1], [1]]


def test_the_bundled_broker_s_line_is_understood(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="state.change.logger")
    state_of = LogState(log_start_offset=0, log_end_offset=9, high_watermark=7, epochs=((2, 0),))
    replica = Replica(1, ReplicaConfig(), state_of)
    word = {"controller_epoch": 1, "isr": (2, 3), "replicas": (1, 2, 3), "zk_version": 1, "now": 0}
    replica.step(LeaderAndIsr(leader=2, leader_epoch=3, **word))
    answer = EpochEndOffset(current_leader_epoch=3, leader_epoch=2, end_offset=8)
    truncation = {"log_end_offset": 9, "offset": 8, "high_watermark": 7}
    truncated(TopicPartition("a-topic", 3), replica, answer, **truncation)
    lines = [f"INFO {record.message} ({record.name})\n" for record in caplog.records]
    expected = ReplicaTruncation(
        broker=1,
        leader=2,
        leader_epoch=3,
        log_end=9,
        offset=8,
        due_to="leader epoch 2 and offset 8",
    )
    assert truncations_of(log_of(tmp_path, *lines)) == {("a-topic", 3): (expected,)}


FOLLOWS = (
    "[Broker id=1] Follower a-topic-3 starts at leader epoch 4 from offset 12 with partition "
    "epoch 6 and high watermark 9. Current leader is 3. (state.change.logger)\n"
)


@pytest.mark.parametrize(
    ("said", "due_to"),
    [
        (
            "due to leader epoch and offset EpochEndOffset(errorCode=0, partition=3, "
            "leaderEpoch=2, endOffset=9) (kafka.server.ReplicaFetcherThread)\n",
            "leader epoch 2 and offset 9",
        ),
        (
            "due to local high watermark 9 (kafka.server.ReplicaFetcherThread)\n",
            "local high watermark",
        ),
    ],
)
def test_kafka_s_own_words(said: str, due_to: str, tmp_path: Path) -> None:
    whose = "INFO [ReplicaFetcher replicaId=1, leaderId=3, fetcherId=0] Truncating partition "
    line = f"{whose}a-topic-3 with TruncationState(offset=9, completed=true) {said}"
    expected = ReplicaTruncation(
        broker=1, leader=3, leader_epoch=4, log_end=None, offset=9, due_to=due_to
    )
    assert truncations_of(log_of(tmp_path, FOLLOWS, line)) == {("a-topic", 3): (expected,)}


@pytest.mark.parametrize("said", ['{"change": "Truncate"}\n', '"Truncate"\n', "Truncating\n"])
def test_truncations_skip_unreadable_lines(said: str, tmp_path: Path) -> None:
    assert truncations_of(log_of(tmp_path, said)) == {}
    assert truncations_of(tmp_path / "nowhere") == {}


def log_of(tmp_path: Path, *lines: str) -> Path:
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "broker-1.log").write_text("".join(lines))
    return tmp_path


def test_nothing_lost_has_no_root_cause() -> None:
    performed = World().root_causes()
    assert (list(performed.causes), len(performed.of_records)) == ([], 0)
