"""What brokers say of truncations in their own logs, as ``collect`` copied them.

A follower cuts what its leader does not have. The bundled broker writes a line of its state-change
log, one JSON object (``change``: Truncate). Apache Kafka's followers write sentences, e.g. ::

    [ReplicaFetcher replicaId=1, leaderId=3, fetcherId=0] Truncating partition t-0 with
    TruncationState(offset=9, completed=true) due to leader epoch and offset EpochEndOffset(...)

(``AbstractFetcherThread``), which name neither the epoch in which it follows nor where its log
ended. The one is in the line before by which it became a follower; the other is not told.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.cluster.faults import Partition
from ackproof.checkers.timeline.lines import STRANGE, number, object_in, partition_in, said
from ackproof.history.storage import AnyPath

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
