"""What is in the library's memory, at many addresses at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pointers = NDArray[np.uintp]


def gathered(addresses: Pointers, kind: np.dtype[Any]) -> NDArray[Any]:
    """What is at each of one or more addresses: copies, one behind the other."""
    lowest = int(addresses.min())
    reach = int(addresses.max()) - lowest + 1
    # One begins at each byte from the first address to the last. Most of that is not ours to look
    # at, some of it nobody's: what is read but at the addresses may end the process. So nothing is
    # done with all of it, such as a copy.
    memory = np.asarray(_Memory(lowest, reach, kind.itemsize))
    return memory[(addresses - np.uintp(lowest)).astype(np.int64)].view(kind)


class _Memory:
    """A piece of so many bytes from each of ``many`` addresses on, for numpy, which only looks. (A
    type of ctypes would be made for each length, and costs more than a thousand reports.)"""

    def __init__(self, lowest: int, many: int, size: int) -> None:
        self.__array_interface__: Mapping[str, object] = {
            "version": 3,
            "data": (lowest, True),
            "shape": (many,),
            "strides": (1,),
            "typestr": f"|V{size}",
        }
