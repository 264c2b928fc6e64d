"""A number for each record that rows name: (cell, producer, sequence).

A producer numbers its records one by one, over all partitions of its cell, so that those in one
partition are as far apart as there are partitions. Then (sequence - least) / stride is an address,
producer by producer, and nothing is hashed. Where sequences are scattered, as in a history that is
damaged or not ours, there would be more addresses than memory: there they are hashed. Both give the
same numbers.

Rows are gone through a block at a time, so that what is made of them on the way stays in the
processor's caches, and in memory there is little beside what is kept.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import Array

ADDRESSES_A_ROW = 4
"""Of so many no more than one need be in use. A quarter is not rare: the rows are of sends and of
the log, and half of the partitions' records may be recorded elsewhere."""
_BLOCK = 1 << 16
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
    cells, producers = cell_of.astype(np.int64), producer.astype(np.int64)
    least = int(producers.min())
    streams: Array = cells * (int(producers.max()) - least + 1) + (producers - least)
    return streams


def hashed(stream: Array, sequence: Array) -> tuple[Array, Array]:
    """As :func:`record_numbers`, of rows whose ``stream`` is a number for cell and producer."""
    place, _ = dense(sequence)
    # Two numbers below 2**31 fit one int64.
    numbers, found = dense(stream.astype(np.int64) << 32 | place)
    return numbers.astype(np.int64, copy=False), first_positions(numbers, len(found))


def addresses(stream: Array, streams: int, sequence: Array) -> tuple[Array, int] | None:
    """An address for each row, the same for the same record alone, and how many addresses there
    are; None where there would be too many."""
    if not len(sequence):
        return sequence, 0
    least, greatest = _bounds(stream, streams, sequence)
    if max(map(int, greatest)) - min(map(int, least)) > _FAR:
        return None
    # Where the stride of the first ones is not that of all, that of all.
    for some in (slice(_SAMPLE), slice(None)):
        stride = max(int(np.gcd.reduce(sequence[some] - least[stream[some]])), 1)
        ends = np.cumsum((greatest - least) // stride + 1)
        if ends[-1] > ADDRESSES_A_ROW * len(sequence) + _FEW:
            return None
        address = _strided(stream, sequence, (least, np.append(0, ends[:-1])), stride)
        if address is not None:
            return address, int(ends[-1])
    return None


def _bounds(stream: Array, streams: int, sequence: Array) -> tuple[Array, Array]:
    """The least and the greatest sequence number of each stream."""
    int64 = np.iinfo(np.int64)
    least, greatest = np.full(streams, int64.max), np.full(streams, int64.min)
    for block in _blocks(len(sequence)):
        codes = stream[block].astype(np.intp)
        np.minimum.at(least, codes, sequence[block])
        np.maximum.at(greatest, codes, sequence[block])
    return least, greatest


def _strided(
    stream: Array, sequence: Array, begins: tuple[Array, Array], stride: int
) -> Array | None:
    """An address for each row; None where one is not a multiple of the stride away from where its
    stream begins. ``begins``: by stream, its first sequence number, and the address of that."""
    address = np.empty(len(sequence), dtype=np.int64)
    for block in _blocks(len(sequence)):
        first, first_address = (of[stream[block]] for of in begins)
        steps = sequence[block] - first
        places = steps // stride if stride > 1 else steps
        if stride > 1 and not np.array_equal(places * stride, steps):
            return None
        np.add(places, first_address, out=address[block])
    return address


def first_positions(numbers: Array, count: int) -> Array:
    """Position of the first occurrence of each number; -1 of those that do not occur. Of the
    numbers, -1 is none."""
    return _first_positions(numbers, count, np.int64)


def _first_positions(numbers: Array, count: int, kind: type[np.signedinteger[Any]]) -> Array:
    first = np.full(count + 1, -1, dtype=kind)  # the last place takes those
    # From the end, so that whoever comes first is written last.
    for block in reversed([*_blocks(len(numbers))]):
        first[numbers[block][::-1]] = np.arange(block.stop - 1, block.start - 1, -1)
    return first[:count]


def _blocks(rows: int) -> Iterator[slice]:
    for begin in range(0, rows, _BLOCK):
        yield slice(begin, min(begin + _BLOCK, rows))


def _by_appearance(address: Array, size: int) -> tuple[Array, Array]:
    """As :func:`record_numbers`, of rows with these addresses, whose place the numbers take."""
    number = _first_positions(address, size, np.int32)  # a task has less than 2**31 rows
    first = np.zeros(len(address), dtype=bool)
    first[number[number >= 0]] = True
    begins = np.flatnonzero(first)
    number[address[begins]] = np.arange(len(begins))
    for block in _blocks(len(address)):
        address[block] = number[address[block]]
    return address, begins


def dense(values: Array) -> tuple[Array, Array]:
    """A number for each value, the same for the same alone; and the values, by these numbers."""
    least, greatest = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if greatest - least < _FEW:
        seen = np.zeros(greatest - least + 1, dtype=bool)
        for block in _blocks(len(values)):
            seen[values[block] - least] = True
        code = (np.cumsum(seen) - 1).astype(np.int16)
        codes = np.empty(len(values), dtype=np.int16)
        for block in _blocks(len(values)):
            codes[block] = code[values[block] - least]
        return codes, np.flatnonzero(seen) + least
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()
