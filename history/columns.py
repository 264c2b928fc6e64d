"""Rows in memory, a column each: for whoever has many.

A row costs what appending its values costs. What is the same in all rows is said once, and rows of
all partitions are together until they are written: whoever records a thousand at once does so in a
handful of calls, whichever partitions they are of.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from history.errors import HistoryError
from history.schema import TABLES, decoded


class Columns:
    """Rows of a partitioned table that wait to be written.

    Args:
        table: A key of :data:`history.schema.TABLES`.
        constants: What is the same in all rows, by the names of their columns.
    """

    def __init__(self, table: str, constants: Mapping[str, object]) -> None:
        self._table = table
        self._schema = decoded(TABLES[table])
        self._constants = constants
        self._values: dict[str, list[Any]] = {
            name: [] for name in self._schema.names if name not in constants
        }

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column, None for null, to be appended to; always the same list. When
        rows are taken each is to have a value in every column."""
        return self._values[name]

    def __len__(self) -> int:
        return len(self._values["partition"])

    def take(self) -> Mapping[int, pa.RecordBatch]:
        """All rows by partition, in the order in which they came; none are left here. Raises
        HistoryError, and keeps them, where they do not fit the table's schema."""
        if not any(self._values.values()):
            return {}
        try:
            taken = self._by_partition()
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            raise HistoryError(f"rows of {self._table} do not fit its schema: {error}") from error
        for values in self._values.values():
            values.clear()
        return taken

    def _by_partition(self) -> Mapping[int, pa.RecordBatch]:
        rows = len(self)
        # A longer one would lend its values to the rows of another moment.
        if uneven := [name for name, values in self._values.items() if len(values) != rows]:
            raise ValueError(f"there are {rows} rows, and not as many in {', '.join(uneven)}")
        partitions = np.array(self._values["partition"], np.int32)
        order = np.argsort(partitions, kind="stable")
        columns = [self._column(field, pa.array(order)) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        ends = [*(np.flatnonzero(np.diff(partitions[order])) + 1), rows]
        return {
            batch.column("partition")[begin].as_py(): batch.slice(begin, end - begin)
            for begin, end in pairwise([0, *ends])
        }

    def _column(self, field: pa.Field, order: pa.Array) -> pa.Array:
        if field.name in self._constants:
            (value,) = array([self._constants[field.name]], field)
            return pa.repeat(value, len(order))
        return array(self._values[field.name], field).take(order)


def array(values: Sequence[object], field: pa.Field) -> pa.Array:
    """A column. Raises ValueError, TypeError, OverflowError and ArrowException for values that do
    not fit the ``field``."""
    made = pa.array(values, field.type)
    if made.null_count and not field.nullable:
        raise ValueError(f"null in column {field.name}")
    return made
