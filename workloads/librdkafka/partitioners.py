"""The partitioners of the library: which partition each of them picks for a key."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ackproof.workloads.librdkafka.library import library

BY_KEY = (
    *("consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"),
)
"""Those that pick a record's partition by its key alone, if it has one. The remaining one,
``random``, draws a partition for each record."""


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
