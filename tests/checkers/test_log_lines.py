"""Log lines about leaders and epochs, as the bundled broker and Kafka write them."""

import json
import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ackproof.broker.server.replication.partition import StateChangeLog
from ackproof.broker.server.replication.roles import Origin
from ackproof.broker.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from ackproof.checkers.context.broker_logs import Role, orders_of, roles_of

T = ("a-topic", 3)


def logs(tmp_path: Path, *lines: str, node: str = "broker-1") -> Path:
    (tmp_path / node).mkdir()
    (tmp_path / node / f"{node}.log").write_text("".join(lines))
    return tmp_path


def line(event: str = "completed", change: str = "LeaderAndIsr", **told: object) -> str:
    usual = {"broker": 1, "partition": "a-topic-3", "leader": 1, "leader_epoch": 4}
    content = json.dumps({"event": event, "change": change, **usual, **told})
    return f"[2026-11-22 12:57:10,939] INFO {content} (state.change.logger)\n"


REGISTERED = "[2026-11-22 12:57:25,691] INFO registered broker 1, epoch 103 (broker)\n"
STARTED = "[2026-11-22 12:57:10,395] INFO connecting to ZooKeeper at 10.64.0.11:2181 (broker)\n"
LEADS = Role(broker=1, life=0, leader=1, leader_epoch=4)


def test_log_lines_of_a_broker_are_parsed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="state.change.logger")
    said = StateChangeLog(BrokerId(1))
    origin = Origin(change="LeaderAndIsr", by={"controller": 2, "controller_epoch": 7})
    partition = TopicPartition("a-topic", 3)
    for event in ("received", "completed"):
        said.record(
            event,
            origin,
            partition,
            leader=BrokerId(1),
            leader_epoch=LeaderEpoch(4),
            leader_epoch_start_offset=Offset(120) if event == "completed" else None,
            high_watermark=Offset(118) if event == "completed" else None,
        )
    lines = [f"INFO {record.message} ({record.name})\n" for record in caplog.records]
    expected = Role(broker=1, life=0, leader=1, leader_epoch=4, log_end=120, high_watermark=118)
    directory = logs(tmp_path, *lines)
    assert roles_of(directory) == {T: (expected,)}
    assert orders_of(directory) == {T: {1: [4]}}


def test_orders_to_a_broker_keep_their_sequence(tmp_path: Path) -> None:
    """Whatever it did about it, and behind half a line, too. Where leaders coordinate it is no
    controller that tells."""
    told = [line("received", leader_epoch=epoch) for epoch in (4, 7, 5)]
    others = [line(), line("received", "LeaderChange"), '"received"\n', line("received")[:99]]
    assert orders_of(logs(tmp_path, *others, *told)) == {T: {1: [4, 7, 5]}}


def test_roles_that_were_taken_count_and_nothing_else(tmp_path: Path) -> None:
    others = [
        line("received"),
        line("rejected"),
        line(change="StopReplica"),
        line("sent"),
        '{"event": "completed", "text": "completed, broker id 1"}\n',
        "INFO nothing of the kind\n",
    ]
    assert roles_of(logs(tmp_path, *others, line())) == {T: (LEADS,)}


@pytest.mark.parametrize("beginning", [REGISTERED, STARTED])
def test_a_process_and_a_registration_begin_another_life(beginning: str, tmp_path: Path) -> None:
    found = roles_of(logs(tmp_path, beginning, line(), beginning, line(leader=2)))
    assert [(word.life, word.leads) for word in found[T]] == [(1, True), (2, False)]


@pytest.mark.parametrize("length", [1, 60, 120])
def test_half_a_line_is_none(length: int, tmp_path: Path) -> None:
    """The broker was killed while it wrote, and its next process goes on behind it."""
    found = roles_of(logs(tmp_path, line()[:length] + line(leader_epoch=5), line(leader_epoch=6)))
    assert found[T][-1].leader_epoch == 6
    assert {word.leader_epoch for word in found[T]} <= {5, 6}


@pytest.mark.parametrize("told", [{"broker": "x"}, {"leader_epoch": None}, {"partition": "t"}])
def test_roles_skip_unreadable_lines(told: dict[str, object], tmp_path: Path) -> None:
    assert roles_of(logs(tmp_path, line(**told), line())) == {T: (LEADS,)}


@pytest.mark.parametrize(
    "said",
    [
        "[Broker id=1] Leader a-topic-3 with topic id Some(JEBHuSVSTC-4b0wSYaiylg) starts at "
        "leader epoch 4 from offset 9 with partition epoch 0, high watermark 0, ISR [1]",
        "[Broker id=1] Leader a-topic-3 starts at leader epoch 4 from offset 9 with high "
        "watermark 9 ISR [1]",
        "[Partition a-topic-3 broker=1] a-topic-3 starts at Leader Epoch 4 from offset 9. Previous "
        "Leader Epoch was: 3 (kafka.cluster.Partition)",
    ],
)
def test_kafka_s_own_words(said: str, tmp_path: Path) -> None:
    registered = "INFO Registered broker 1 at path /brokers/ids/1 with addresses: PLAINTEXT://\n"
    follower = said.replace("Leader a-topic", "Follower a-topic").replace("] a-", "] Follower a-")
    found = roles_of(logs(tmp_path, registered, f"INFO {said}\n", f"INFO {follower}\n"))
    expected = Role(broker=1, life=1, leader=1, leader_epoch=4, log_end=9)
    assert {replace(word, high_watermark=None) for word in found[T]} == {expected}
    told = re.search(r"high watermark (\d+)", said)
    assert {word.high_watermark for word in found[T]} == {int(told[1]) if told else None}


def test_epochs_in_which_kafka_acted_are_read(tmp_path: Path) -> None:
    """Two elections that came with one batch of the metadata log are one line."""
    follows = "starts at leader epoch {} from offset 9 with partition epoch 5 and high watermark 9."
    told = [
        f"INFO [Broker id=1] Follower a-topic-3 {follows.format(8)} Current leader is 2. Previous",
        "INFO [Broker id=1] Leader a-topic-3 with topic id Some(x) starts at leader epoch 11 from "
        "offset 9 with partition epoch 7, high watermark 9, ISR [1]",
        "INFO [Broker id=1] Skipped the become-follower state change for a-topic-3",
    ]
    assert orders_of(logs(tmp_path, *(f"{one}\n" for one in told))) == {T: {1: [8, 11]}}


STARTS = "INFO BrokerServer: [BrokerServer id=1] Transition from SHUTDOWN to STARTING "
ANSWERS = "INFO [SocketServer listenerType=BROKER, nodeId=1] Enabling request processing."
CONTROLLER = "INFO [SocketServer listenerType=CONTROLLER, nodeId=1] Enabling request processing."


def role_in(epoch: int, *, leads: bool) -> str:
    said = f"starts at leader epoch {epoch} from offset 9 with partition epoch 5, high watermark 9"
    follows = "" if leads else " Current leader is 2. Previous"
    return f"INFO [Broker id=1] {'Leader' if leads else 'Follower'} a-topic-3 {said}{follows}"


@pytest.mark.parametrize(
    ("told", "led", "acted"),
    [
        ([STARTS, (4, True), (5, False), ANSWERS], [], [5]),
        ([STARTS, (4, True), (5, True), ANSWERS, (6, False)], [5], [5, 6]),
        ([STARTS, (4, True), ANSWERS, (5, False)], [4], [4, 5]),
        ([STARTS, (4, True), CONTROLLER, (5, False), ANSWERS], [], [5]),
        ([STARTS, (4, True), (5, False)], [4], [4, 5]),
        ([STARTS, ANSWERS, STARTS, (4, True), STARTS, (5, False), ANSWERS], [], [5]),
        ([STARTS, (4, True), STARTS, (5, False)], [4], [4, 5]),
        ([STARTS, ANSWERS, (4, True), (5, False), ANSWERS], [4], [4, 5]),
        ([(4, True), (5, False), ANSWERS], [4], [4, 5]),
    ],
    ids=[
        "deposed before it answered",
        "deposed by itself",
        "deposed afterwards",
        "the controller in its process answers",
        "never answered",
        "died before it answered",
        "not known to say that it answers",
        "answers always",
        "its beginning is unknown",
    ],
)
def test_leader_that_was_deposed_before_it_answered_never_led(
    told: list[str | tuple[int, bool]], led: list[int], acted: list[int], tmp_path: Path
) -> None:
    lines = [one if isinstance(one, str) else role_in(one[0], leads=one[1]) for one in told]
    directory = logs(tmp_path, *(f"{one}\n" for one in lines))
    assert [role.leader_epoch for role in roles_of(directory).get(T, ())] == led
    assert orders_of(directory) == {T: {1: acted}}


def test_there_need_be_no_logs(tmp_path: Path) -> None:
    assert roles_of(tmp_path / "logs") == {}
    assert roles_of(logs(tmp_path, line(), node="client-1")) == {}


def test_words_of_a_file_that_is_left_out_are_not_read(tmp_path: Path) -> None:
    directory = logs(tmp_path, line("received"), line())
    (log,) = (directory / "broker-1").iterdir()
    assert roles_of(directory) == {T: (LEADS,)}
    assert roles_of(directory, {log}) == {}
    assert orders_of(directory, {log}) == {}
