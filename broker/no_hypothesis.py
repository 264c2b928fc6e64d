"""Imported by a broker's process before all else of it: there is no hypothesis here.

Where that library for tests is installed, kio imports it, and it makes itself a table of Unicode in
``.hypothesis`` of the working directory: seconds of computing where that is new, as on a node.
"""

import sys

sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
