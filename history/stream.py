"""Streams of batches: Arrow's streaming format with appended batches.

A batch of rows costs one write and no file of its own. A file is a schema message, then one message
for each batch, as ``pyarrow.ipc.open_stream`` reads them, without an end marker. Whatever ends its
writer leaves complete messages and at most one incomplete message, which counts as not written.
"""

from pathlib import Path

import pyarrow as pa
from pyarrow import ipc

from ackproof.history.storage import AnyPath, opened

# Batches are small, so passing their columns to other threads costs more than it saves.
_WRITTEN = ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = ipc.IpcReadOptions(use_threads=False)


def append_batches(path: Path, size: int, batch: pa.RecordBatch) -> int:
    """Write ``batch`` at the position ``size``, which is 0 for a new file, and return the new size.

    A failed write may leave a piece after ``size``. It is never read, and the next write at that
    position replaces it. Raises OSError.
    """
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=_WRITTEN) as stream:
        stream.write_batch(batch)
        end: int = sink.tell()
    begin: int = batch.schema.serialize().size if size else 0
    with path.open("r+b" if size else "wb") as file:
        file.seek(size)
        # Without this, the rest of a longer failed piece would stay behind this batch and be read
        # as the beginning of the next one. The file would then be damaged, and its rows would no
        # longer count.
        file.truncate()
        file.write(sink.getvalue()[begin:end])
    return size + end - begin


def read_batches(path: AnyPath) -> tuple[list[pa.RecordBatch], bool]:
    """Return the complete batches of a file in order, and whether an incomplete batch follows them,
    or the schema itself is incomplete. Raises OSError, and ArrowException if anything but its end
    is damaged."""
    read: list[pa.RecordBatch] = []
    with opened(path) as source:
        try:
            read.extend(ipc.open_stream(source, options=_READ))
        except (pa.ArrowInvalid, OSError):
            # An error at the end of the data means that the file was cut short. Any earlier error
            # is damage, and everything after it would be skipped silently.
            if source.tell() < source.size():
                raise
            return read, True
        if source.tell() < source.size():
            raise pa.ArrowInvalid(f"it has data after its end, at byte {source.tell()}")
    return read, False
