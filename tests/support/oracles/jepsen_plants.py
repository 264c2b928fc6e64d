"""Anomalies, each planted alone in a history in which all is well, and histories of anything."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.support.builders.consumer_histories import READ, World, sound
from tests.support.builders.consumers import MadeConsumer, Seen, seen
from tests.support.builders.histories import Entry, Made, Send, entry, send

Choose = Callable[[Sequence[Any]], Any]
OTHER = (7, 0)
"""A record of a producer that did nothing else."""
AFTER = 500
"""Later than whatever was sent, earlier than whatever was shown."""


@dataclass(frozen=True, kw_only=True)
class Plant:
    """``ours``, ``theirs``: what each must find, and ``never``: what Jepsen must not."""

    make: Callable[[World, Choose], World]
    ours: frozenset[str]
    theirs: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()


def _acked(world: World) -> dict[tuple[int, int], int]:
    return {
        (s.producer, s.sequence): s.offset
        for s in world.log.sends
        if s.type == "ok" and s.offset is not None
    }


def _standing(world: World) -> list[Entry]:
    """Records of the log that were acked at their offsets."""
    acked = _acked(world)
    return [one for one in world.log.log if (one.producer, one.sequence) in acked]


def _shown(world: World) -> list[tuple[MadeConsumer, int]]:
    return [(made, at) for made in world.consumers for at in range(len(made.polls))]


def _sending(world: World, *events: Send, **changes: Any) -> World:
    return replace(world, log=world.log.but(sends=[*world.log.sends, *events], **changes))


def _alone(world: World) -> World:
    """Read by the final read alone."""
    return replace(world, consumers=())


def lose(world: World, choose: Choose) -> World:
    """From the middle of the log, and unread."""
    inner = [one for one in _standing(world) if one is not world.log.log[-1]]
    return _alone(world.without(choose(inner)))


def lose_and_rewrite(world: World, choose: Choose) -> World:
    """Another stands in its place, of which it is unknown whether it was sent."""
    gone = choose([one for one in _standing(world) if one is not world.log.log[-1]])
    log = [entry(one.offset, *OTHER) if one is gone else one for one in world.log.log]
    events = [send("invoke", *OTHER, AFTER), send("info", *OTHER, AFTER + 5)]
    return _alone(_sending(world, *events, log=log))


def lose_the_tail(world: World, choose: Choose) -> World:
    """All from one record on, which was acked; the log ends before it."""
    first = choose(_standing(world))
    kept = [one for one in world.log.log if one.offset < first.offset]
    return _alone(replace(world, log=world.log.but(log=kept, end=first.offset)))


def lose_without_an_offset(world: World, _: Choose) -> World:
    """Acked as with acks=0: its place is in no answer."""
    return _alone(_sending(world, send("invoke", *OTHER, AFTER), send("ok", *OTHER, AFTER + 5)))


def lose_what_was_shown(world: World, choose: Choose) -> World:
    made, at = choose(_shown(world))
    offset = made.polls[at].offset
    (record,) = (one for one in world.log.log if one.offset == offset)
    assume(record in _standing(world))
    return world.without(record)


def duplicate(world: World, choose: Choose) -> World:
    twin = choose(world.log.log)
    again = entry(world.log.end, twin.producer, twin.sequence)
    end = world.log.end + 1
    return replace(world, log=world.log.but(log=[*world.log.log, again], end=end))


def append_what_failed(world: World, _: Choose) -> World:
    events = [send("invoke", *OTHER, AFTER), send("fail", *OTHER, AFTER + 5)]
    log = [*world.log.log, entry(world.log.end, *OTHER)]
    return _sending(world, *events, log=log, end=world.log.end + 1)


def swap(world: World, _: Choose) -> World:
    """Two records of one producer, sent in one order and appended in the other."""
    end = world.log.end
    events = [
        send(kind, 7, number, AFTER + 10 * number + later, end + 1 - number if later else None)
        for number in (0, 1)
        for kind, later in (("invoke", 0), ("ok", 5))
    ]
    log = [*world.log.log, entry(end, 7, 1), entry(end + 1, 7, 0)]
    return _sending(world, *events, log=log, end=end + 2)


def swap_while_under_way(world: World, _: Choose) -> World:
    """Plant the same, with the second send before the first acknowledgement."""
    end = world.log.end
    events = [send("invoke", 7, number, AFTER + number) for number in (0, 1)]
    events += [send("ok", 7, number, AFTER + 5 + number, end + 1 - number) for number in (0, 1)]
    log = [*world.log.log, entry(end, 7, 1), entry(end + 1, 7, 0)]
    return _sending(world, *events, log=log, end=end + 2)


def overtake(world: World, _: Choose) -> World:
    """Plant records of two producers: the one sent after the other's acknowledgement precedes it in
    the log."""
    end = world.log.end
    events = [
        send(kind, 7 + number, 0, AFTER + 10 * number + later, end + 1 - number if later else None)
        for number in (0, 1)
        for kind, later in (("invoke", 0), ("ok", 5))
    ]
    log = [*world.log.log, entry(end, 8, 0), entry(end + 1, 7, 0)]
    return _sending(world, *events, log=log, end=end + 2)


def misplace(world: World, choose: Choose) -> World:
    """Acked at an offset where it does not stand, nor anything."""
    record = choose(_standing(world))
    sends = [
        replace(s, offset=world.log.end + 7)
        if s.type == "ok" and (s.producer, s.sequence) == (record.producer, record.sequence)
        else s
        for s in world.log.sends
    ]
    return replace(world, log=world.log.but(sends=sends))


def ack_twice(world: World, choose: Choose) -> World:
    """Another was acked where one stands."""
    offset = choose(_standing(world)).offset
    return _sending(world, send("invoke", *OTHER, AFTER), send("ok", *OTHER, AFTER + 5, offset))


def append_a_stranger(world: World, choose: Choose) -> World:
    stranger = choose([entry(world.log.end, *OTHER), entry(world.log.end)])
    log = world.log.but(log=[*world.log.log, stranger], end=world.log.end + 1)
    return replace(world, log=log)


def tear(world: World, _: Choose) -> World:
    """An offset without a record, and without a former one."""
    first, *_rest = world.log.log
    return replace(world, log=world.log.but(start=max(0, first.offset - 1), end=world.log.end + 1))


def show_another(world: World, choose: Choose) -> World:
    """One consumer reads, once, a sent record that no other consumer reads."""
    made, at = choose(_shown(world))
    rows = list(made.polls)
    rows[at] = replace(rows[at], producer=OTHER[0], sequence=OTHER[1])
    events = [send("invoke", *OTHER, AFTER), send("info", *OTHER, AFTER + 5)]
    return _sending(world.but(made.but(polls=rows)), *events)


def show_again(world: World, choose: Choose) -> World:
    made, at = choose(_in_a_reader_s_poll(world, 1))
    rows = [*made.polls[: at + 1], made.polls[at], *made.polls[at + 1 :]]
    return world.but(made.but(polls=rows))


def step_back(world: World, choose: Choose) -> World:
    made, at = choose(_in_a_reader_s_poll(world, 2))
    first, second = made.polls[at : at + 2]
    return world.but(made.but(polls=[*made.polls[:at], second, first, *made.polls[at + 2 :]]))


def skip(world: World, choose: Choose) -> World:
    """Plant a skipped record between a reader's reads before and after it, in one poll or in
    three."""
    readers = [made for made in world.consumers if made.group is None and len(made.assigned) == 1]
    made = choose([one for one in readers if len(one.polls) > 2])
    at = choose(range(1, len(made.polls) - 1))
    return world.but(made.but(polls=[*made.polls[:at], *made.polls[at + 1 :]]))


def _in_a_reader_s_poll(world: World, count: int) -> list[tuple[MadeConsumer, int]]:
    """So many rows of one poll, the first of them."""
    return [
        (made, at)
        for made in world.consumers
        if made.group is None
        for at in range(len(made.polls) - count + 1)
        if made.polls[at].poll == made.polls[at + count - 1].poll
    ]


def _plant(
    make: Callable[[World, Choose], World], *ours: str, theirs: str, never: str = ""
) -> Plant:
    return Plant(
        make=make,
        ours=frozenset(ours),
        theirs=frozenset(theirs.split()),
        never=frozenset(never.split()),
    )


PLANTS = (
    _plant(lose, "lost", "offset-gap", theirs="lost-write unseen"),
    _plant(lose_and_rewrite, "lost", theirs="lost-write unseen inconsistent-offsets"),
    _plant(lose_the_tail, "lost", theirs="unseen", never="lost-write"),
    _plant(lose_without_an_offset, "lost", theirs="unseen", never="lost-write"),
    _plant(lose_what_was_shown, "lost", "vanished-read", theirs="", never="lost-write unseen"),
    _plant(duplicate, "duplicated", theirs="duplicate"),
    _plant(append_what_failed, "failed-but-present", theirs="G1a"),
    _plant(swap, "reordered", "nonmonotonic-send", theirs="nonmonotonic-send"),
    _plant(swap_while_under_way, "reordered", theirs="", never="nonmonotonic-send"),
    _plant(overtake, theirs="G0-realtime"),
    _plant(misplace, "offset-mismatch", theirs="duplicate"),
    _plant(ack_twice, "lost", theirs="inconsistent-offsets"),
    _plant(append_a_stranger, "phantom", theirs=""),
    _plant(tear, "offset-gap", theirs=""),
    _plant(show_another, "inconsistent-read", theirs="inconsistent-offsets"),
    _plant(show_again, "nonmonotonic-poll", theirs="int-nonmonotonic-poll"),
    _plant(step_back, "nonmonotonic-poll", theirs="int-nonmonotonic-poll"),
    _plant(skip, "poll-skip", theirs=""),
)


@st.composite
def anything(draw: st.DrawFn) -> World:
    """Whatever a broken cluster could leave behind: any log, and consumers that were shown anything
    that was sent, anywhere; now and then a stranger."""
    records = draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), unique=True, min_size=1)
    )
    sends = [event for at, one in enumerate(records) for event in _any_outcome(draw, one, 10 * at)]
    strangers = [(None, None), (9, 9)] if draw(st.integers(0, 9)) == 0 else []
    content = st.sampled_from([*records, *strangers])
    offsets = sorted(draw(st.sets(st.integers(0, 12))))
    log = [entry(offset, *draw(content)) for offset in offsets]
    start = draw(st.sampled_from((0, 0, 0, min(offsets, default=0))))
    made = Made(sends=sends, log=log, start=start, end=13, complete=draw(st.integers(0, 4)) > 0)
    shape = draw(sound())
    return World(log=made, consumers=tuple(_any_reads(draw, c, content) for c in shape.consumers))


def _any_outcome(draw: st.DrawFn, record: tuple[int, int], time: int) -> list[Send]:
    kind = draw(st.sampled_from(["ok", "ok", "ok", "info", "fail", None]))
    events = [send("invoke", *record, time)]
    if kind:
        offset = draw(st.none() | st.integers(0, 12)) if kind == "ok" else None
        events.append(send(kind, *record, time + draw(st.integers(1, 30)), offset))
    return events


def _any_reads(
    draw: st.DrawFn, made: MadeConsumer, content: st.SearchStrategy[Any]
) -> MadeConsumer:
    """Draw reads in the same polls, with other offsets and other records at some of them."""
    count = len(made.polls)
    offsets = draw(st.lists(st.integers(0, 12), min_size=count, max_size=count))
    if draw(st.booleans()):
        offsets.sort()
    rows = [_any_read(draw, row, at, content) for row, at in zip(made.polls, offsets, strict=True)]
    return made.but(polls=rows, commits=())


def _any_read(draw: st.DrawFn, row: Seen, offset: int, content: st.SearchStrategy[Any]) -> Seen:
    return seen(row.poll, offset, *draw(content), READ + 10 * row.poll)
