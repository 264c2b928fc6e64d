"""Arrow's streaming format, appended to: a batch of rows costs one write, and no file of its own.

A file is a schema message, then one message a batch, as ``pyarrow.ipc.open_stream`` reads them; an
end marker it has none. Whatever ends its writer leaves whole messages and at most one more that is
cut short, which counts as not written.
"""

from pathlib import Path

import pyarrow as pa
from pyarrow import ipc

from ackproof.history import storage
from ackproof.history.storage import AnyPath

# Batches are small: handing their columns to other threads costs more than it spares.
_WRITTEN = ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = ipc.IpcReadOptions(use_threads=False)


def append(path: Path, size: int, batch: pa.RecordBatch) -> int:
    """Write ``batch`` at the position ``size``, 0 of a file that is not there; its size then.

    Of a write that fails a piece may remain behind ``size``: nobody reads it, and the next one at
    that position replaces it. Raises OSError.
    """
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=_WRITTEN) as stream:
        stream.write_batch(batch)
        end: int = sink.tell()
    begin: int = batch.schema.serialize().size if size else 0
    with path.open("r+b" if size else "wb") as file:
        file.seek(size)
        # Of a longer piece that failed the end would stay behind this batch, and be read as the
        # beginning of the next: that is damage, and the file's rows would count no more.
        file.truncate()
        file.write(sink.getvalue()[begin:end])
    return size + end - begin


def read(path: AnyPath) -> tuple[list[pa.RecordBatch], bool]:
    """The whole batches of a file, in order; and whether one that is cut short follows them, or the
    schema itself is. Raises OSError, and ArrowException where it is not its end that is missing."""
    read: list[pa.RecordBatch] = []
    with storage.opened(path) as source:
        try:
            read.extend(ipc.open_stream(source, options=_READ))
        except (pa.ArrowInvalid, OSError):
            # What asks for more than there is has been cut short. Whatever is wrong before is no
            # end of a file, and what follows it would be passed over in silence.
            if source.tell() < source.size():
                raise
            return read, True
        if source.tell() < source.size():
            raise pa.ArrowInvalid(f"it goes on after its end, at byte {source.tell()}")
    return read, False
