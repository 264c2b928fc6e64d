"""Findings of Apache Kafka's DumpLogSegments in a partition's directory."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.clusters.apache_kafka import (
    DUMP_LOG_SEGMENTS,
    TOOLS,
    Output,
    run_class,
    run_source,
)

COMPLAINTS = (
    "Mismatches in",
    "Non-consecutive",
    "Non-secutive",
    "Found timestamp mismatch",
    "Found out of order timestamp",
    "do not have timestamp",
    "messages which are not found",
    "invalid bytes",
    "isvalid: false",
    "Corrupt",
    "corrupt",
    "does not pass",
)

_BATCH = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) .*"
    r" (?P<type>CreateTime|LogAppendTime): (?P<timestamp>-?\d+) .*"
    r"compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: true"
)
_PRODUCER = re.compile(
    r"producerId: (?P<id>\d+) producerEpoch: (?P<epoch>\d+) .*"
    r"firstSequence: (?P<first>\d+) lastSequence: (?P<last>\d+) lastOffset: (?P<offset>\d+)"
)
_RECORD = re.compile(r"^\| offset: (\d+) ", re.MULTILINE)
_INDEX_ENTRY = re.compile(r"^offset: \d+ position: \d+$", re.MULTILINE)
_TIME_ENTRY = re.compile(r"^timestamp: \d+ offset: \d+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class KafkaBatch:
    """A batch as Kafka sees it; ``timestamp`` is the greatest one."""

    base_offset: int
    last_offset: int
    timestamp_type: str
    timestamp: int
    codec: str
    crc: int


@dataclass(frozen=True, slots=True)
class KafkaView:
    """All that Kafka reads in a directory."""

    text: str
    batches: tuple[KafkaBatch, ...]
    record_offsets: tuple[int, ...]
    producers: tuple[tuple[int, int, int, int, int], ...]
    """Of the latest snapshot: id, epoch, first sequence, last sequence, last offset."""
    index_entries: int
    time_index_entries: int
    epochs: tuple[tuple[int, int], ...]

    @property
    def complaints(self) -> Sequence[str]:
        """The lines in which Kafka finds fault with what it reads."""
        return [line for line in self.text.splitlines() if any(c in line for c in COMPLAINTS)]


def kafka_reads(directory: Path) -> KafkaView:
    """Lets Kafka read every file of a partition that no broker is using.

    Raises:
        KafkaToolFailed: Kafka gave up.
    """
    dumped = _dump(_files(directory, ".log", ".index", ".timeindex", ".snapshot"))
    sane = _dump(_files(directory, ".index", ".timeindex"), "--index-sanity-check")
    epochs = run_source(
        TOOLS / "ReadCheckpoints.java", directory / "leader-epoch-checkpoint"
    ).stdout
    found = dumped.stdout
    latest_snapshot = found.rpartition("Dumping ")[2]
    return KafkaView(
        text="".join((*dumped, *sane)),
        batches=tuple(
            KafkaBatch(
                base_offset=int(batch["base"]),
                last_offset=int(batch["last"]),
                timestamp_type=batch["type"],
                timestamp=int(batch["timestamp"]),
                codec=batch["codec"].lower(),
                crc=int(batch["crc"]),
            )
            for batch in _BATCH.finditer(found)
        ),
        record_offsets=tuple(map(int, _RECORD.findall(found))),
        producers=tuple(
            tuple(map(int, producer))  # type: ignore[misc]
            for producer in _PRODUCER.findall(latest_snapshot)
        ),
        index_entries=len(_INDEX_ENTRY.findall(found)),
        time_index_entries=len(_TIME_ENTRY.findall(found)),
        epochs=tuple(
            (int(epoch), int(start)) for epoch, start in map(str.split, epochs.splitlines())
        ),
    )


def _files(directory: Path, *suffixes: str) -> str:
    """In the order of the suffixes, then of the offsets."""
    return ",".join(str(p) for suffix in suffixes for p in sorted(directory.glob(f"*{suffix}")))


def _dump(files: str, *options: str) -> Output:
    return run_class(DUMP_LOG_SEGMENTS, *options, "--deep-iteration", "--files", files)
