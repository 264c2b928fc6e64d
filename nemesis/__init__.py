"""Faults: how a cluster is broken on purpose, with proof.

``FAULTS`` is the catalogue: one module per family, one line here per fault.
"""

from nemesis.interface import Fault
from nemesis.isolate import Isolate
from nemesis.kill import Kill
from nemesis.pause import Pause

FAULTS: dict[str, Fault] = {fault.name: fault for fault in (Kill(), Isolate(), Pause())}
