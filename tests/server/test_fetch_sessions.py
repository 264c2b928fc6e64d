"""Fetch sessions (KIP-227): both ends agree, slots go to whom they should."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.replication.events import FetchFrom
from ackproof.broker.server.metrics import CONSUMER
from ackproof.broker.server.replication import fetcher
from ackproof.broker.server.replication.fetch_session_cache import (
    EPOCH_MAX,
    INVALID_SESSION_ID,
    MIN_EVICTION_MS,
    FetchSession,
    FetchSessionCache,
    SessionRefused,
    asked_in,
)
from ackproof.broker.server.replication.fetcher import FetchAsk, FetchSessionHandler
from ackproof.broker.types import BrokerId, LeaderEpoch, Millis, Offset, TopicPartition
from ackproof.broker.wire.messages.fetch import FetchRequest

FOLLOWER = 1
CONFIG = BrokerConfig.model_validate(
    {"broker.id": str(FOLLOWER), "zookeeper.connect": "localhost:1"}
)
PARTITIONS = [TopicPartition(topic, number) for topic in "ab" for number in range(3)]


def wanted(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, FetchFrom]:
    return {
        tp: FetchFrom(
            leader=BrokerId(2),
            leader_epoch=LeaderEpoch(0),
            offset=Offset(offset),
            log_start_offset=Offset(0),
        )
        for tp, offset in offsets.items()
    }


class Leader:
    def __init__(self) -> None:
        self.cache = FetchSessionCache(10, Random(1))
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.watermarks = dict.fromkeys(PARTITIONS, 0)

    def answer(self, request: FetchRequest) -> SimpleNamespace:
        try:
            session = self.cache.session_of(request, Millis(0))
        except SessionRefused as refused:
            return SimpleNamespace(error_code=refused.error, session_id=INVALID_SESSION_ID, news={})
        news = {}
        for tp, asked in session.asked().items() if session else asked_in(request):
            size = self.ends[tp] - asked.fetch_offset
            watermark = Offset(self.watermarks[tp])
            if session is None or session.has_changed(
                tp, ErrorCode.none, watermark, Offset(0), size
            ):
                news[tp] = (size, watermark)
        return SimpleNamespace(
            error_code=ErrorCode.none,
            session_id=session.id if session else INVALID_SESSION_ID,
            news=news,
        )


class Follower:
    def __init__(self) -> None:
        self.session = FetchSessionHandler()
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.watermarks = dict.fromkeys(PARTITIONS, 0)
        self.followed = set(PARTITIONS)

    def fetch(self, leader: Leader, *, is_lost: bool) -> bool:
        """Whether the leader answered with what was asked for."""
        ask = self.session.ask(wanted({tp: self.ends[tp] for tp in sorted(self.followed)}))
        response = leader.answer(fetcher.fetch(CONFIG, ask))
        if is_lost:
            self.session.interrupted()
            return False
        self.session.answered(response)
        for tp, (size, watermark) in response.news.items():
            self.ends[tp] += size
            self.watermarks[tp] = watermark
        return response.error_code is ErrorCode.none


PARTITION = st.sampled_from(PARTITIONS)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["append", "commit", "follow", "unfollow"]), PARTITION),
        st.tuples(st.sampled_from(["fetch", "lose", "restart"]), st.none()),
    ),
    max_size=40,
)


@given(moves=MOVES)
def test_fetch_session_gives_a_follower_the_same_state_as_full_fetches(
    moves: list[tuple[str, TopicPartition]],
) -> None:
    leader, follower = Leader(), Follower()
    for move, tp in moves:
        if move == "append":
            leader.ends[tp] += 1
        elif move == "commit":
            leader.watermarks[tp] = leader.ends[tp]
        elif move == "follow":
            follower.followed.add(tp)
        elif move == "unfollow":
            follower.followed.discard(tp)
        elif move == "restart":
            leader.cache = FetchSessionCache(10, Random(2))
        elif follower.fetch(leader, is_lost=move == "lose"):
            for followed in follower.followed:
                assert follower.ends[followed] == leader.ends[followed]
                assert follower.watermarks[followed] == leader.watermarks[followed]
    assert follower.fetch(leader, is_lost=False) or follower.fetch(leader, is_lost=False)


def test_session_request_and_answer_contain_changes_only() -> None:
    leader, follower = Leader(), Follower()
    follower.fetch(leader, is_lost=False)
    leader.ends[PARTITIONS[4]] = 1
    ask = follower.session.ask(wanted(follower.ends))
    assert (ask.changed, ask.forgotten) == ({}, ())
    assert list(leader.answer(fetcher.fetch(CONFIG, ask)).news) == [PARTITIONS[4]]


def test_skipped_partition_is_named_and_answered_again() -> None:
    leader, follower = Leader(), Follower()
    follower.fetch(leader, is_lost=False)
    refused = PARTITIONS[4]
    leader.watermarks[refused] = 3
    follower.session.answered(
        leader.answer(fetcher.fetch(CONFIG, follower.session.ask(wanted(follower.ends))))
    )
    follower.session.skipped(refused)
    ask = follower.session.ask(wanted(follower.ends))
    assert (list(ask.changed), ask.forgotten) == ([refused], ())
    assert leader.answer(fetcher.fetch(CONFIG, ask)).news == {refused: (0, 3)}


def test_or_forgotten_where_it_is_not_asked_for_now() -> None:
    leader, follower = Leader(), Follower()
    follower.fetch(leader, is_lost=False)
    refused, *others = PARTITIONS
    follower.session.skipped(refused)
    ask = follower.session.ask(wanted(dict.fromkeys(others, 0)))
    assert (ask.changed, ask.forgotten) == ({}, (refused,))


# --- the leader's end alone -------------------------------------------------------------------


def first(size: int, replica: int = FOLLOWER) -> FetchRequest:
    ask = FetchAsk(INVALID_SESSION_ID, 0, wanted(dict.fromkeys(PARTITIONS[:size], 0)), ())
    return replace(fetcher.fetch(CONFIG, ask), replica_id=replica)


def following(session_id: int, epoch: int) -> FetchRequest:
    return fetcher.fetch(CONFIG, FetchAsk(session_id, epoch, {}, ()))


def begun(cache: FetchSessionCache, request: FetchRequest, now: int = 0) -> FetchSession:
    session = cache.session_of(request, Millis(now))
    assert session is not None
    return session


def test_epochs_follow_each_other() -> None:
    cache = FetchSessionCache(1, Random(1))
    session = begun(cache, first(1))
    for epoch in (1, 2):
        assert cache.session_of(following(session.id, epoch), Millis(0)) is session
    with pytest.raises(SessionRefused) as refused:
        cache.session_of(following(session.id, 2), Millis(0))
    assert refused.value.error is ErrorCode.invalid_fetch_session_epoch
    session.epoch = EPOCH_MAX
    for epoch in (EPOCH_MAX, 1):
        assert cache.session_of(following(session.id, epoch), Millis(0)) is session


def test_an_unknown_session_is_refused() -> None:
    with pytest.raises(SessionRefused) as refused:
        FetchSessionCache(1, Random(1)).session_of(following(7, 1), Millis(0))
    assert refused.value.error is ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_request_from_the_start_ends_the_session_it_names(epoch: int) -> None:
    cache = FetchSessionCache(1, Random(1))
    old = begun(cache, first(1))
    request = replace(first(1), session_id=old.id, session_epoch=epoch)
    assert (cache.session_of(request, Millis(0)) is None) == (epoch == -1)
    assert old not in cache


def test_a_session_that_is_left_empty_ends() -> None:
    cache = FetchSessionCache(1, Random(1))
    session = begun(cache, first(1))
    ask = FetchAsk(session.id, 1, {}, (PARTITIONS[0],))
    assert cache.session_of(fetcher.fetch(CONFIG, ask), Millis(0)) is None
    assert len(cache) == 0


def test_an_error_is_always_news_and_so_is_its_end() -> None:
    session = begun(FetchSessionCache(1, Random(1)), first(1))

    def has_changed(error: ErrorCode) -> bool:
        return session.has_changed(PARTITIONS[0], error, Offset(5), Offset(0), 0)

    unknown, none = ErrorCode.unknown_topic_or_partition, ErrorCode.none
    told = [has_changed(error) for error in (none, none, unknown, unknown, none, none)]
    assert told == [True, False, True, True, True, False]


def test_partitions_with_records_move_to_the_end() -> None:
    session = begun(FetchSessionCache(1, Random(1)), first(3))
    session.has_changed(PARTITIONS[0], ErrorCode.none, Offset(5), Offset(0), 100)
    assert list(session.asked()) == [PARTITIONS[1], PARTITIONS[2], PARTITIONS[0]]


JUST_OVER = MIN_EVICTION_MS + 1


@pytest.mark.parametrize(
    ("there", "used", "comes", "now", "makes_room"),
    [
        pytest.param((3, FOLLOWER), 0, (1, CONSUMER), JUST_OVER, True, id="idle for long"),
        pytest.param((3, FOLLOWER), 10, (1, CONSUMER), JUST_OVER, False, id="ranks higher"),
        pytest.param((1, CONSUMER), 10, (3, CONSUMER), JUST_OVER, True, id="smaller"),
        pytest.param((3, CONSUMER), 10, (3, CONSUMER), JUST_OVER, False, id="as large"),
        pytest.param((1, CONSUMER), 0, (3, CONSUMER), 5, False, id="has its time"),
        pytest.param((3, CONSUMER), 0, (1, FOLLOWER), 5, True, id="consumer before follower"),
        pytest.param((1, FOLLOWER), 0, (3, FOLLOWER), 5, False, id="follower before follower"),
    ],
)
def test_session_is_evicted_by_size_and_age(
    there: tuple[int, int], used: int, comes: tuple[int, int], now: int, makes_room: bool
) -> None:
    cache = FetchSessionCache(1, Random(1))
    old = begun(cache, first(*there))
    cache.session_of(following(old.id, 1), Millis(used))
    new = cache.session_of(first(*comes), Millis(now))
    assert (new is not None, old in cache) == (makes_room, not makes_room)
    assert len(cache) == 1


def test_cache_without_slots_grants_no_session() -> None:
    assert FetchSessionCache(0, Random(1)).session_of(first(3), Millis(0)) is None
