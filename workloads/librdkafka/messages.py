"""Messages in the library's memory, many at once: arrays of their fields."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.librdkafka.library import MESSAGE, Message, library

_WORD_BYTES = 8
_ERROR, _OFFSET, _PRIVATE = (
    getattr(Message, name).offset // _WORD_BYTES for name in ("err", "offset", "private")
)
"""At which of its words a message has them."""


class Reports(NamedTuple):
    """The delivery reports of an event, by record.

    Attributes:
        numbers: What each record was handed over with.
        offsets: Negative where none is told.
        errors: Librdkafka's codes, 0 for none.
    """

    numbers: NDArray[np.int64]
    offsets: NDArray[np.int64]
    errors: NDArray[np.int32]


def reports_of(event: int) -> Reports:
    """All that an event tells. They are copies: the messages are gone with the event."""
    calls = library()
    many = calls.rd_kafka_event_message_count(event)
    pointers = np.empty(many, np.uintp)
    many = calls.rd_kafka_event_message_array(event, pointers.ctypes.data, many)
    words, places = _words(pointers[:many])
    return Reports(
        words[places + _PRIVATE],
        words[places + _OFFSET],
        # An int, and behind it four bytes that nobody has written.
        words[places + _ERROR].astype(np.int32),
    )


def _words(pointers: NDArray[np.uintp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The memory between the first and the last of these messages, by words, and at which of them
    each message begins.

    Most of it is not ours to look at, some of it nobody's: what is read there, but for the messages
    themselves, may end the process. So nothing is done with all the words, such as a copy. Messages
    come from malloc, which begins at whole words."""
    lowest = int(pointers.min())
    span = int(pointers.max()) - lowest + MESSAGE.itemsize
    words = np.asarray(_Memory(lowest, span // _WORD_BYTES))
    return words, (pointers - np.uintp(lowest)).astype(np.int64) // _WORD_BYTES


class _Memory:
    """So many words from there on, for numpy, which only looks. (A type of ctypes would be made for
    each length, and costs more than a thousand reports.)"""

    def __init__(self, address: int, words: int) -> None:
        self.__array_interface__: Mapping[str, object] = {
            "version": 3,
            "data": (address, True),
            "shape": (words,),
            "typestr": "<i8",
        }
