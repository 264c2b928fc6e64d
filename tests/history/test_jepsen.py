"""A history in Jepsen's words says what it said before, and keeps Jepsen's rules."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.history import manifest
from ackproof.history.errors import DamagedFiles
from ackproof.history.jepsen import FINAL_READ, Op, edn, recorded, value_of
from ackproof.testing.histories import MEMBER, PRODUCER, READER, TOPIC, History, sound_history
from tests.support.builders.consumer_histories import World, sound
from tests.support.builders.consumers import MadeConsumer, seen
from tests.support.builders.consumers import given as assigned
from tests.support.builders.histories import Made, Send, entry, send
from tests.support.oracles.jepsen_histories import KEY, ops_of, ops_of_world

TYPES = ("ok", "fail", "info", None)


def value(producer: int | None, sequence: int | None) -> str | None:
    return value_of("c", producer, sequence)


@st.composite
def under_way_at_once(draw: st.DrawFn) -> list[Send]:
    """Sends of two producers over two seconds, each with any outcome at any time after it."""
    sends = []
    for producer in (0, 1):
        for sequence, time in enumerate(sorted(draw(st.lists(st.integers(0, 20), max_size=9)))):
            kind = draw(st.sampled_from(TYPES))
            sends.append(send("invoke", producer, sequence, time))
            if kind:
                offset = draw(st.none() | st.integers(0, 9)) if kind == "ok" else None
                # Also of a clock that was set back.
                later = time + draw(st.integers(-2, 9))
                sends.append(send(kind, producer, sequence, later, offset))
    return sends


def completed(ops: Iterable[Op], f: str) -> list[Op]:
    return [op for op in ops if op.f == f and op.type != "invoke"]


@given(under_way_at_once())
def test_a_process_does_one_thing_at_a_time_and_nothing_after_an_info(sends: list[Send]) -> None:
    under_way: dict[int, Op] = {}
    crashed: set[int] = set()
    for op in ops_of(Made(sends=sends, log=[], end=0)):
        if op.type == "invoke":
            assert op.process not in under_way.keys() | crashed
            under_way[op.process] = op
        else:
            called = under_way.pop(op.process)
            assert (called.f, called.client) == (op.f, op.client)
            assert op.sent is None or called.sent == (KEY, (None, op.sent[1][1]))
        if op.type == "info":
            crashed.add(op.process)
    assert not under_way


@given(under_way_at_once())
def test_a_producer_is_no_more_processes_than_it_needs(sends: list[Send]) -> None:
    under_way: Counter[str] = Counter()
    most: Counter[str] = Counter()
    processes: dict[str, set[int]] = {}
    for op in completed_or_called(sends):
        # What ended with an info is under way for good.
        under_way[op.client] += {"invoke": 1, "info": 0}.get(op.type, -1)
        most[op.client] = max(most[op.client], under_way[op.client])
        processes.setdefault(op.client, set()).add(op.process)
    assert {client: len(some) for client, some in processes.items()} == most
    assert len(set().union(*processes.values())) == most.total()


def completed_or_called(sends: list[Send]) -> list[Op]:
    return [op for op in ops_of(Made(sends=sends, log=[], end=0)) if op.f == "send"]


@given(under_way_at_once())
def test_each_send_is_exported_with_its_outcome(sends: list[Send]) -> None:
    outcomes = {(s.producer, s.sequence): (s.type, s.offset) for s in sends}
    told = {}
    for op in completed(ops_of(Made(sends=sends, log=[], end=0)), "send"):
        assert op.sent is not None
        told[op.sent[1][1]] = (str(op.type), op.sent[1][0])
    assert told == {
        value(*record): ("info", None) if outcome[0] == "invoke" else outcome
        for record, outcome in outcomes.items()
    }


@given(sound())
def test_ops_are_in_the_order_of_time_and_an_invoke_comes_before_its_completion(
    world: World,
) -> None:
    ops = ops_of_world(world)
    assert all(one.time <= other.time for one, other in pairwise(ops))


@given(sound())
def test_each_poll_is_exported_unchanged(world: World) -> None:
    ops = completed(ops_of_world(world), "poll")
    for made in world.consumers:
        told = [
            pair
            for op in ops
            if op.client == made.client and op.polled is not None
            for pair in op.polled[KEY]
        ]
        assert told == [(row.offset, value(row.producer, row.sequence)) for row in made.polls]
        polls = [op for op in ops if op.client == made.client]
        assert len(polls) == len({row.poll for row in made.polls})


@given(sound())
def test_the_final_read_is_the_last_consumer(world: World) -> None:
    ops = ops_of_world(world)
    last = [op for op in ops if op.client == FINAL_READ]
    assert ops[-len(last) :] == last
    told = [pair for op in last if op.polled for pair in op.polled[KEY]]
    assert told == [(row.offset, value(row.producer, row.sequence)) for row in world.log.log]


def test_assignment_changes_are_exported_with_the_next_poll() -> None:
    member = MadeConsumer(
        client="member-0",
        group="g",
        polls=[seen(1, 0, 0, 0, 20), seen(2, 1, 0, 1, 30), seen(3, 0, 0, 0, 40)],
        assigned=[assigned(0, 10), assigned(2, 31, None, "revoked"), assigned(2, 32)],
    )
    nothing = Made(sends=[], log=[], end=0)
    polls = completed(ops_of(nothing, [member]), "poll")
    assert [op.rebalanced for op in polls] == [
        [("assigned", KEY)],
        [],
        [("revoked", KEY), ("assigned", KEY)],
    ]


def test_lines_are_jepsens() -> None:
    log = Made(
        sends=[
            send("invoke", 0, 0, 1),
            send("ok", 0, 0, 2, 5),
            send("invoke", 0, 1, 3),
            send("ok", 0, 1, 4),
            send("invoke", 0, 2, 5),
            send("info", 0, 2, 6),
        ],
        log=[entry(5, 0, 0), entry(6)],
        end=7,
    )
    reader = MadeConsumer(polls=[seen(1, 5, 0, 0, 9)], assigned=[assigned(0, 7)])
    assert [edn(op) for op in ops_of(log, [reader])] == [
        *(
            '{:type :invoke, :process 1, :time 1, :f :send, :value [[:send "t-0" "c/0/0"]], '
            ':client "c/0"}',
            '{:type :ok, :process 1, :time 2, :f :send, :value [[:send "t-0" [5 "c/0/0"]]], '
            ':client "c/0"}',
            '{:type :invoke, :process 1, :time 3, :f :send, :value [[:send "t-0" "c/0/1"]], '
            ':client "c/0"}',
            '{:type :ok, :process 1, :time 4, :f :send, :value [[:send "t-0" [nil "c/0/1"]]], '
            ':client "c/0"}',
            '{:type :invoke, :process 1, :time 5, :f :send, :value [[:send "t-0" "c/0/2"]], '
            ':client "c/0"}',
            '{:type :info, :process 1, :time 6, :f :send, :value [[:send "t-0" "c/0/2"]], '
            ':client "c/0"}',
        ),
        '{:type :invoke, :process 0, :time 7, :f :assign, :value ["t-0"], :client "reader-0"}',
        '{:type :ok, :process 0, :time 7, :f :assign, :value ["t-0"], :client "reader-0"}',
        '{:type :invoke, :process 0, :time 7, :f :poll, :value [[:poll]], :client "reader-0"}',
        '{:type :ok, :process 0, :time 9, :f :poll, :value [[:poll {"t-0" [[5 "c/0/0"]]}]], '
        ':client "reader-0"}',
        '{:type :invoke, :process 2, :time 9, :f :assign, :value ["t-0"], :client "final-read"}',
        '{:type :ok, :process 2, :time 9, :f :assign, :value ["t-0"], :client "final-read"}',
        '{:type :invoke, :process 2, :time 9, :f :poll, :value [[:poll]], :client "final-read"}',
        "{:type :ok, :process 2, :time 9, :f :poll, "
        ':value [[:poll {"t-0" [[5 "c/0/0"] [6 nil]]}]], :client "final-read"}',
    ]


def recorded_ops(history: History, tmp_path: Path) -> list[Op]:
    directory = history.write(tmp_path)
    (run,) = manifest.read(tmp_path).runs
    return list(recorded(directory, run))


def test_record_of_a_crashed_producer_is_sent_with_unknown_outcome(tmp_path: Path) -> None:
    history = sound_history()
    history.crash(PRODUCER)
    ops = recorded_ops(history, tmp_path)
    sent = {op.sent[1][1]: op.type for op in ops if op.sent is not None}
    read = {pair[1] for op in ops for pairs in (op.polled or {}).values() for pair in pairs}
    outcomes = Counter(sent[one] for one in read)
    assert outcomes.keys() == {"ok", "info"}
    assert outcomes["info"] == len(read) - outcomes["ok"] < len(read) / 2


def test_record_of_another_producer_has_no_send(tmp_path: Path) -> None:
    history = sound_history()
    history.rows("log", 0)[5]["sequence"] = 4_000
    ops = recorded_ops(history, tmp_path)
    assert all(op.sent is None or not str(op.sent[1][1]).endswith("/4000") for op in ops)


def test_files_of_a_crashed_member_may_be_absent(tmp_path: Path) -> None:
    history = sound_history()
    history.crash(MEMBER)
    directory = history.write(tmp_path)
    (run,) = manifest.read(tmp_path).runs
    for file in directory.glob(f"polls.*.0.{MEMBER}.*"):
        file.unlink()
    assert any(op.client == MEMBER for op in recorded(directory, run))
    for file in directory.glob(f"polls.*.0.{READER}.*"):
        file.unlink()
    with pytest.raises(DamagedFiles, match=READER):
        list(recorded(directory, run))


def test_ops_are_those_of_the_topics_asked_for(tmp_path: Path) -> None:
    directory = sound_history().write(tmp_path)
    (run,) = manifest.read(tmp_path).runs
    assert {op.client for op in recorded(directory, run, {"other"})} == {FINAL_READ}
    assert list(recorded(directory, run, {TOPIC})) == list(recorded(directory, run))
