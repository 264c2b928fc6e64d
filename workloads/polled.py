"""The result of a poll, whichever client polled: its records as arrays, and everything else in its
place among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from confluent_kafka import KafkaError, Message
from numpy.typing import NDArray

from ackproof.history.payload import identifying
from ackproof.history.payload_arrays import Given

NO_EPOCH = -1
"""The leader epoch of a record for which none is known."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records in the order in which they came.

    Attributes:
        epochs: Leader epochs, :data:`NO_EPOCH` where none is known.
        times: When each reached the client, nanoseconds of the Unix epoch.
        values: The bytes that contain its identity (:func:`history.payload.identifying`).
    """

    partitions: NDArray[np.int32]
    offsets: NDArray[np.int64]
    epochs: NDArray[np.int32]
    times: NDArray[np.int64]
    values: Given

    def __len__(self) -> int:
        return len(self.offsets)

    def last(self, begin: int, end: int) -> Mapping[int, int]:
        """Return the last offset of each partition among the records at these places."""
        partitions, offsets = self.partitions[begin:end], self.offsets[begin:end]
        # Records come in runs, and only their ends matter.
        many = len(partitions)
        ends = np.append(np.flatnonzero(np.diff(partitions)), many - 1)[:many]
        return dict(zip(partitions[ends].tolist(), offsets[ends].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Failure:
    """A message that is no record.

    Attributes:
        behind: How many records came before it.
        offset: The end of a partition, if the message says that it ends.
    """

    behind: int
    partition: int
    offset: int
    error: KafkaError


@dataclass(frozen=True, slots=True)
class Polled:
    """The records and failures that a poll returned."""

    records: Records
    failures: Sequence[Failure]


NOTHING = Polled(
    Records(
        np.empty(0, np.int32),
        np.empty(0, np.int64),
        np.empty(0, np.int32),
        np.empty(0, np.int64),
        (),
    ),
    (),
)


def polled(messages: Sequence[Message], time: int) -> Polled:
    """Return what a consumer of confluent-kafka returned at ``time`` (nanoseconds of the Unix
    epoch)."""
    records: list[Message] = []
    failures = []
    for one in messages:
        if (error := one.error()) is None:
            records.append(one)
        else:
            failures.append(Failure(len(records), one.partition(), one.offset(), error))
    epochs = [one.leader_epoch() for one in records]
    read = Records(
        np.array([one.partition() for one in records], np.int32),
        np.array([one.offset() for one in records], np.int64),
        np.array([NO_EPOCH if epoch is None else epoch for epoch in epochs], np.int32),
        np.full(len(records), time, np.int64),
        [identifying(one.value(), one.headers()) for one in records],
    )
    return Polled(read, failures)
