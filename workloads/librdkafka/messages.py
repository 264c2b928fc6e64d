"""Messages in the library's memory, many at once: arrays of their fields."""

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from ackproof.history.values import Given
from ackproof.workloads.consuming.polled import Failure, Polled, Records
from ackproof.workloads.librdkafka.epochs import epochs_of, with_epoch
from ackproof.workloads.librdkafka.library import MESSAGE, library
from ackproof.workloads.librdkafka.memory import Pointers, gathered

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
