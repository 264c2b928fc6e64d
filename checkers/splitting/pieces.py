"""Files of a partition in pieces that can be read one by one: the row groups of a closed file, the
parts of one that was not closed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.checkers.partition import columns
from ackproof.history import storage
from ackproof.history.errors import DamagedFiles
from ackproof.history.names import CLOSED_SUFFIX
from ackproof.history.schema import TABLES
from ackproof.history.storage import located

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """``row_group``: None of a part; ``least``, ``greatest``: of one of its columns, as far apart
    as can be where nobody knows; ``nulls``: whether that column may have any."""

    table: str
    file: str
    row_group: int | None
    rows: int
    least: int
    greatest: int
    nulls: bool

    def holds(self, first: int, last: int) -> bool:
        """Whether it may have a row with a value from ``first`` to ``last``."""
        return self.least <= last and self.greatest >= first

    def within(self, first: int, last: int) -> bool:
        """Whether each of its rows has a value from ``first`` to ``last``."""
        return not self.nulls and first <= self.least and self.greatest <= last

    def read(self, names: Sequence[str]) -> pa.Table:
        """Some of its columns. Raises DamagedFiles."""
        return columns.read_file(self.table, located(self.file), names, self.row_group)


def pieces(table: str, files: Iterable[str], column: str) -> list[Piece]:
    """The pieces of files of a table, with what is known of a column of integers. Raises
    DamagedFiles."""
    return [piece for file in files for piece in _pieces(table, file, column)]


def _pieces(table: str, file: str, column: str) -> Iterator[Piece]:
    if not file.endswith(CLOSED_SUFFIX):
        yield _part(table, file, column)
        return
    try:
        footer = storage.parquet(located(file)).metadata
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DamagedFiles({located(file): str(error)}) from None
    if not set(TABLES[table].names) <= set(footer.schema.to_arrow_schema().names):
        # Of a former day, without a column: who knows how to read that reads all of it.
        yield _part(table, file, column)
        return
    for number in range(footer.num_row_groups):
        yield _row_group(table, file, column, footer, number)


def _part(table: str, file: str, column: str) -> Piece:
    values = columns.read_file(table, located(file), [column])[column]
    told = pc.min_max(values).as_py()
    return Piece(
        table=table,
        file=file,
        row_group=None,
        rows=len(values),
        least=GREATEST if told["min"] is None else told["min"],
        greatest=LEAST if told["max"] is None else told["max"],
        nulls=values.null_count > 0,
    )


def _row_group(table: str, file: str, column: str, footer: pq.FileMetaData, number: int) -> Piece:
    group = footer.row_group(number)
    places = (group.column(place) for place in range(group.num_columns))
    told = next((place.statistics for place in places if place.path_in_schema == column), None)
    least, greatest = (
        (told.min, told.max) if told is not None and told.has_min_max else (LEAST, GREATEST)
    )
    return Piece(
        table=table,
        file=file,
        row_group=number,
        rows=group.num_rows,
        least=least,
        greatest=greatest,
        nulls=told is None or not told.has_null_count or told.null_count > 0,
    )
