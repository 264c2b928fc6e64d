"""A partition's tables as they are stored: names stay numbers of a dictionary.

A cell's name stands in each of ten million rows: as strings that is most of the memory that a task
needs, and of the time that reading takes. Who reads a closed file needs a few numbers a row.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from history import reader
from history.errors import DamagedFiles
from history.names import CLOSED_SUFFIX
from history.schema import TABLES


def read(
    table: str, files: Iterable[str], columns: Iterable[str], problems: list[str]
) -> tuple[pa.Table, bool]:
    """What can be read of files of a table, and whether that is all of it; what cannot be goes into
    ``problems``."""
    schema = pa.schema([TABLES[table].field(name) for name in columns])
    found, whole = [schema.empty_table()], True
    for file in map(Path, files):
        try:
            found.append(_read_file(table, file, schema))
        except DamagedFiles as error:
            problems.append(str(error))
            whole = False
    return pa.concat_tables(found), whole


def _read_file(table: str, path: Path, schema: pa.Schema) -> pa.Table:
    """Raises DamagedFiles."""
    if path.suffix == CLOSED_SUFFIX:
        try:
            rows = pq.ParquetFile(path).read(schema.names)
            if set(rows.column_names) == set(schema.names):
                return rows.select(schema.names).cast(schema)
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise DamagedFiles({path: str(error)}) from None
    # A writer's that has not closed, or of a former day: who knows how to read that is the reader.
    return reader.read_files(table, [path], schema.names).cast(schema)
