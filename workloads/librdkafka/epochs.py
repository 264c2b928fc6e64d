"""Leader epochs of records, many at once.

The library tells one a call. What such a call returns is four bytes that stand behind what of a
message is part of the ABI; where, each of its versions may say anew. So the call is given a message
in which all of them differ, and says which it reads.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ackproof.workloads.librdkafka.library import MESSAGE, Message, library
from ackproof.workloads.librdkafka.memory import Pointers

_PUBLIC = MESSAGE.itemsize // 4
_LOOKED_AT = 128
"""So many times four bytes are; 2.16 has them at the 36th."""


def with_epoch(message: int) -> np.dtype[np.void]:
    """``MESSAGE`` and what follows, as far as the ``epoch``, for which errors have room, too: both
    are an ``rd_kafka_msg_t``. Without where the library does something else than to read it."""
    return _with_epoch(Message.from_address(message).rkt)


def epochs_of(told: NDArray[np.void], records: Pointers) -> NDArray[np.int32]:
    """The leader epoch of each of these records, of which so much was copied: they are of one
    consumer and no errors. -1 where none is known."""
    tell = library().rd_kafka_message_leader_epoch
    if len(records) and "epoch" in (told.dtype.names or ()):
        epochs: NDArray[np.int32] = told["epoch"].copy()
        # Whoever reads what another may change asks whether it has.
        if (epochs[0], epochs[-1]) == (tell(int(records[0])), tell(int(records[-1]))):
            return epochs
    # Of each, though those of a batch have one: where a batch ends no message says, and of a broken
    # broker epochs need not grow with offsets, so that the same before and behind tells nothing.
    return np.fromiter(map(tell, records.tolist()), np.int32, len(records))


@cache
def _with_epoch(topic: int | None) -> np.dtype[np.void]:
    """``topic``: the library's own pointer; of a message without one it tells no epoch."""
    message = np.zeros(_LOOKED_AT, np.int32)
    message[:_PUBLIC].view(MESSAGE)["rkt"] = topic or 0
    places = np.arange(_PUBLIC, _LOOKED_AT)
    told = []
    for sign in (1, -1):
        message[_PUBLIC:] = sign * places
        told.append(sign * library().rd_kafka_message_leader_epoch(message.ctypes.data))
    place = told[0]
    if told != [place, place] or place not in places:
        return MESSAGE
    names = MESSAGE.names or ()
    return np.dtype(
        {
            "names": [*names, "epoch"],
            "formats": [*(MESSAGE[name] for name in names), np.dtype(np.int32)],
            "offsets": [*(getattr(Message, name).offset for name in names), 4 * place],
            "itemsize": 4 * place + 4,
        }
    )
