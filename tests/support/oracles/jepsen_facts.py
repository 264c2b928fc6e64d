"""Facts of a made history, as Jepsen's checker sees it, without any judgement."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ackproof.history.jepsen import FINAL_READ, Op, value_of
from tests.support.builders.consumers import MadeConsumer
from tests.support.builders.histories import CELL, Made

Value = str | None
BEGINS = ("assigned", "out-of-range")
ENDS = ("revoked", "lost")


class Read(NamedTuple):
    """A record that a consumer was shown, and how many times it had begun to read before."""

    poll: int
    offset: int
    value: Value
    begun: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of one partition.

    Attributes:
        log: The final log, and the sends.
        final: Value by offset of the final log.
        places: Offsets by value, from acknowledgements and reads, also of the final read.
        shown: The reads of each consumer, in order.
        mixed: By client, polls during which the partition was revoked and assigned again.
        rebalanced: By client, polls during which either happened.
        processes: The sends of each process that are not known to have failed, in order, with the
            producer's client.
    """

    log: Made
    final: dict[int, Value]
    places: dict[Value, set[int]]
    shown: dict[str, list[Read]]
    mixed: dict[str, set[int]]
    rebalanced: dict[str, set[int]]
    processes: dict[tuple[str, int], list[Value]] = field(default_factory=dict)

    @property
    def strangers(self) -> set[Value]:
        """Return the values that were read and never sent."""
        sent = {value(event.producer, event.sequence) for event in self.log.sends}
        everyone = (read.value for rows in self.shown.values() for read in rows)
        return {*everyone, *self.final.values()} - sent

    def several(self, one: Value) -> bool:
        """Whether it was told to be at several offsets."""
        return len(self.places.get(one, ())) > 1

    def contested(self, one: Value) -> bool:
        """Whether another was told to be at an offset of its."""
        mine = self.places.get(one, set())
        return any(mine & self.places[other] for other in self.places if other != one)

    def steps(self, client: str) -> Iterator[tuple[Read, Read]]:
        """From what a consumer was shown to what it was shown next."""
        return pairwise(self.shown.get(client, []))

    def sent_in_turn(self, client: str) -> Iterator[tuple[Value, Value]]:
        """From what a process of a producer sent to what it sent next."""
        for (producer, _), values in self.processes.items():
            if producer == client:
                yield from pairwise(values)

    def overtaken(self) -> bool:
        """Whether a record stands behind one that was sent after it had been acknowledged."""
        called = {value(s.producer, s.sequence): s.time for s in self.log.sends if _is(s, "invoke")}
        acked = {value(s.producer, s.sequence): s.time for s in self.log.sends if _is(s, "ok")}
        return any(
            acked[one] <= called[other] and max(self.places[one]) > min(self.places[other])
            for one in acked.keys() & self.places.keys()
            for other in called.keys() & self.places.keys() - {one}
        )


def value(producer: int | None, sequence: int | None) -> Value:
    return value_of(CELL, producer, sequence)


def _is(event: object, type_: str) -> bool:
    return getattr(event, "type", None) == type_


def facts(log: Made, consumers: Sequence[MadeConsumer], ops: Sequence[Op]) -> Facts:
    """``ops``: the same history, as it was told to Jepsen."""
    final = {row.offset: value(row.producer, row.sequence) for row in log.log}
    places: dict[Value, set[int]] = defaultdict(set)
    for event in log.sends:
        if event.type == "ok" and event.offset is not None:
            places[value(event.producer, event.sequence)].add(event.offset)
    shown = {made.client: list(_reads(made)) for made in consumers}
    for read in (read for rows in shown.values() for read in rows):
        places[read.value].add(read.offset)
    for offset, held in final.items():
        places[held].add(offset)
    processes: dict[tuple[str, int], list[Value]] = defaultdict(list)
    for op in ops:
        if op.sent is not None and op.type in ("ok", "info"):
            processes[op.client, op.process].append(op.sent[1][1])
    shown[FINAL_READ] = [Read(0, offset, held, 0) for offset, held in sorted(final.items())]
    changed = {made.client: _polls_of(made, (*BEGINS, *ENDS)) for made in consumers if made.group}
    return Facts(
        log=log,
        final=final,
        places=dict(places),
        shown=shown,
        mixed={made.client: _polls_of(made, BEGINS) & _polls_of(made, ENDS) for made in consumers},
        rebalanced=changed,
        processes=processes,
    )


def _polls_of(made: MadeConsumer, events: Sequence[str]) -> set[int]:
    """The polls during which such a thing may have happened."""
    after = {one.poll for one in made.assigned if one.event in events}
    return {poll + 1 for poll in after}


def _reads(made: MadeConsumer) -> Iterator[Read]:
    for row in made.polls:
        begun = sum(one.event in BEGINS and one.poll < row.poll for one in made.assigned)
        yield Read(row.poll, row.offset, value(row.producer, row.sequence), begun)
