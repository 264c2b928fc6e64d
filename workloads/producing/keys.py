"""The keys of a producer's records, where they have some."""

import numpy as np
from numpy.typing import NDArray

from workloads.spec import SpecificationError

Integers = NDArray[np.int64]


class Keys:
    """The keys of a producer's records. Each key belongs to one partition, as it would by a
    partitioner, and a partition's keys take turns. They stay in memory as long as this does.

    Raises SpecificationError for fewer keys than partitions.
    """

    def __init__(self, keys: int, partitions: int) -> None:
        if keys < partitions:
            raise SpecificationError(f"{keys} keys are too few for {partitions} partitions")
        self._partitions = partitions
        self._many = keys
        self._block = np.array([b"key-%d" % number for number in range(keys)])
        self._sizes = np.char.str_len(self._block).astype(np.int64)

    def of(self, partitions: Integers, sequences: Integers) -> tuple[Integers, Integers]:
        """The keys of records, by their partitions and sequence numbers: addresses and sizes."""
        among = self._partitions
        mine = (self._many - 1 - partitions) // among + 1
        numbers = partitions + among * (sequences // among % mine)
        addresses = self._block.ctypes.data + numbers * self._block.itemsize
        return addresses, self._sizes[numbers]
