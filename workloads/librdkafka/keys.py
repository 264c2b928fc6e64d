"""Keys of records, and the partition that librdkafka's partitioners pick for each."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ackproof.workloads.librdkafka.library import UNASSIGNED, library
from ackproof.workloads.spec import SpecificationError

# --- partitioners ---------------------------------------------------------------------------------

BY_KEY = (
    *("consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"),
)
"""The partitioners that pick a record's partition by its key alone, if it has one. The remaining
one, ``random``, draws a partition for each record."""


def partitions_of(partitioner: str, keys: Sequence[bytes], partitions: int) -> NDArray[np.int64]:
    """Return the partition that the library picks for each key, none of which is empty.

    These are the functions that the library calls when it sends, so nothing is computed twice.
    Only the number of partitions matters to them, and no topic is needed.

    Args:
        partitioner: One of :data:`BY_KEY`.
        partitions: How many the topic has.

    Raises ClientFailed if the library cannot be called.
    """
    pick = getattr(library(), f"rd_kafka_msg_partitioner_{partitioner}")
    picked = (pick(None, key, len(key), partitions, None, None) for key in keys)
    return np.fromiter(picked, np.int64, len(keys))


# --- keys -----------------------------------------------------------------------------------------

Integers = NDArray[np.int64]

_BEFORE = "the history states a record's partition before it is sent"


class Keys:
    """The keys of a producer's records, by number. They stay in memory as long as this does.

    Without a partitioner, key n belongs to partition n modulo the number of partitions, and records
    are sent to that partition. With one, the client library picks the partition, and the history
    has the one that the same partitioner picks for the key beforehand.

    Args:
        partitioner: One of librdkafka's that go by the key; None to send to a stated partition.

    Attributes:
        partitions: The partition of each key.
        destinations: The partition that the client library is given with each key.

    Raises (constructor) SpecificationError if a partition would have no key.
    """

    def __init__(self, keys: int, partitions: int, partitioner: str | None = None) -> None:
        if keys < partitions:
            raise SpecificationError(f"{keys} keys are too few for {partitions} partitions")
        texts = [b"key-%d" % number for number in range(keys)]
        self._block = np.array(texts)
        self._sizes = np.char.str_len(self._block).astype(np.int64)
        if partitioner is None:
            self.partitions: Integers = np.arange(keys) % partitions
            self.destinations = self.partitions
        else:
            self.partitions = partitions_of(partitioner, texts, partitions)
            self.destinations = np.full(keys, UNASSIGNED, np.int64)
        without = np.setdiff1d(np.arange(partitions), self.partitions)
        if len(without):
            others = f" and {len(without) - 1} others" if len(without) > 1 else ""
            raise SpecificationError(
                f"{partitioner} sends none of {keys} keys to partition {without[0]}{others}: "
                "give more keys, or fewer partitions"
            )

    def text(self, number: int) -> bytes:
        """Return a key."""
        return bytes(self._block[number])

    def at(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Return the addresses and sizes of keys."""
        addresses = self._block.ctypes.data + numbers * self._block.itemsize
        return addresses, self._sizes[numbers]


def keys_of(keys: int | None, partitions: int, partitioner: object) -> Keys | None:
    """Return the keys of a producer's records, None if they have none.

    Args:
        keys: How many; None for records without.
        partitioner: The producer's property of that name; None where it has none.

    Raises SpecificationError if the partition of a record cannot be known before it is sent, or if
    a partition would have no key.
    """
    if partitioner is None:
        return None if keys is None else Keys(keys, partitions)
    if partitioner not in BY_KEY:
        raise SpecificationError(
            f"the partitioner {partitioner} does not go by the key, and {_BEFORE}: "
            f"{', '.join(BY_KEY)} do"
        )
    if keys is None:
        raise SpecificationError(
            f"the partitioner {partitioner} needs workload.keys: without a key it picks one "
            f"partition for all records, or any as it sends, and {_BEFORE}"
        )
    return Keys(keys, partitions, str(partitioner))
