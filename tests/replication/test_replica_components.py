"""The small components, compared with naive versions where they have an invariant."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.leader import IsrState, PendingProduces, RemoteReplica, Waiting
from ackproof.broker.replication.local import Epochs, LocalLog, LogState

HISTORY = Epochs(((1, 0), (3, 10), (4, 25)))

assignments = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (0, (0, 0)),
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 25)),
        (4, (4, 30)),
        (5, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
def test_end_offset_of_an_epoch_is_found(asked: int, answer: tuple[int, int]) -> None:
    assert HISTORY.end_offset_for(asked, 30) == answer


def test_empty_epoch_history_has_no_epoch() -> None:
    assert Epochs().end_offset_for(0, 30) == (-1, -1)


@given(assignments)
def test_epoch_history_increases_for_any_assignment(entries: list[tuple[int, int]]) -> None:
    history = Epochs().assign_all(entries)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(history.entries))
    if entries:
        assert history.latest == entries[-1][0]


def test_repeated_epoch_keeps_its_start() -> None:
    assert HISTORY.assign(4, 30) == HISTORY
    assert HISTORY.assign(4, 20).entries == ((1, 0), (3, 10), (4, 20))
    assert HISTORY.assign(2, 5).entries == ((1, 0), (2, 5))


@given(assignments, st.integers(0, 60))
def test_truncated_start_keeps_the_epoch_of_each_offset(
    entries: list[tuple[int, int]], start: int
) -> None:
    def epoch_at(history: Epochs, offset: int) -> int:
        return max((epoch for epoch, begin in history.entries if begin <= offset), default=-1)

    history = Epochs().assign_all(entries)
    cut = history.truncate_from_start(start)
    assert all(epoch_at(cut, offset) == epoch_at(history, offset) for offset in range(start, 70))
    assert sum(begin <= start for _, begin in cut.entries) <= 1


def test_decreasing_epoch_history_is_rejected() -> None:
    with pytest.raises(ValueError, match="do not increase"):
        Epochs(((1, 0), (1, 5)))


def test_checkpointed_watermark_is_limited_to_the_log() -> None:
    def log(watermark: int) -> LocalLog:
        return LocalLog(
            LogState(log_start_offset=5, log_end_offset=9, high_watermark=watermark, epochs=())
        )

    assert [log(watermark).high_watermark for watermark in (0, 7, 12)] == [5, 7, 9]


def test_log_start_after_its_end_is_rejected() -> None:
    state = LogState(log_start_offset=5, log_end_offset=4, high_watermark=0, epochs=())
    with pytest.raises(ValueError, match="starts after its end"):
        LocalLog(state)


waiting_steps = st.tuples(
    st.sampled_from(["add", "reach", "expire"]), st.integers(0, 60), st.integers(1, 60)
)


@given(st.lists(waiting_steps))
def test_pending_requests_are_answered_once_and_in_time(steps: list[tuple[str, int, int]]) -> None:
    pending = PendingProduces()
    model: dict[int, Waiting] = {}
    for number, (what, value, required) in enumerate(steps):
        if what == "add":
            model[number] = Waiting(
                request=number, base_offset=0, required_offset=required, deadline=value
            )
            pending.add(model[number])
            continue
        if what == "reach":
            expected = {w.request for w in model.values() if w.required_offset <= value}
            done = pending.reached(value)
        else:
            expected = {w.request for w in model.values() if w.deadline <= value}
            done = pending.expired(value)
        assert {waiting.request for waiting in done} == expected
        for request in expected:
            del model[request]
    assert {waiting.request for waiting in pending.drain()} == set(model)
    assert len(pending) == 0


def test_second_isr_write_at_once_is_rejected() -> None:
    state = IsrState(committed=(1,), zk_version=0).propose((1, 2))
    assert state.maximal == {1, 2}
    with pytest.raises(ValueError, match="in flight already"):
        state.propose((1, 3))


@pytest.mark.parametrize("bad", [{"min_insync_replicas": 0}, {"replica_lag_time_max_ms": -1}])
def test_settings_out_of_range_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"min\.insync\.replicas|replica\.lag\.time\.max\.ms"):
        ReplicaConfig(**bad)


def test_follower_is_caught_up_by_its_previous_fetch() -> None:
    """Test the two rules of Kafka's Replica.updateFetchStateOrThrow."""
    remote = RemoteReplica()
    level = remote.fetched(offset=5, log_start=0, leader_log_end=5, now=10)
    assert level.last_caught_up_time == 10
    behind = level.fetched(offset=5, log_start=0, leader_log_end=8, now=20)
    assert behind.last_caught_up_time == 10, "had all there was at its last fetch, at 10"
    chasing = behind.fetched(offset=8, log_start=0, leader_log_end=12, now=30)
    assert chasing.last_caught_up_time == 20, "has now all there was at its last fetch, at 20"
    slow = chasing.fetched(offset=9, log_start=0, leader_log_end=20, now=40)
    assert slow.last_caught_up_time == 20, "fetching is not enough"
