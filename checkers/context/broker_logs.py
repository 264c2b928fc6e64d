"""What brokers say in their own state-change logs: leaders, leader epochs and ISRs, and where a
follower truncated its log."""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from ackproof.checkers.context.faults import BROKER, Partition
from ackproof.history.storage import AnyPath, matching

STRANGE = (KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""What is raised by whoever makes sense of a line that has none."""

_EVENTS = ('"completed"', '"received"', '"Truncate"')
"""Marks of the lines of the bundled broker that are objects."""

_NUMBERS = ("broker", "leader", "leader_epoch", "leader_epoch_start_offset", "high_watermark")
_NUMBER_MAX = 2**63

_T = TypeVar("_T")


def said(
    logs: AnyPath,
    understand: Callable[[Iterable[str]], Iterator[_T]],
    without: Container[AnyPath] = (),
) -> Iterator[_T]:
    """Return what is understood of the lines of each broker's log, one broker after the other, but
    of the files ``without``."""
    for path in _files(logs, without):
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                yield from understand(lines)
        except OSError:
            continue


def nonsense(logs: AnyPath, without: Container[AnyPath] = ()) -> Iterator[str]:
    """Yield the logs in which lines were passed over that no broker writes, a sentence each.

    Half a line is none of these: a broker that was killed leaves one.
    """
    for path in _files(logs, without):
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                strange = [number for number, line in enumerate(lines, 1) if _is_nonsense(line)]
        except OSError:
            continue
        if strange:
            where = f"{path.parent.name}/{path.name}"
            yield f"{where}: passed over {len(strange)} unreadable line(s), first line {strange[0]}"


def object_in(line: str) -> Mapping[str, Any]:
    """What stands between the first and the last brace. A broker that was killed may have left half
    a line, and its next process goes on behind it."""
    try:
        told = _object(line)
    except STRANGE:
        return {}
    return told if isinstance(told, dict) else {}


def partition_in(told: Mapping[str, Any]) -> Partition:
    """Return the partition that an object is about. Raises as :func:`number`."""
    topic, _, partition = str(told["partition"]).rpartition("-")
    return topic, number(partition)


def number(told: Any) -> int:
    """Return a whole number of at most 63 bits. Raises one of :data:`STRANGE` for anything else."""
    found = int(told)
    if abs(found) >= _NUMBER_MAX:
        raise OverflowError(f"{found:.3g} is larger than any number of Kafka's")
    return found


def _files(logs: AnyPath, without: Container[AnyPath]) -> Iterator[AnyPath]:
    nodes = [path for path in matching(logs, "broker-*") if BROKER.fullmatch(path.name)]
    return (path for node in nodes for path in matching(node, "*.log") if path not in without)


def _object(line: str) -> Any:
    return json.loads(line[line.index("{") : line.rindex("}") + 1])


def _is_nonsense(line: str) -> bool:
    if not any(mark in line for mark in _EVENTS):
        return False
    try:
        told = _object(line)
        for name in _NUMBERS if isinstance(told, dict) else ():
            if told.get(name) is not None:
                number(told[name])
    except json.JSONDecodeError:
        return False
    except ValueError as error:
        return "substring not found" not in str(error)
    except STRANGE:
        return True
    return not isinstance(told, dict)


# --- words ----------------------------------------------------------------------------------------
#
# What brokers say of themselves: the lines of their state-change logs, as ``collect`` copied them.
#
# A broker writes a line whenever it has taken a role (Kafka's ``state.change.logger``): which
# partition, who leads it, in which leader epoch; and of a partition that it leads itself, where its
# log ended when that epoch began. The bundled broker's lines are one JSON object each. Apache
# Kafka's are sentences, of which those of leaders count, e.g. ::
#
#     [Broker id=1] Leader t-0 with topic id Some(QcD) starts at leader epoch 3 from offset 9 with
# ...
#     [Partition t-0 broker=1] t-0 starts at Leader Epoch 3 from offset 9. ...
#
# What the controller tells it the bundled broker writes down before that, as ``received``.
#
# No use is made of their times. They are of the broker's clock, which nobody has compared and
# faults may set, in its time zone. What counts is the order in one process, and who says what of an
# epoch.


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


# --- truncations ----------------------------------------------------------------------------------
#
# What brokers say of truncations in their own logs, as ``collect`` copied them.
#
# A follower cuts what its leader does not have. The bundled broker writes a line of its
# state-change log, one JSON object (``change``: Truncate). Apache Kafka's followers write
# sentences, e.g. ::
#
#     [ReplicaFetcher replicaId=1, leaderId=3, fetcherId=0] Truncating partition t-0 with
#     TruncationState(offset=9, completed=true) due to leader epoch and offset EpochEndOffset(...)
#
# (``AbstractFetcherThread``), which name neither the epoch in which it follows nor where its log
# ended. The one is in the line before by which it became a follower; the other is not told.


_FOLLOWS = re.compile(
    r"\[Broker id=(?P<broker>\d+)\] Follower (?P<partition>\S+) .*?"
    r"starts at leader epoch (?P<epoch>\d+) .*?Current leader is (?P<leader>-?\d+)"
)
_TRUNCATES = re.compile(
    r"replicaId=(?P<broker>\d+), leaderId=(?P<leader>\d+)[^\]]*\] "
    r"Truncating partition (?P<partition>\S+) with \w+\(offset=(?P<offset>\d+), "
    r".*? due to (?P<grounds>.*)"
)
_EPOCH_END = re.compile(r"leaderEpoch=(?P<epoch>-?\d+), endOffset=(?P<end>-?\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A broker cut its log of a partition to ``offset``.

    Attributes:
        leader, leader_epoch: Whom it followed; -1 where that is not told.
        log_end: Where its log ended before; None where that is not told, and then it is not known
            either whether it gave up anything.
        due_to: On what grounds, in the broker's words.
    """

    broker: int
    leader: int
    leader_epoch: int
    log_end: int | None
    offset: int
    due_to: str


def truncations_of(
    logs: AnyPath, without: Container[AnyPath] = ()
) -> dict[Partition, tuple[Truncation, ...]]:
    """The truncations that brokers tell of, by partition, each broker's in their order.

    Args:
        logs: The directory of the nodes' logs; it need not be there.
        without: Files that are passed over.
    """
    found: dict[Partition, list[Truncation]] = {}
    for partition, truncation in said(logs, _truncations, without):
        found.setdefault(partition, []).append(truncation)
    return {partition: tuple(told) for partition, told in found.items()}


def _truncations(lines: Iterable[str]) -> Iterator[tuple[Partition, Truncation]]:
    following: dict[str, int] = {}
    for line in lines:
        if '"Truncate"' in line:
            try:
                yield _truncation(object_in(line))
            except STRANGE:
                continue
        elif "Follower" in line and (follows := _FOLLOWS.search(line)):
            with suppress(*STRANGE):
                following[follows["partition"]] = number(follows["epoch"])
        elif "Truncating partition" in line and (truncates := _TRUNCATES.search(line)):
            with suppress(*STRANGE):
                yield from _kafka_truncation(truncates, following.get(truncates["partition"], -1))


def _truncation(told: Mapping[str, Any]) -> tuple[Partition, Truncation]:
    truncation = Truncation(
        broker=number(told["broker"]),
        leader=number(told["leader"]),
        leader_epoch=number(told["leader_epoch"]),
        log_end=number(told["log_end_offset"]),
        offset=number(told["offset"]),
        due_to=str(told["due_to"]),
    )
    return partition_in(told), truncation


def _kafka_truncation(
    truncates: re.Match[str], epoch: int
) -> Iterator[tuple[Partition, Truncation]]:
    topic, _, partition = truncates["partition"].rpartition("-")
    if partition.isdecimal():
        truncation = Truncation(
            broker=number(truncates["broker"]),
            leader=number(truncates["leader"]),
            leader_epoch=epoch,
            log_end=None,
            offset=number(truncates["offset"]),
            due_to=_grounds(truncates["grounds"]),
        )
        yield (topic, number(partition)), truncation


def _grounds(words: str) -> str:
    """The leader's answer in short: ``leader epoch 2 and offset 9``."""
    if told := _EPOCH_END.search(words):
        return f"leader epoch {told['epoch']} and offset {told['end']}"
    return "local high watermark" if "high watermark" in words else words.strip()
