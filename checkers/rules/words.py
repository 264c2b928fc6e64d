"""What rules tell of records, in words: a whole column at a time, for there may be millions."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.partition.indexes import PartitionHistory

_BLOCK = 1 << 18


def joined(*parts: str | Array | pa.Array) -> pa.Array:
    """Words, numbers and columns of words one behind the other. At least one is an array."""
    columns = [
        pc.cast(pa.array(part), pa.string()) if isinstance(part, np.ndarray) else part
        for part in parts
    ]
    return pc.binary_join_element_wise(*columns, "")


def in_blocks(words: Callable[[slice], pa.Array], count: int) -> pa.Array:
    """Words of so many, made of some at a time: on the way there are several columns of them."""
    blocks = [words(slice(first, first + _BLOCK)) for first in range(0, count, _BLOCK)]
    return pa.concat_arrays(blocks) if blocks else pa.array([], pa.string())


def names(partition: PartitionHistory, records: Array) -> pa.Array:
    """Each as :meth:`checkers.partition.indexes.PartitionHistory.name` has it."""
    words = joined(
        "producer ", partition.producer[records], " sequence ", partition.sequence[records]
    )
    if partition.cell_names == (partition.cell,):
        return words
    cells = pa.array(partition.cell_names, pa.string()).take(pa.array(partition.cell_of[records]))
    return pc.if_else(pc.equal(cells, partition.cell), words, joined("cell ", cells, " ", words))


def standing_at(partition: PartitionHistory, offsets: Array) -> pa.Array:
    """What the final log holds at each offset."""
    positions = np.searchsorted(partition.log_offset, offsets)
    held = np.append(partition.log_offset, NONE)[positions] == offsets
    held &= positions < len(partition.log_offset)
    records = np.append(partition.log_record, NONE)[positions]
    ours = held & (records != NONE)
    if ours.all():
        return names(partition, records)
    told = pa.array(["no record", "a payload of no client"]).take(pa.array(held.astype(np.int8)))
    return pc.replace_with_mask(told, pa.array(ours), names(partition, records[ours]))


def chosen(condition: Array, words: pa.Array | str, otherwise: pa.Array | str) -> pa.Array:
    """Of each the one or the other."""
    return pc.if_else(pa.array(condition), words, otherwise)
