"""What brokers say of themselves: the lines of their state-change logs, as ``collect`` copied them.

A broker writes a line whenever it has taken a role (Kafka's ``state.change.logger``): which
partition, who leads it, in which leader epoch; and of a partition that it leads itself, where its
log ended when that epoch began. The bundled broker's lines are one JSON object each. Apache Kafka's
are sentences, of which those of leaders count, e.g. ::

    [Broker id=1] Leader t-0 with topic id Some(QcD) starts at leader epoch 3 from offset 9 with ...
    [Partition t-0 broker=1] t-0 starts at Leader Epoch 3 from offset 9. ...

What the controller tells it the bundled broker writes down before that, as ``received``.

No use is made of their times. They are of the broker's clock, which nobody has compared and faults
may set, in its time zone. What counts is the order in one process, and who says what of an epoch.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.cluster.faults import Partition
from ackproof.checkers.timeline.lines import STRANGE, number, object_in, partition_in, said
from ackproof.history.storage import AnyPath

_ORDER = "LeaderAndIsr"
_ROLES = frozenset({_ORDER, "LeaderChange"})
"""By whom a broker is told a role: the controller, or what it read where leaders coordinate."""
_BEGINNING = re.compile(r"\bconnecting to ZooKeeper at|\b[Rr]egistered broker \d")
"""What a process says first, and whenever it has registered. Where leaders coordinate themselves it
takes roles before it registers, and may be asked for one that its former self had long left."""
_KAFKA = (
    re.compile(
        r"\[Broker id=(?P<broker>\d+)\] Leader (?P<partition>\S+) .*?"
        r"starts at leader epoch (?P<epoch>\d+) from offset (?P<end>\d+) "
        r"(?:with .*?high watermark (?P<watermark>\d+))?"
    ),
    re.compile(
        r"\[Partition (?P<partition>\S+) broker=(?P<broker>\d+)\] \S+ "
        r"starts at Leader Epoch (?P<epoch>\d+) from offset (?P<end>\d+)\."
        r"(?: .*?[Hh]igh [Ww]atermark:? (?P<watermark>\d+))?"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A broker has taken a role.

    Attributes:
        life: Counts its beginnings, from 0: what it forgot with its process it forgot between two
            of them.
        leader: Whom it takes for the leader; itself, or whom it follows; -1 for nobody.
        log_end: Where its log ended, where it leads and says so; None otherwise.
        high_watermark: Likewise, at that moment.
    """

    broker: int
    life: int
    leader: int
    leader_epoch: int
    log_end: int | None = None
    high_watermark: int | None = None

    @property
    def leads(self) -> bool:
        """Whether it leads itself."""
        return self.leader == self.broker


def words_of(logs: AnyPath, without: Container[AnyPath] = ()) -> dict[Partition, tuple[Word, ...]]:
    """What the brokers said of each partition, each one's words in their order.

    Args:
        logs: The directory of the nodes' logs; it need not be there. Nothing is said of a file that
            cannot be read.
        without: Files that are passed over.
    """
    found: dict[Partition, list[Word]] = {}
    for partition, word in said(logs, _words, without):
        found.setdefault(partition, []).append(word)
    return {partition: tuple(told) for partition, told in found.items()}


def orders_of(
    logs: AnyPath, without: Container[AnyPath] = ()
) -> dict[Partition, dict[int, list[int]]]:
    """The leader epochs of what the controller told each broker of a partition: by broker, in the
    order of its log.

    The bundled broker writes a line (``received``) before it does anything about it, so that it did
    nothing about what it has no line of. Of Apache Kafka's brokers nothing is known: what they are
    told of one partition they write at a level (TRACE) that nobody asks for.

    Args:
        logs, without: As in :func:`words_of`.
    """
    found: dict[Partition, dict[int, list[int]]] = {}
    for partition, broker, epoch in said(logs, _orders, without):
        found.setdefault(partition, {}).setdefault(broker, []).append(epoch)
    return found


def _words(lines: Iterable[str]) -> Iterator[tuple[Partition, Word]]:
    life = 0
    for line in lines:
        if _BEGINNING.search(line):
            life += 1
        elif " starts at " in line:
            with suppress(*STRANGE):
                yield from _kafka_word(line, life)
        elif '"completed"' in line and _is_one_of(told := object_in(line), _ROLES):
            try:
                yield _word(told, life)
            except STRANGE:
                continue


def _orders(lines: Iterable[str]) -> Iterator[tuple[Partition, int, int]]:
    for line in lines:
        # Behind half a line the last object is whole: none that is missed may seem not to be there.
        told = object_in(line[line.rfind("{") :]) if '"received"' in line else {}
        if told.get("event") == "received" and told.get("change") == _ORDER:
            try:
                partition, word = _word(told, 0)
            except STRANGE:
                continue
            yield partition, word.broker, word.leader_epoch


def _kafka_word(line: str, life: int) -> Iterator[tuple[Partition, Word]]:
    for found in filter(None, (pattern.search(line) for pattern in _KAFKA)):
        topic, _, partition = found["partition"].rpartition("-")
        if partition.isdecimal():
            broker = number(found["broker"])
            word = Word(
                broker=broker,
                life=life,
                leader=broker,
                leader_epoch=number(found["epoch"]),
                log_end=number(found["end"]),
                high_watermark=_number(found["watermark"]),
            )
            yield (topic, number(partition)), word


def _is_one_of(told: Mapping[str, Any], changes: frozenset[str]) -> bool:
    change = told.get("change")
    return isinstance(change, str) and change in changes


def _word(told: Mapping[str, Any], life: int) -> tuple[Partition, Word]:
    word = Word(
        broker=number(told["broker"]),
        life=life,
        leader=number(told["leader"]),
        leader_epoch=number(told["leader_epoch"]),
        log_end=_number(told.get("leader_epoch_start_offset")),
        high_watermark=_number(told.get("high_watermark")),
    )
    return partition_in(told), word


def _number(told: Any) -> int | None:
    return None if told is None else number(told)
