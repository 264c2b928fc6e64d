"""The first import of a broker's process, so that it starts quickly.

It hides hypothesis. Where that library for tests is installed, kio imports it, and it creates a
table of Unicode in ``.hypothesis`` of the working directory. That takes seconds where the directory
is new, as on a node. Garbage collection is off while modules are imported: they make next to none,
and are kept for good (:func:`done`).
"""

import gc
import sys

sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
gc.disable()


def done() -> None:
    """Collect garbage from now on, but not the modules, which are all imported."""
    gc.freeze()
    gc.enable()
