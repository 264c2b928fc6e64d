"""kio's reader of records, imported as if hypothesis were not there.

Where that library for tests is installed, kio imports it, and it makes itself a table of Unicode in
``.hypothesis`` of the working directory: seconds of computing, left where somebody runs a check.
"""

import sys

_HIDDEN = "hypothesis" not in sys.modules
if _HIDDEN:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
try:
    from kio.records.readers import read_record
    from kio.serial.errors import SerialError
    from kio.static.primitive import i64
finally:
    if _HIDDEN:
        del sys.modules["hypothesis"]

__all__ = ["SerialError", "i64", "read_record"]
