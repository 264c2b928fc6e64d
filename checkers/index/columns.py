"""The tables of a partition in their stored form, in which names are codes of a dictionary.

The name of a cell is in each of ten million rows. As strings, these names would take most of a
task's memory and reading time. A task that reads a closed file needs a few numbers for each row.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache

import pyarrow as pa

from ackproof.checkers.context.row_times import ANY, Expected
from ackproof.history import names, reader, storage, validation
from ackproof.history.errors import DamagedFiles
from ackproof.history.names import CLOSED_SUFFIX
from ackproof.history.schema import TABLES
from ackproof.history.storage import AnyPath, located


def read(
    table: str, files: Iterable[str], columns: Iterable[str], expected: Expected = ANY
) -> tuple[pa.Table, list[str]]:
    """Return the rows of the readable files of a table, and the problems of the others, as
    :func:`sound`."""
    wanted = tuple(columns)
    found, problems = sound(files, lambda file: read_file(table, file, wanted), expected)
    if len(found) == 1:
        return found[0], problems
    return pa.concat_tables([schema_of(table, wanted).empty_table(), *found]), problems


def sound(
    files: Iterable[str], read: Callable[[AnyPath], pa.Table], expected: Expected = ANY
) -> tuple[list[pa.Table], list[str]]:
    """Return the rows of each file that can be read and has the expected values, and the problem of
    each other file. ``read`` raises DamagedFiles."""
    found, problems = [], []
    for file in map(located, files):
        try:
            rows = read(file)
            if (words := expected.problem(rows)) is not None:
                raise DamagedFiles({file: words})
            found.append(rows)
        except DamagedFiles as error:
            problems.append(str(error))
    return found, problems


def schema_of(table: str, columns: Iterable[str]) -> pa.Schema:
    """Return the stored schema of some columns of a table."""
    return _schema(table, tuple(columns))


@cache
def _schema(table: str, columns: tuple[str, ...]) -> pa.Schema:
    """Create the schema once and not for each of thousands of files."""
    return pa.schema([TABLES[table].field(name) for name in columns])


def read_file(
    table: str, path: AnyPath, columns: Sequence[str], row_group: int | None = None
) -> pa.Table:
    """Read some columns of a file, or of one of its row groups. Raises DamagedFiles."""
    schema = schema_of(table, columns)
    if path.suffix == CLOSED_SUFFIX:
        try:
            file = storage.parquet(path)
            problem = validation.place_of_closed(file, names.parse(path.name)[0])
            groups = range(file.num_row_groups) if row_group is None else [row_group]
            # Each core has a task of its own, so further threads would only compete.
            rows = file.read_row_groups(groups, schema.names, use_threads=False)
            problem = problem or validation.problem(table, rows)
            if problem is not None:
                raise DamagedFiles({path: problem})
            if rows.schema.equals(schema):
                return rows
            if set(rows.column_names) == set(schema.names):
                return rows.select(schema.names).cast(schema)
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise DamagedFiles({path: str(error)}) from None
    # The file was not closed, or has an older format. The general reader knows both.
    return reader.read_files(table, [path], schema.names).cast(schema)
