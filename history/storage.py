"""The storage of results: on this machine, or in a store that several machines reach.

Results on this machine have a ``pathlib.Path``. Results with a URI have a :class:`StoredPath`,
which has those of pathlib's methods that a check needs, so that code works with either.
``pyarrow.fs`` accesses the store. It comes with the library that reads Parquet files, on every
worker, and needs no jars.

- ``s3a://``, ``s3://``, ``s3n://``: S3 and compatible stores. Hadoop's names and Amazon's own mean
  the same here.
- ``gs://``: Google Cloud Storage. ``hdfs://``, ``viewfs://``: HDFS, by libhdfs, which Hadoop has.
- ``file:``: this machine.

Credentials, region and endpoint come from the environment (``AWS_ACCESS_KEY_ID``, ``AWS_REGION``,
``AWS_ENDPOINT_URL``, ...), because a URI is written into logs and reports.

Buckets have no directories: a directory exists if a file is in it. A file appears there when it is
complete. On HDFS it is written under another name and renamed, as on this machine.

Each function that needs ``pyarrow`` imports it: every command imports this module, and most need
only its paths.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, total_ordering
from io import BufferedReader, TextIOWrapper
from pathlib import Path, PurePosixPath
from shutil import copyfileobj, rmtree
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs

_AMAZON = {"s3": "s3", "s3a": "s3", "s3n": "s3"}
_IN_BUCKETS = {**_AMAZON, "gs": "gs", "gcs": "gs"}
_SCHEMES = {**_IN_BUCKETS, "hdfs": "hdfs", "viewfs": "viewfs"}
"""pyarrow's name for each scheme that users write."""

_AT_ONCE = 32
"""The number of concurrent requests. They wait for the store and not for a processor."""

SMALL_FILE = 1 << 20
"""The size in bytes up to which a local Parquet file is read as a whole, whatever part of it is
needed."""

_FETCHED = 4 << 20
"""The number of bytes that are fetched at a time from a file that is read in pieces."""

_T = TypeVar("_T")
_R = TypeVar("_R")


@total_ordering
@dataclass(frozen=True, slots=True)
class StoredPath:
    """A file or a directory in a store. ``root`` is that of the store, ``s3a://bucket``, and
    ``inside`` the path below it."""

    root: str
    inside: PurePosixPath

    def __str__(self) -> str:
        return f"{self.root}/{self.inside}" if self.inside.parts else self.root

    def __truediv__(self, name: str) -> StoredPath:
        return StoredPath(self.root, self.inside / name)

    def __lt__(self, other: StoredPath) -> bool:
        return (self.root, self.inside) < (other.root, other.inside)

    @property
    def name(self) -> str:
        """The name, as of pathlib. The other properties and methods are pathlib's, too."""
        return self.inside.name

    @property
    def stem(self) -> str:
        return self.inside.stem

    @property
    def suffix(self) -> str:
        return self.inside.suffix

    @property
    def parent(self) -> StoredPath:
        return StoredPath(self.root, self.inside.parent)

    @property
    def top(self) -> StoredPath:
        """The root of the store: its bucket."""
        return StoredPath(self.root, PurePosixPath())

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.root, *self.inside.parts)

    def absolute(self) -> StoredPath:
        return self

    def exists(self) -> bool:
        return bool(self._info().type.name != "NotFound")

    def is_file(self) -> bool:
        return bool(self._info().is_file)

    def is_dir(self) -> bool:
        return bool(self._info().type.name == "Directory")

    def iterdir(self) -> Iterator[StoredPath]:
        """Yield the entries of the directory, or nothing if it does not exist. Raises OSError."""
        return (path for path, _ in self.listed())

    def listed(self) -> Iterator[tuple[StoredPath, bool]]:
        """Yield each entry of the directory and whether it is a directory. Raises OSError."""
        from pyarrow import fs

        store, path = self.place
        for info in store.get_file_info(fs.FileSelector(path, allow_not_found=True)):
            yield self / info.base_name, bool(info.type == fs.FileType.Directory)

    def files_below(self) -> Iterator[StoredPath]:
        """Yield the files in the directory and below it, or nothing if it does not exist. Raises
        OSError."""
        from pyarrow import fs

        store, path = self.place
        selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
        for info in store.get_file_info(selector):
            if info.is_file:
                inside = PurePosixPath(info.path).relative_to(path)
                yield StoredPath(self.root, self.inside / inside)

    def glob(self, pattern: str) -> Iterator[StoredPath]:
        """Yield the entries that match a pattern, in this directory or below it. Raises OSError."""
        first, _, rest = pattern.partition("/")
        for path in self.iterdir():
            if PurePosixPath(path.name).match(first):
                yield from path.glob(rest) if rest else (path,)

    def open(self, mode: str = "r", *, encoding: str = "utf-8", errors: str = "strict") -> Any:
        """Open the file to read it from the beginning, or in large pieces, because each piece is a
        request. Raises OSError."""
        store, path = self.place
        file = BufferedReader(store.open_input_file(path), _FETCHED)
        return file if "b" in mode else TextIOWrapper(file, encoding=encoding, errors=errors)

    @contextmanager
    def created(self) -> Iterator[pa.NativeFile]:
        """Open a new file, which appears at the end of the context as a whole. After an exception
        it does not exist. Raises OSError."""
        store, path = self.place
        aside = path if self._in_bucket else str(PurePosixPath(path).with_name(f".{self.name}"))
        file = store.open_output_stream(aside)
        try:
            yield file
        except BaseException:
            # Closing the file makes it appear, however little of it was written.
            file.close()
            store.delete_file(aside)
            raise
        file.close()
        if aside != path:
            self.unlink(missing_ok=True)
            store.move(aside, path)

    def read_bytes(self) -> bytes:
        store, path = self.place
        with store.open_input_file(path) as file:
            return bytes(file.read())

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def unlink(self, missing_ok: bool = False) -> None:
        store, path = self.place
        try:
            store.delete_file(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Create the directory. This does nothing in stores without directories."""
        if not exist_ok and self.exists():
            raise FileExistsError(f"{self} is there")
        if not self._in_bucket:
            store, path = self.place
            store.create_dir(path, recursive=parents)

    @property
    def place(self) -> tuple[fs.FileSystem, str]:
        """The store and its name for the path, as pyarrow has them. Raises OSError."""
        store, top = _store(self.root)
        return store, f"{top}/{self.inside}" if self.inside.parts else top

    @property
    def bytes(self) -> int:
        """The size of the file in bytes. Raises OSError."""
        info = self._info()
        if not info.is_file:
            raise FileNotFoundError(f"{self}: there is no such file")
        return int(info.size)

    @property
    def _in_bucket(self) -> bool:
        return self.root.partition(":")[0] in _IN_BUCKETS

    def _info(self) -> fs.FileInfo:
        store, path = self.place
        (info,) = store.get_file_info([path])
        return info


AnyPath: TypeAlias = Path | StoredPath


def located(text: str) -> AnyPath:
    """Return the path that a path or a URI names. Raises ValueError for a URI that names nothing,
    or that contains settings of the environment."""
    if "://" not in text and not text.startswith("file:"):
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme not in _SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in ("file", *_SCHEMES))
        raise ValueError(f"{parts.scheme}:// is not known; there are {known}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        # The message does not quote it, because it may be a secret.
        raise ValueError("keys, region and endpoint come from the environment, not from the URI")
    if not parts.netloc and parts.scheme in _IN_BUCKETS:
        raise ValueError(f"{text} names no bucket")
    return StoredPath(f"{parts.scheme}://{parts.netloc}", PurePosixPath(parts.path.strip("/")))


def parquet(path: AnyPath) -> pq.ParquetFile:
    """Open a Parquet file. Its pages are compared with their checksums, if they have any, when they
    are read.

    From a store, the needed parts are fetched in few requests, because each takes as long as
    reading a megabyte. A small local file is read at once, because reading its footer and columns
    separately takes more system calls and more time than reading all of it. Raises OSError,
    ArrowInvalid.
    """
    if isinstance(path, Path):
        import pyarrow as pa

        with path.open("rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size <= SMALL_FILE:
                return _checked(pa.BufferReader(file.read()))
        return _checked(path)
    store, inside = path.place
    return _checked(store.open_input_file(inside), pre_buffer=True)


def _checked(source: Path | pa.NativeFile, **options: bool) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, page_checksum_verification=True, **options)


def digest(path: AnyPath) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal digits. A file in a store is read in
    pieces. Raises OSError."""
    if isinstance(path, Path):
        with path.open("rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    found = hashlib.sha256()
    with streamed(path) as source:
        while some := source.read(_FETCHED):
            found.update(some)
    return found.hexdigest()


def matching(directory: AnyPath, pattern: str) -> list[AnyPath]:
    """Return the entries that match a pattern, as pathlib's ``glob``, in order, or nothing if the
    directory does not exist. Raises OSError."""
    if isinstance(directory, Path):
        return [*sorted(directory.glob(pattern))]
    return [*sorted(directory.glob(pattern))]  # all paths have the same type and can be sorted


def directories(directory: AnyPath) -> list[AnyPath]:
    """Return the directories in a directory in order, or none if it does not exist. Raises
    OSError."""
    if isinstance(directory, Path):
        return [path for path in sorted(directory.glob("*")) if path.is_dir()]
    return [*sorted(path for path, is_directory in directory.listed() if is_directory)]


def files_below(directory: AnyPath) -> list[AnyPath]:
    """Return the files in a directory and below it, in order, or none if it does not exist. Raises
    OSError."""
    if isinstance(directory, Path):
        return [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return [*sorted(directory.files_below())]


def opened(path: AnyPath, *, mapped: bool = False) -> pa.NativeFile:
    """Open a file to read it. With ``mapped``, a local file is mapped and not copied. A file in a
    store is loaded as a whole, because every piece would be a request. Raises OSError."""
    import pyarrow as pa

    if not isinstance(path, Path):
        return pa.BufferReader(path.read_bytes())
    return pa.memory_map(str(path)) if mapped else pa.OSFile(str(path))


def streamed(path: AnyPath) -> pa.NativeFile:
    """Open a file to read it from its beginning to its end, whatever its length. Raises OSError."""
    if isinstance(path, Path):
        import pyarrow as pa

        return pa.memory_map(str(path))
    store, inside = path.place
    return store.open_input_stream(inside, buffer_size=_FETCHED)


def size(path: AnyPath) -> int:
    """Return the size of a file in bytes. Raises OSError."""
    return path.stat().st_size if isinstance(path, Path) else path.bytes


def each(look: Callable[[_T], _R], things: Sequence[_T], *, stored: bool) -> list[_R]:
    """Return the results of ``look`` for each of the things, in their order. With ``stored``, the
    things are in a store and many are looked at at once: each takes at least one request, and
    thousands in sequence would take minutes. Raises what ``look`` raises."""
    if not stored:
        return list(map(look, things))
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(look, things))


def remove_tree(path: AnyPath) -> None:
    """Remove a directory with everything in it, as far as that is possible."""
    if isinstance(path, Path):
        rmtree(path, ignore_errors=True)
        return
    store, inside = path.place
    try:
        store.delete_dir(inside)
    except OSError:
        return


def copy_below(source: Path, target: AnyPath) -> None:
    """Copy the files in a directory of this machine and below it to ``target``, which need not
    exist. Each appears there as a whole. Raises OSError."""

    def copy(file: AnyPath) -> None:
        copied = target / str(Path(str(file)).relative_to(source))
        copied.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as content, whole(copied) as written:
            copyfileobj(content, written, _FETCHED)

    each(copy, files_below(source), stored=not isinstance(target, Path))


@cache
def _store(root: str) -> tuple[fs.FileSystem, str]:
    scheme, _, authority = root.partition("://")
    if _SCHEMES[scheme] == "s3":
        return _s3(authority), authority
    from pyarrow import fs

    store, top = fs.FileSystem.from_uri(f"{_SCHEMES[scheme]}://{authority}")
    return store, top.rstrip("/")


def _s3(bucket: str) -> fs.S3FileSystem:
    from pyarrow import fs

    named = os.environ.get
    # These are Amazon's own names, which pyarrow does not know.
    endpoint = named("AWS_ENDPOINT_URL_S3") or named("AWS_ENDPOINT_URL")
    region = named("AWS_REGION") or named("AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(endpoint_override=endpoint, region=region)


# --- whole files ----------------------------------------------------------------------------------
#
# Files that appear as a whole: they are written under another name and then renamed. A reader never
# sees half of one.


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Yield a hidden file beside ``path`` to write into. At the end it replaces ``path``. After an
    exception it is removed, and the former file stays. Raises OSError."""
    aside = path.with_name(f".{path.name}")
    aside.unlink(missing_ok=True)  # a link could lead elsewhere
    try:
        yield aside
        aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def whole(path: AnyPath) -> Iterator[pa.NativeFile]:
    """Open a file to write into, here or in a store. At the end it replaces ``path``. After an
    exception it is removed. Raises OSError."""
    if isinstance(path, Path):
        import pyarrow as pa

        with written_aside(path) as aside, pa.OSFile(str(aside), "wb") as file:
            yield file
    else:
        with path.created() as file:
            yield file


def write_text(path: AnyPath, text: str) -> None:
    """Write ``text`` to a file that appears as a whole, as with :func:`whole`. Raises OSError."""
    with whole(path) as file:
        file.write(text.encode())
