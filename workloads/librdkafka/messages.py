"""Messages in the library's memory, many at once: arrays of their fields."""

import ctypes
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from ackproof.history.payload import Given
from ackproof.workloads.librdkafka.library import MESSAGE, Message, library
from ackproof.workloads.polled import Failure, Polled, Records

# --- memory of the library ------------------------------------------------------------------------

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


# --- leader epochs --------------------------------------------------------------------------------
#
# The library tells one a call. What such a call returns is four bytes that stand behind what of a
# message is part of the ABI; where, each of its versions may say anew. So the call is given a
# message in which all of them differ, and says which it reads.

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


# --- reports and polled messages ------------------------------------------------------------------

GATHERED_BYTES_MAX = 4096
"""A value of more is copied by itself: then that costs no more. (And numpy has no array whose bytes
an int64 does not count, as so many values would be from each address of 48 bits on.)"""

Integers = NDArray[np.int64]


class Reports(NamedTuple):
    """The delivery reports of an event, by record.

    Attributes:
        numbers: What each record was handed over with.
        offsets: Negative where none is told.
        errors: Librdkafka's codes, 0 for none.
        partitions: Where each was acknowledged; of one with an error, where it was last.
    """

    numbers: Integers
    offsets: Integers
    errors: NDArray[np.int32]
    partitions: NDArray[np.int32]


def reports_of(event: int) -> Reports:
    """All that an event tells. They are copies: the messages are gone with the event."""
    calls = library()
    many = calls.rd_kafka_event_message_count(event)
    pointers = np.empty(many, np.uintp)
    many = calls.rd_kafka_event_message_array(event, pointers.ctypes.data, many)
    told = gathered(pointers[:many], MESSAGE)
    return Reports(
        told["private"].astype(np.int64),
        told["offset"].copy(),
        told["err"].copy(),
        told["partition"].copy(),
    )


def polled_of(pointers: Pointers, times: Integers) -> Polled:
    """Return what one or more consumed messages say, each with the time at which it came
    (nanoseconds of the Unix epoch). Everything is copied: they may be destroyed then."""
    told = gathered(pointers, with_epoch(int(pointers[0])))
    failures = [
        # Those before it, but for the failures among them.
        Failure(place - nth, int(one["partition"]), int(one["offset"]), _error(one, pointer))
        for nth, (place, one, pointer) in enumerate(_failed(told, pointers))
    ]
    if failures:
        good = told["err"] == 0
        told, pointers, times = told[good], pointers[good], times[good]
    return Polled(
        Records(
            told["partition"].copy(),
            told["offset"].copy(),
            epochs_of(told, pointers),
            times,
            _values(told["payload"], told["len"]),
        ),
        failures,
    )


def _failed(told: NDArray[np.void], pointers: Pointers) -> Iterator[tuple[int, np.void, int]]:
    for place in np.flatnonzero(told["err"]).tolist():
        yield place, told[place], int(pointers[place])


def _error(told: np.void, message: int) -> KafkaError:
    said = library().rd_kafka_message_errstr(message) or b""
    return KafkaError(int(told["err"]), said.decode(errors="replace"))


def _values(addresses: Pointers, sizes: Integers) -> Given:
    """What is at these addresses, of these sizes: rows where all are as large."""
    size = int(sizes[0]) if len(sizes) else 0
    if 0 < size <= GATHERED_BYTES_MAX and (sizes == size).all() and addresses.all():
        return gathered(addresses, np.dtype((np.void, size))).view(np.uint8).reshape(-1, size)
    # A null is at no address, an empty value at some.
    return [
        ctypes.string_at(address, length) if address else None
        for address, length in zip(addresses.tolist(), sizes.tolist(), strict=True)
    ]


# --- destroying messages --------------------------------------------------------------------------
#
# For one at a time the library has a call, for many since 2.15: of what a share consumer has taken,
# an ``rd_kafka_messages_t``. That is how many there are, then where each is. It is no part of the
# ABI, but there are calls that read it, and they are asked whether they read one of ours so.


def destroy(client: int | None, messages: Pointers) -> None:
    """Let go of these messages of a client, by its handle."""
    if _takes_many():
        destroy_at_once(client, messages)
    else:
        destroy_one_by_one(messages)


def destroy_at_once(client: int | None, messages: Pointers) -> None:
    """With a library that can, and whose ``rd_kafka_messages_t`` is as here."""
    calls = library()
    ours = _counted(messages)
    theirs = calls.rd_kafka_mem_malloc(client, ours.nbytes)
    ctypes.memmove(theirs, ours.ctypes.data, ours.nbytes)
    calls.rd_kafka_messages_destroy(theirs)  # and of that memory


def destroy_one_by_one(messages: Pointers) -> None:
    """With any: for small ones that costs more than all that is done for them besides."""
    deque(map(library().rd_kafka_message_destroy, messages.tolist()), maxlen=0)


def _counted(messages: Pointers) -> Pointers:
    return np.concatenate([np.array([len(messages)], np.uintp), messages])


@cache
def _takes_many() -> bool:
    calls = library()
    if not hasattr(calls, "rd_kafka_messages_destroy"):
        return False
    messages = np.array([8, 16, 24], np.uintp)
    counted = _counted(messages)
    at, many = counted.ctypes.data, len(messages)
    read = [calls.rd_kafka_messages_get(at, place) for place in range(many)]
    return bool(calls.rd_kafka_messages_count(at) == many and read == messages.tolist())
