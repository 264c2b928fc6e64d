"""Rows in memory as columns, for a writer of many rows.

Appending a row costs as much as appending its values. Adding many rows at once as arrays costs next
to nothing. A value that is the same in all rows is given once, and the rows of all partitions stay
together until they are written. A writer that records a thousand rows at once therefore needs a
handful of calls, whatever partitions they belong to.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa
from numpy import ma
from numpy.typing import NDArray

from ackproof.history.errors import HistoryError
from ackproof.history.schema import TABLES, decoded

Many = np.ndarray[Any, Any] | Sequence[object]
"""The values of many rows. Null is None, or masked in a masked array."""
_SMALL = 2**15


class Columns:
    """Rows of a partitioned table that wait to be written.

    Args:
        table: A key of :data:`history.schema.TABLES`.
        constants: The values that are the same in all rows, by column name.
    """

    def __init__(self, table: str, constants: Mapping[str, object]) -> None:
        self._table = table
        self._schema = decoded(TABLES[table])
        self._constants = constants
        self._values: dict[str, list[Any]] = {
            name: [] for name in self._schema.names if name not in constants
        }
        self._blocks: list[_Block] = []
        self._repeated: dict[str, tuple[object, pa.Array]] = {}
        # This happens here and not while the first records are in progress. At the first array of
        # objects, pyarrow imports pandas if it is installed, which takes a third of a second. The
        # first use of pyarrow.compute takes a tenth.
        pa.array([]).take(pa.array([], pa.int64()))

    def __getitem__(self, name: str) -> list[Any]:
        """Return the list of a column's values, to which you may append; None stands for null.
        It is always the same list. Each row must have a value in every column when the rows are
        taken."""
        return self._values[name]

    def __len__(self) -> int:
        return sum(block.rows for block in self._blocks) + len(self._values["partition"])

    def extend(self, rows: int, **columns: object) -> None:
        """Add ``rows`` rows after the existing ones. Each column that is not constant takes an
        array or another sequence of so many values, or one value for all of these rows (None for
        null). Arrays are kept and not copied. Raises HistoryError for columns that are missing, too
        many or of another length."""
        if columns.keys() != self._values.keys():
            raise HistoryError(f"rows of {self._table} with columns {', '.join(columns)}")
        for name, values in columns.items():
            if _are_many(values) and len(values) != rows:
                raise HistoryError(f"{len(values)} values of {name} for {rows} rows")
        self._seal()
        self._blocks.append(_Block(rows, columns))

    def take(self) -> Mapping[int, pa.RecordBatch]:
        """Remove all rows and return them by partition, in the order in which they came. Raises
        HistoryError, and keeps the rows, if they do not fit the table's schema."""
        self._check()
        blocks = [*self._blocks, *self._appended()]
        if not blocks:
            return {}
        try:
            taken = self._by_partition(blocks)
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            raise HistoryError(f"rows of {self._table} do not fit its schema: {error}") from error
        self._blocks.clear()
        for values in self._values.values():
            values.clear()
        return taken

    def _seal(self) -> None:
        """Make a block of the appended rows, so that later rows come after them."""
        self._check()
        self._blocks += self._appended(copied=True)
        for values in self._values.values():
            values.clear()

    def _check(self) -> None:
        # A longer column would pass its values on to rows of another moment.
        rows = len(self._values["partition"])
        if uneven := [name for name, values in self._values.items() if len(values) != rows]:
            raise HistoryError(
                f"there are {rows} rows of {self._table}, and not as many in {', '.join(uneven)}"
            )

    def _appended(self, copied: bool = False) -> list["_Block"]:
        rows = len(self._values["partition"])
        values = self._values
        if copied:
            values = {name: list(column) for name, column in values.items()}
        return [_Block(rows, values)] if rows else []

    def _by_partition(self, blocks: Sequence["_Block"]) -> Mapping[int, pa.RecordBatch]:
        rows = sum(block.rows for block in blocks)
        partitions, _ = _numbers(self._schema.field("partition"), blocks, rows)
        order = _order(partitions)
        partitions = partitions.take(order)
        ends = [*(np.flatnonzero(np.diff(partitions)) + 1), rows]
        columns = [self._column(field, blocks, order) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return {
            int(partitions[begin]): batch.slice(begin, end - begin)
            for begin, end in pairwise([0, *ends])
        }

    def _column(
        self, field: pa.Field, blocks: Sequence["_Block"], order: NDArray[np.int64]
    ) -> pa.Array:
        if field.name in self._constants:
            return self._repeat(self._constants[field.name], field, len(order))
        if not pa.types.is_integer(field.type):
            words, codes = _words(field, blocks, len(order))
            if len(words) == 1:
                return self._repeat(words[0], field, len(order))
            return array(words, field).take(_plain(codes.take(order), pa.int64()))
        values, has_value = _numbers(field, blocks, len(order))
        nulls = None if has_value is None else has_value.take(order)
        return _plain(values.take(order), field.type, nulls)

    def _repeat(self, value: object, field: pa.Field, rows: int) -> pa.Array:
        """Return the value ``rows`` times. It is usually the same value as before."""
        known, column = self._repeated.get(field.name, (None, ()))
        if known != value or len(column) < rows:
            (one,) = array([value], field)
            # The next flush may have a few more rows.
            column = pa.repeat(one, 1 << rows.bit_length())
            self._repeated[field.name] = (value, column)
        return column[:rows]


class _Block(NamedTuple):
    """Rows that were added together."""

    rows: int
    columns: Mapping[str, object]


def _are_many(values: object) -> TypeGuard[Many]:
    return isinstance(values, np.ndarray | list | tuple | range)


def _order(partitions: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return an order of rows that brings those of a partition together, each partition in its own
    order."""
    # The rows come in runs, of which there are fewer than rows.
    begins = np.append(0, np.flatnonzero(np.diff(partitions)) + 1)
    firsts = partitions[begins]
    # numpy sorts two-byte integers several times as fast.
    small = firsts.astype(np.int16) if firsts.max() < _SMALL else firsts
    runs = np.argsort(small, kind="stable")
    lengths = np.diff(begins, append=len(partitions))[runs]
    order: NDArray[np.int64] = np.arange(len(partitions))
    order += np.repeat(begins[runs] - (np.cumsum(lengths) - lengths), lengths)
    return order


def _numbers(
    field: pa.Field, blocks: Sequence[_Block], rows: int
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return a column of integers and which of its values are not null, or None if none is null.
    Raises as :func:`array`."""
    numbers = np.zeros(rows, field.type.to_pandas_dtype())
    is_null = None
    for place, values in _places(field, blocks):
        nulls: object = None
        if isinstance(values, np.ndarray):
            if not np.can_cast(values.dtype, numbers.dtype):
                raise TypeError(f"{values.dtype} in column {field.name}")
            numbers[place] = ma.getdata(values)
            nulls = ma.getmaskarray(values) if ma.isMaskedArray(values) else None
        elif type(values) is int:
            numbers[place] = values
        else:
            some = array(values if _are_many(values) else [values], field)
            numbers[place] = some.fill_null(0).to_numpy()
            nulls = some.is_null().to_numpy(zero_copy_only=False) if some.null_count else None
        if nulls is not None:
            is_null = np.zeros(rows, np.bool_) if is_null is None else is_null
            is_null[place] = nulls
    if is_null is None or not is_null.any():
        return numbers, None
    if not field.nullable:
        raise ValueError(f"null in column {field.name}")
    return numbers, ~is_null


def _words(
    field: pa.Field, blocks: Sequence[_Block], rows: int
) -> tuple[Sequence[object], NDArray[np.int64]]:
    """Return the distinct values of any other column, and the number of each row's value among
    them."""
    codes = np.empty(rows, np.int64)
    numbers: dict[object, int] = {}
    for place, values in _places(field, blocks):
        if _are_many(values):
            codes[place] = [numbers.setdefault(value, len(numbers)) for value in values]
        else:
            codes[place] = numbers.setdefault(values, len(numbers))
    return [*numbers], codes


def _places(field: pa.Field, blocks: Sequence[_Block]) -> Iterator[tuple[slice, object]]:
    begin = 0
    for block in blocks:
        yield slice(begin, begin + block.rows), block.columns[field.name]
        begin += block.rows


def _plain(
    values: NDArray[Any], kind: pa.DataType, has_value: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return an Arrow array of numbers that have Arrow's layout in memory, without copying them."""
    bits = None
    if has_value is not None:
        bits = pa.py_buffer(np.packbits(has_value, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def array(values: Many, field: pa.Field) -> pa.Array:
    """Return a column. Raises ValueError, TypeError, OverflowError or ArrowException for values
    that do not fit the ``field``."""
    made = pa.array(values, field.type)
    if made.null_count and not field.nullable:
        raise ValueError(f"null in column {field.name}")
    return made
