"""A partition's tables as they are stored: names stay numbers of a dictionary.

A cell's name stands in each of ten million rows: as strings that is most of the memory that a task
needs, and of the time that reading takes. Who reads a closed file needs a few numbers a row."""

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
    """Return what can be read of files of a table, and what is wrong with the others, as
    :func:`sound`."""
    wanted = tuple(columns)
    found, problems = sound(files, lambda file: read_file(table, file, wanted), expected)
    if len(found) == 1:
        return found[0], problems
    return pa.concat_tables([schema_of(table, wanted).empty_table(), *found]), problems


def sound(
    files: Iterable[str], read: Callable[[AnyPath], pa.Table], expected: Expected = ANY
) -> tuple[list[pa.Table], list[str]]:
    """Return the rows of each file that can be read and says what is expected, and what is wrong
    with each other file. ``read`` raises DamagedFiles."""
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
    """Of some columns of a table, as they are stored."""
    return _schema(table, tuple(columns))


@cache
def _schema(table: str, columns: tuple[str, ...]) -> pa.Schema:
    """Made once, not for each of thousands of files."""
    return pa.schema([TABLES[table].field(name) for name in columns])


def read_file(
    table: str, path: AnyPath, columns: Sequence[str], row_group: int | None = None
) -> pa.Table:
    """Some columns of a file, or of one of its row groups. Raises DamagedFiles."""
    schema = schema_of(table, columns)
    if path.suffix == CLOSED_SUFFIX:
        try:
            file = storage.parquet(path)
            problem = validation.place_of_closed(file, names.parse(path.name)[0])
            groups = range(file.num_row_groups) if row_group is None else [row_group]
            # A task has a core, and each core has a task: threads would take turns.
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
    # A writer's that has not closed, or of a former day: who knows how to read that is the reader.
    return reader.read_files(table, [path], schema.names).cast(schema)
