"""The reader of a history, complete or not.

For each stem (table, topic and partition, writer), the closed file counts if there is one,
otherwise the parts in order (``history.writer`` says why both never count). Files whose name begins
with a dot were being written when the writer ended, and do not count. Neither does an incomplete
batch at the end of a part. Read a history only after its writers have ended, because a writer that
closes removes its parts.

Dictionary columns are returned as plain strings, so that tables of several files have one schema:
:func:`decoded_schema`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from ackproof.history import storage, stream, validation
from ackproof.history.errors import DamagedFiles
from ackproof.history.names import CLOSED_SUFFIX, PART_SUFFIX, PARTITIONED, FileStem, parse
from ackproof.history.schema import TABLES, decoded
from ackproof.history.storage import AnyPath

Listed: TypeAlias = tuple[Mapping[FileStem, tuple[AnyPath, ...]], Mapping[AnyPath, str]]
"""The files of a table by stem, and the problems of other files with its name."""


def decoded_schema(table: str) -> pa.Schema:
    """Return the table's schema with strings in place of dictionaries of strings."""
    return decoded(TABLES[table])


def files(directory: AnyPath, table: str) -> tuple[AnyPath, ...]:
    """Return the files of a table, with the parts of a writer in order, or none.

    Raises DamagedFiles for a name that begins like the table's and is not that of a history file.
    """
    return tuple(path for paths in by_stem(directory, table).values() for path in paths)


def partitions(
    directory: AnyPath, tables: Iterable[str] = sorted(PARTITIONED)
) -> Mapping[tuple[str, int], Mapping[str, tuple[AnyPath, ...]]]:
    """Return the files of partitioned tables by (topic, partition), then by table.

    For example ``{("t", 0): {"sends": (Path(...),), "log": (Path(...),)}}``. A table without files
    of a partition has an empty tuple there.
    """
    tables = tuple(tables)
    found: dict[tuple[str, int], dict[str, tuple[AnyPath, ...]]] = {}
    for table in tables:
        for stem, paths in by_stem(directory, table).items():
            if stem.partition is None:
                raise ValueError(f"table {table} is not written per partition")
            by_table = found.setdefault(stem.partition, dict.fromkeys(tables, ()))
            by_table[table] += paths
    return dict(sorted(found.items()))


def read(directory: AnyPath, table: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the whole table or these columns of it. Without files, return an empty table of its
    schema.

    Raises DamagedFiles, which names every file that cannot be read.
    """
    return read_files(table, files(directory, table), columns)


def read_files(
    table: str, paths: Iterable[AnyPath], columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the same as :func:`read` for files that :func:`files` or :func:`partitions` listed."""
    schema = decoded_schema(table)
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    tables, damaged = [], {}
    for path in paths:
        try:
            tables.append(_read_file(table, path, schema))
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            damaged[path] = str(error)
    if damaged:
        raise DamagedFiles(damaged)
    return pa.concat_tables([schema.empty_table(), *tables])


def _read_file(table: str, path: AnyPath, schema: pa.Schema) -> pa.Table:
    """Read one file. A missing nullable column is null, because older histories lack it. Raises
    ValueError for rows that no writer wrote (:mod:`history.validation`)."""
    rows = _read_part(path, schema) if _is_part(path) else _read_closed(path, schema)
    for field in schema:
        if field.nullable and field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    rows = rows.select(schema.names).cast(schema)
    _raise(validation.problem(table, rows))
    return rows


def _read_closed(path: AnyPath, schema: pa.Schema) -> pa.Table:
    file = storage.parquet(path)
    _raise(validation.place_of_closed(file, parse(path.name)[0]))
    return file.read(schema.names)


def _read_part(path: AnyPath, schema: pa.Schema) -> pa.Table:
    """Return those columns of ``schema`` that a part has. A part that was cut short before its
    first batch has none."""
    batches, _ = stream.read_batches(path)
    if not batches:
        return schema.empty_table()
    rows = pa.Table.from_batches(batches)
    _raise(validation.place_of(rows, parse(path.name)[0]))
    return rows.select([name for name in schema.names if name in rows.column_names])


def _raise(problem: str | None) -> None:
    if problem is not None:
        raise ValueError(problem)


def _is_part(path: AnyPath) -> bool:
    return path.suffix == PART_SUFFIX


def count_rows(paths: Iterable[AnyPath]) -> int:
    """Return the number of rows in these files. For closed files, only the footers are read.

    Raises DamagedFiles, which names every file whose rows cannot be counted.
    """
    rows, damaged = 0, {}
    for path in paths:
        try:
            rows += _rows_of_part(path) if _is_part(path) else _rows_of_closed(path)
        except (OSError, ValueError, pa.ArrowException) as error:
            damaged[path] = str(error)
    if damaged:
        raise DamagedFiles(damaged)
    return rows


def _rows_of_closed(path: AnyPath) -> int:
    return int(storage.parquet(path).metadata.num_rows)


def _rows_of_part(path: AnyPath) -> int:
    batches, _ = stream.read_batches(path)
    return sum(map(len, batches))


def cut_short(path: AnyPath) -> bool:
    """Return whether this is a part that ends with an incomplete batch. Raises DamagedFiles."""
    try:
        return _is_part(path) and stream.read_batches(path)[1]
    except (OSError, pa.ArrowException) as error:
        raise DamagedFiles({path: str(error)}) from error


def by_stem(directory: AnyPath, table: str) -> Mapping[FileStem, tuple[AnyPath, ...]]:
    """Return the files of a table by stem. Raises as :func:`files`."""
    return sound(listed(directory, table))


def sound(listed: Listed) -> Mapping[FileStem, tuple[AnyPath, ...]]:
    """Return the files of a table if all of them belong to it. Raises as :func:`files`."""
    found, misnamed = listed
    if misnamed:
        raise DamagedFiles(misnamed)
    return found


def listed(directory: AnyPath, table: str) -> Listed:
    """Return the files of a table by stem, and the problems of files whose name does not identify
    their writer."""
    return _listed(storage.matching(directory, f"{table}.*"))


def listed_by_table(directory: AnyPath) -> Mapping[str, Listed]:
    """Return the same as :func:`listed` for every table from one listing. In a store, a request
    lists a thousand files."""
    paths: dict[str, list[AnyPath]] = {table: [] for table in TABLES}
    for path in storage.matching(directory, "*.*"):
        paths.get(path.name.partition(".")[0], []).append(path)
    return {table: _listed(mine) for table, mine in paths.items()}


def _listed(paths: Iterable[AnyPath]) -> Listed:
    found: dict[FileStem, dict[int | None, AnyPath]] = defaultdict(dict)
    misnamed = {}
    for path in paths:
        if path.suffix not in (CLOSED_SUFFIX, PART_SUFFIX):
            continue
        try:
            stem, part = parse(path.name)
        except ValueError as error:
            misnamed[path] = str(error)
        else:
            found[stem][part] = path
    return {stem: _authoritative(by_part) for stem, by_part in found.items()}, misnamed


def _authoritative(by_part: Mapping[int | None, AnyPath]) -> tuple[AnyPath, ...]:
    if None in by_part:
        return (by_part[None],)
    return tuple(path for _, path in sorted(by_part.items(), key=lambda item: item[0] or 0))
