"""Messages in the library's memory, many at once: arrays of their fields."""

import ctypes
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import KafkaError
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from history.values import Given
from workloads.consuming.polled import Failure, Polled, Records
from workloads.librdkafka.library import MESSAGE, Message, library

_WORD_BYTES = 8
_ERROR, _PARTITION, _PAYLOAD, _SIZE, _OFFSET, _PRIVATE = (
    getattr(Message, name).offset // _WORD_BYTES
    for name in ("err", "partition", "payload", "len", "offset", "private")
)
"""At which of its words a message has them."""
GATHERED_BYTES_MAX = 4096
"""A value of more is copied by itself: then that costs no more. (And numpy has no array whose bytes
an int64 does not count, as so many values would be from each address of 48 bits on.)"""

Pointers = NDArray[np.uintp]
Integers = NDArray[np.int64]


class Reports(NamedTuple):
    """The delivery reports of an event, by record.

    Attributes:
        numbers: What each record was handed over with.
        offsets: Negative where none is told.
        errors: Librdkafka's codes, 0 for none.
    """

    numbers: Integers
    offsets: Integers
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


def polled_of(pointers: Pointers) -> Polled:
    """One or more messages that were consumed. All that they say is copied: they may be destroyed
    then."""
    words, places = _words(pointers)
    codes = words[places + _ERROR].astype(np.int32)
    partitions = words[places + _PARTITION].astype(np.int32)
    offsets = words[places + _OFFSET]
    failures = [
        # Those before it, but for the failures among them.
        Failure(int(place) - nth, int(partitions[place]), int(offsets[place]), _error(one, code))
        for nth, (place, one, code) in enumerate(_failed(codes, pointers))
    ]
    if failures:
        good = codes == 0
        pointers, places = pointers[good], places[good]
        partitions, offsets = partitions[good], offsets[good]
    epoch = library().rd_kafka_message_leader_epoch
    # Of each, though those of a batch have one: where a batch ends no message says, and of a broken
    # broker epochs need not grow with offsets, so that the same before and behind tells nothing.
    epochs = np.fromiter(map(epoch, pointers.tolist()), np.int32, len(pointers))
    values = _values(words[places + _PAYLOAD].view(np.uintp), words[places + _SIZE])
    return Polled(Records(partitions, offsets, epochs, values), failures)


def _failed(codes: NDArray[np.int32], pointers: Pointers) -> list[tuple[int, int, int]]:
    which = np.flatnonzero(codes)
    return [*zip(which.tolist(), pointers[which].tolist(), codes[which].tolist(), strict=True)]


def _error(message: int, code: int) -> KafkaError:
    said = library().rd_kafka_message_errstr(message) or b""
    return KafkaError(code, said.decode(errors="replace"))


def _values(addresses: Pointers, sizes: Integers) -> Given:
    """What is at these addresses, of these sizes: rows where all are as large."""
    size = int(sizes[0]) if len(sizes) else 0
    if 0 < size <= GATHERED_BYTES_MAX and (sizes == size).all() and addresses.all():
        memory, places = _memory(addresses, size, "|u1")
        # A view of whatever begins at each byte, which only the rows asked for are copied of.
        return as_strided(memory, (len(memory) - size + 1, size), (1, 1))[places]
    # A null is at no address, an empty value at some.
    return [
        ctypes.string_at(address, length) if address else None
        for address, length in zip(addresses.tolist(), sizes.tolist(), strict=True)
    ]


def _words(pointers: Pointers) -> tuple[Integers, Integers]:
    """The memory from the first of these messages to the last, by words, and at which of them each
    message begins. Messages come from malloc, which begins at whole words."""
    return _memory(pointers, MESSAGE.itemsize, "<i8")


def _memory(addresses: Pointers, size: int, kind: str) -> tuple[NDArray[Any], Integers]:
    """The memory from the first of these addresses to ``size`` bytes behind the last, and which of
    its elements is at each of them.

    Most of it is not ours to look at, some of it nobody's: what is read there, but for what is
    known to be at the addresses, may end the process. So nothing is done with all of it, such as a
    copy.
    """
    lowest = int(addresses.min())
    span = int(addresses.max()) - lowest + size
    element = np.dtype(kind).itemsize
    memory = np.asarray(_Memory(lowest, span // element, kind))
    return memory, (addresses - np.uintp(lowest)).astype(np.int64) // element


class _Memory:
    """So many elements from there on, for numpy, which only looks. (A type of ctypes would be made
    for each length, and costs more than a thousand reports.)"""

    def __init__(self, address: int, many: int, kind: str) -> None:
        self.__array_interface__: Mapping[str, object] = {
            "version": 3,
            "data": (address, True),
            "shape": (many,),
            "typestr": kind,
        }
