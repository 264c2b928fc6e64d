"""Replicas' logs on disk, made batch by batch, with kio's record writers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ackproof.history.payload import Encoder
from tests.support.builders.batches import encoded

CELL = "c"


@dataclass(frozen=True)
class MadeBatch:
    """One batch of a log: of records of producer 1, numbered as their offsets are.

    ``strange``: values of others in the place of its own, by offset; ``bent``: how its bytes are
    changed when all else is done.
    """

    base: int
    count: int
    epoch: int = 0
    producer_epoch: int = 0
    strange: tuple[tuple[int, bytes], ...] = ()
    bent: tuple[tuple[int, int], ...] = ()

    @property
    def last(self) -> int:
        return self.base + self.count - 1

    @property
    def data(self) -> bytes:
        encoder = Encoder(CELL, 1, 60)
        values = [encoder.encode(self.base + number) for number in range(self.count)]
        for offset, value in self.strange:
            values[offset - self.base] = value
        data = bytearray(
            encoded(
                values,
                base_offset=self.base,
                leader_epoch=self.epoch,
                producer=(7, self.producer_epoch, self.base),
                keyed=False,
            )
        )
        for position, bits in self.bent:
            data[position] ^= bits
        return bytes(data)

    def but(self, **changes: object) -> "MadeBatch":
        return replace(self, **changes)  # type: ignore[arg-type]


def batches(*counts: int, epochs: Sequence[int] = ()) -> list[MadeBatch]:
    """Batches of so many records each, one behind the other."""
    made: list[MadeBatch] = []
    for number, count in enumerate(counts):
        base = made[-1].last + 1 if made else 0
        made.append(MadeBatch(base, count, epochs[number] if epochs else 0))
    return made


def end_of(log: Sequence[MadeBatch]) -> int:
    return log[-1].last + 1 if log else 0


def write_log(directory: Path, log: Sequence[MadeBatch], *, segments: Sequence[int] = ()) -> Path:
    """Write a log, with a new segment before each batch of these numbers."""
    directory.mkdir(parents=True)
    path = directory / f"{0:020}.log"
    path.touch()
    for number, batch in enumerate(log):
        if number in segments:
            path = directory / f"{batch.base:020}.log"
        with path.open("ab") as file:
            file.write(batch.data)
    return directory


def write_replicas(
    replicas: Path, *logs: Sequence[MadeBatch], partition: tuple[str, int] = ("t", 0)
) -> None:
    """The copies of brokers 1, 2, 3, as the step collect leaves them."""
    topic, number = partition
    for broker, log in enumerate(logs, start=1):
        write_log(replicas / f"broker-{broker}" / f"{topic}-{number}", log)
