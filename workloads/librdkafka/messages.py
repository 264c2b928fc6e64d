"""Messages in the library's memory, many at once: arrays of their fields."""

import ctypes
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from ackproof.history.payload import TOMBSTONE_HEADER
from ackproof.history.payload_arrays import Given
from ackproof.workloads.librdkafka.library import MESSAGE, RdKafkaMessage, library
from ackproof.workloads.polled import Failure, Polled, Records

# --- memory of the library ------------------------------------------------------------------------

Pointers = NDArray[np.uintp]


def gathered(addresses: Pointers, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return copies of what is at each of one or more addresses, one behind the other."""
    lowest = int(addresses.min())
    reach = int(addresses.max()) - lowest + 1
    # One element begins at each byte from the first address to the last. Most of that memory is not
    # ours, and some of it is not mapped: a read elsewhere than at the addresses may end the
    # process. So nothing is done with all of it, such as a copy.
    memory = np.asarray(_Memory(lowest, reach, kind.itemsize))
    return memory[(addresses - np.uintp(lowest)).astype(np.int64)].view(kind)


class _Memory:
    """A piece of so many bytes from each of ``many`` addresses on, for numpy, which only reads.

    A type of ctypes would be made for each length, and costs more than a thousand reports.
    """

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
# The library returns one epoch a call. Such a call reads four bytes behind the part of a message
# that belongs to the ABI, and each version may place them elsewhere. So the call is given a message
# in which all four-byte words differ, and its result shows which one it reads.

_PUBLIC = MESSAGE.itemsize // 4
_LOOKED_AT = 128
"""The number of four-byte words that are searched; 2.16 has them at the 36th."""


def with_epoch(message: int) -> np.dtype[np.void]:
    """Return ``MESSAGE`` and what follows, as far as the ``epoch``.

    Errors have room for an epoch, too: both are an ``rd_kafka_msg_t``. The result lacks the epoch
    where the library does more than read it.
    """
    return _with_epoch(RdKafkaMessage.from_address(message).rkt)


def epochs_of(messages: NDArray[np.void], records: Pointers) -> NDArray[np.int32]:
    """Return the leader epoch of each of these copied records, or -1 where none is known.

    They belong to one consumer, and none is an error.
    """
    tell = library().rd_kafka_message_leader_epoch
    if len(records) and "epoch" in (messages.dtype.names or ()):
        epochs: NDArray[np.int32] = messages["epoch"].copy()
        # The layout may change, so two values are compared with the library's own.
        if (epochs[0], epochs[-1]) == (tell(int(records[0])), tell(int(records[-1]))):
            return epochs
    # Each record is asked for, though those of a batch have one epoch. No message shows where a
    # batch ends. With a broken broker epochs need not grow with offsets, so equal epochs before and
    # behind prove nothing.
    return np.fromiter(map(tell, records.tolist()), np.int32, len(records))


@cache
def _with_epoch(topic: int | None) -> np.dtype[np.void]:
    """Return the layout; ``topic`` is the library's own pointer, and without one it returns no
    epoch."""
    message = np.zeros(_LOOKED_AT, np.int32)
    message[:_PUBLIC].view(MESSAGE)["rkt"] = topic or 0
    places = np.arange(_PUBLIC, _LOOKED_AT)
    epochs = []
    for sign in (1, -1):
        message[_PUBLIC:] = sign * places
        epochs.append(sign * library().rd_kafka_message_leader_epoch(message.ctypes.data))
    place = epochs[0]
    if epochs != [place, place] or place not in places:
        return MESSAGE
    names = MESSAGE.names or ()
    return np.dtype(
        {
            "names": [*names, "epoch"],
            "formats": [*(MESSAGE[name] for name in names), np.dtype(np.int32)],
            "offsets": [*(getattr(RdKafkaMessage, name).offset for name in names), 4 * place],
            "itemsize": 4 * place + 4,
        }
    )


# --- reports and polled messages ------------------------------------------------------------------

GATHERED_BYTES_MAX = 4096
"""The size above which a value is copied by itself, because that then costs no more. numpy also has
no array whose bytes an int64 cannot count. That would happen with so many values from each address
of 48 bits on."""

Integers = NDArray[np.int64]


class Reports(NamedTuple):
    """The delivery reports of an event, by record.

    Attributes:
        numbers: The number with which each record was handed over.
        offsets: The offset of each; negative where none is reported.
        errors: librdkafka's codes, 0 for none.
        partitions: The partition in which each was acknowledged; with an error, the last one it was
            in.
    """

    numbers: Integers
    offsets: Integers
    errors: NDArray[np.int32]
    partitions: NDArray[np.int32]


def of_topic(reports: Reports, place: int, among: int) -> Reports:
    """Return the reports of one topic, with the sequence numbers of its records.

    It is the one at ``place`` ``among`` the topics of the client (``librdkafka.client``).
    """
    if among == 1:
        return reports
    own = reports.numbers % among == place
    numbers, *others = (field[own] for field in reports)
    return Reports(numbers // among, *others)


def reports_of(event: int) -> Reports:
    """Return copies of all reports in an event, because the messages are gone with the event."""
    calls = library()
    many = calls.rd_kafka_event_message_count(event)
    pointers = np.empty(many, np.uintp)
    many = calls.rd_kafka_event_message_array(event, pointers.ctypes.data, many)
    messages = gathered(pointers[:many], MESSAGE)
    return Reports(
        messages["private"].astype(np.int64),
        messages["offset"].copy(),
        messages["err"].copy(),
        messages["partition"].copy(),
    )


def polled_of(pointers: Pointers, times: Integers) -> Polled:
    """Return what one or more consumed messages say, each with the time at which it came
    (nanoseconds of the Unix epoch). Everything is copied: they may be destroyed then."""
    messages = gathered(pointers, with_epoch(int(pointers[0])))
    failures = [
        # The place counts the records before it, without the failures among them.
        Failure(place - nth, int(one["partition"]), int(one["offset"]), _error(one, pointer))
        for nth, (place, one, pointer) in enumerate(_failed(messages, pointers))
    ]
    if failures:
        good = messages["err"] == 0
        messages, pointers, times = messages[good], pointers[good], times[good]
    return Polled(
        Records(
            messages["partition"].copy(),
            messages["offset"].copy(),
            epochs_of(messages, pointers),
            times,
            _values(messages["payload"], messages["len"], pointers),
        ),
        failures,
    )


def _failed(messages: NDArray[np.void], pointers: Pointers) -> Iterator[tuple[int, np.void, int]]:
    for place in np.flatnonzero(messages["err"]).tolist():
        yield place, messages[place], int(pointers[place])


def _error(row: np.void, message: int) -> KafkaError:
    said = library().rd_kafka_message_errstr(message) or b""
    return KafkaError(int(row["err"]), said.decode(errors="replace"))


def _values(addresses: Pointers, sizes: Integers, messages: Pointers) -> Given:
    """Return the bytes at these addresses, of these sizes: as rows where all sizes are equal. A
    null has no address; the identity of a tombstone then stands in its place."""
    size = int(sizes[0]) if len(sizes) else 0
    if 0 < size <= GATHERED_BYTES_MAX and (sizes == size).all() and addresses.all():
        return gathered(addresses, np.dtype((np.void, size))).view(np.uint8).reshape(-1, size)
    rows = zip(addresses.tolist(), sizes.tolist(), messages.tolist(), strict=True)
    return [
        ctypes.string_at(address, length) if address else _tombstone_identity(message)
        for address, length, message in rows
    ]


def _tombstone_identity(message: int) -> bytes | None:
    """Return the header with the identity of a tombstone, or None if the message has none."""
    calls, headers = library(), ctypes.c_void_p()
    value, size = ctypes.c_void_p(), ctypes.c_size_t()
    if calls.rd_kafka_message_headers(message, ctypes.byref(headers)):
        return None
    name, found = TOMBSTONE_HEADER.encode(), (ctypes.byref(value), ctypes.byref(size))
    if calls.rd_kafka_header_get_last(headers, name, *found) or not value.value:
        return None
    return ctypes.string_at(value.value, size.value)


# --- destroying messages --------------------------------------------------------------------------
#
# The library has a call for one message at a time. Since 2.15 it has one for many, for the messages
# of a share consumer: an ``rd_kafka_messages_t``. That is a count, then the address of each. It is
# no part of the ABI, but there are calls that read it. They are tried on one of ours, to see
# whether they read it so.


def destroy(client: int | None, messages: Pointers) -> None:
    """Free these messages of a client, by its handle."""
    if _takes_many():
        destroy_at_once(client, messages)
    else:
        destroy_one_by_one(messages)


def destroy_at_once(client: int | None, messages: Pointers) -> None:
    """Free messages with a library that can, and whose ``rd_kafka_messages_t`` is as here."""
    calls = library()
    ours = _counted(messages)
    theirs = calls.rd_kafka_mem_malloc(client, ours.nbytes)
    ctypes.memmove(theirs, ours.ctypes.data, ours.nbytes)
    calls.rd_kafka_messages_destroy(theirs)  # this also frees that memory


def destroy_one_by_one(messages: Pointers) -> None:
    """Free messages with any library; for small ones that costs more than everything else."""
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
