"""Leader epochs of records, many at once.

The library tells one a call. What such a call returns is four bytes that stand behind what of a
message is part of the ABI; where, each of its versions may say anew. So the call is given a message
in which all of them differ, and says which it reads.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from workloads.librdkafka.library import MESSAGE, Message, library
from workloads.librdkafka.memory import Pointers, gathered

_PUBLIC = MESSAGE.itemsize // 4
_LOOKED_AT = 128
"""So many times four bytes are; 2.16 has them at the 36th."""


def epochs_of(records: Pointers) -> NDArray[np.int32]:
    """Of each of these, which one consumer was given of one topic, and are no errors; -1 where none
    is known."""
    if not len(records):
        return np.empty(0, np.int32)
    tell = library().rd_kafka_message_leader_epoch
    first, last = int(records[0]), int(records[-1])
    part = _part(Message.from_address(first).rkt)
    if part is not None:
        epochs: NDArray[np.int32] = gathered(records, part)["epoch"].copy()
        # Whoever reads what another may change asks whether it has.
        if (epochs[0], epochs[-1]) == (tell(first), tell(last)):
            return epochs
    # Of each, though those of a batch have one: where a batch ends no message says, and of a broken
    # broker epochs need not grow with offsets, so that the same before and behind tells nothing.
    return np.fromiter(map(tell, records.tolist()), np.int32, len(records))


@cache
def _part(topic: int) -> np.dtype[np.void] | None:
    """What of a message is to be looked at; None where the library does not just read its epoch.

    Args:
        topic: The library's own pointer: of a message without one it tells no epoch.
    """
    message = np.zeros(_LOOKED_AT, np.int32)
    message[:_PUBLIC].view(MESSAGE)["rkt"] = topic
    places = np.arange(_PUBLIC, _LOOKED_AT)
    told = []
    for sign in (1, -1):
        message[_PUBLIC:] = sign * places
        told.append(sign * library().rd_kafka_message_leader_epoch(message.ctypes.data))
    place = told[0]
    if told != [place, place] or place not in places:
        return None
    end = 4 * (place + 1)
    return np.dtype({"names": ["epoch"], "formats": ["i4"], "offsets": [end - 4], "itemsize": end})
