"""A number for each record that rows name: (cell, producer, sequence).

A producer numbers its records one by one, over all partitions of its cell, so that those in one
partition are as far apart as there are partitions. Then (sequence - least) / stride is an address,
producer by producer, and nothing is hashed. Where sequences are scattered, as in a history that is
damaged or not ours, there would be more addresses than memory: there they are hashed. Both give the
same numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]

ADDRESSES_A_ROW = 4
"""Of so many no more than one need be in use. A quarter is not rare: the rows are of sends and of
the log, and half of the partitions' records may be recorded elsewhere."""
_FEW = 1_024
_SAMPLE = 4_096
_FAR = 2**62


def record_numbers(cell_of: Array, producer: Array, sequence: Array) -> tuple[Array, Array]:
    """Of each row the number of its record, and of each record its first row. Numbers are dense and
    in the order of these. Exact whatever the values are."""
    stream, streams = dense(streams_of(cell_of, producer))
    addressed = addresses(stream, len(streams), sequence)
    if addressed is not None:
        return _by_appearance(*addressed)
    return hashed(stream, sequence)


def part_by_part(
    numbers: Array, first: Array, begins: Sequence[Sequence[int]]
) -> tuple[Array, Array, list[int]]:
    """What :func:`record_numbers` tells of rows of several partitions, none of which names a record
    of another one, numbered so that each one's records follow those of the one before; and from
    which number on they are its own. ``begins``: the rows are so many tables, one behind the other,
    in each of which partitions begin there, and the last one ends."""
    count = len(begins[0]) - 1
    if count == 1:
        return numbers, first, [0, len(first)]
    places = np.tile(np.arange(count), len(begins))
    whose = np.repeat(places, np.concatenate([np.diff(one) for one in begins]))[first]
    # Mostly so as it is: who is in a log was sent, and all that was sent comes first.
    if (whose[1:] < whose[:-1]).any():
        order = np.argsort(whose, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        numbers, first, whose = place[numbers], first[order], whose[order]
    return numbers, first, np.searchsorted(whose, np.arange(count + 1)).tolist()


def streams_of(cell_of: Array, producer: Array) -> Array:
    """A number for cell and producer of each row, the same for the same alone, and small where
    these are. Cells are numbered from 0, and a producer's number has 32 bits."""
    if not cell_of.any():
        return producer
    least = int(producer.min())
    streams: Array = cell_of * (int(producer.max()) - least + 1) + (producer - least)
    return streams


def hashed(stream: Array, sequence: Array) -> tuple[Array, Array]:
    """As :func:`record_numbers`, of rows whose ``stream`` is a number for cell and producer."""
    place, _ = dense(sequence)
    # Two numbers below 2**31 fit one int64.
    numbers, found = dense(stream << 32 | place)
    return numbers, first_positions(numbers, len(found))


def addresses(stream: Array, streams: int, sequence: Array) -> tuple[Array, int] | None:
    """An address for each row, the same for the same record alone, and how many addresses there
    are; None where there would be too many."""
    if not len(sequence):
        return sequence, 0
    bounds = np.iinfo(np.int64)
    least, greatest = np.full(streams, bounds.max), np.full(streams, bounds.min)
    np.minimum.at(least, stream, sequence)
    np.maximum.at(greatest, stream, sequence)
    if max(map(int, greatest)) - min(map(int, least)) > _FAR:
        return None
    stride, places = _strided(sequence - least[stream])
    ends = np.cumsum((greatest - least) // stride + 1)
    if ends[-1] > ADDRESSES_A_ROW * len(sequence) + _FEW:
        return None
    return places + np.append(0, ends[:-1])[stream], int(ends[-1])


def first_positions(numbers: Array, count: int) -> Array:
    """Position of the first occurrence of each number; -1 of those that do not occur. Of the
    numbers, -1 is none."""
    first = np.full(count + 1, -1, dtype=np.int64)  # the last place takes those
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return first[:count]


def _strided(steps: Array) -> tuple[int, Array]:
    """The greatest stride that all steps are multiples of, and of which multiple each is."""
    stride = max(int(np.gcd.reduce(steps[:_SAMPLE])), 1)
    places = steps // stride
    if stride > 1 and not np.array_equal(places * stride, steps):
        stride = int(np.gcd.reduce(steps))
        places = steps // stride
    return stride, places


def _by_appearance(address: Array, size: int) -> tuple[Array, Array]:
    number = first_positions(address, size)
    first = np.zeros(len(address), dtype=bool)
    first[number[number >= 0]] = True
    begins = np.flatnonzero(first)
    number[address[begins]] = np.arange(len(begins))
    return number[address], begins


def dense(values: Array) -> tuple[Array, Array]:
    """A number for each value, the same for the same alone; and the values, by these numbers."""
    least, greatest = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if greatest - least < _FEW:
        seen = np.zeros(greatest - least + 1, dtype=bool)
        codes = values - least
        seen[codes] = True
        places = np.flatnonzero(seen)
        return codes if seen.all() else (np.cumsum(seen) - 1)[codes], places + least
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()
