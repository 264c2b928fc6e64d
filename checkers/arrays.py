"""Columns of tables as arrays of integers, with which all rules compute."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array = npt.NDArray[Any]

NONE = -1
"""Stands for a missing value in arrays of offsets, times and record numbers."""


def codes_of(column: pa.ChunkedArray, known: dict[str, int]) -> Array:
    """Return numbers for strings as int32, the same number for the same string. New strings are
    added to ``known``."""
    codes = [np.empty(0, dtype=np.int32)]
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    for chunk in filter(len, encoded.chunks):
        names = chunk.dictionary.to_pylist()
        known_codes = np.array([known.setdefault(name, len(known)) for name in names], np.int32)
        codes.append(known_codes.take(chunk.indices))
    return np.concatenate(codes)


def numbers_of(column: pa.ChunkedArray) -> Array:
    """Return the numbers of a column as int64, with NONE for null."""
    if column.null_count:
        column = pc.fill_null(pc.cast(column, pa.int64()), NONE)
    numbers: Array = column.to_numpy().astype(np.int64, copy=False)
    return numbers
