"""Imported by a broker's process before all else of it, so that it starts quickly.

There is no hypothesis here: where that library for tests is installed, kio imports it, and it makes
itself a table of Unicode in ``.hypothesis`` of the working directory: seconds of computing where
that is new, as on a node. And garbage is not collected while modules are read, which make next to
none and are kept for good (:func:`done`).
"""

import gc
import sys

sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
gc.disable()


def done() -> None:
    """All modules are read: collect garbage from now on, but not them."""
    gc.freeze()
    gc.enable()
