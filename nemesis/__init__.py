"""Faults: how a cluster is broken on purpose, with proof.

``FAULTS`` is the catalogue: one module per family, one line here per fault.
"""

from nemesis.clients import CRASH_CLIENT
from nemesis.interface import Fault
from nemesis.links import FLAP, LOSSY, NARROW, RESET, SLOW
from nemesis.network import BRIDGE, CUT, HALVES, ISOLATE, MAJORITIES_RING, MINORITY
from nemesis.processes import KILL, PAUSE, REPLACE, RESTART, TERMINATE
from nemesis.starvation import STARVE_CPU, STARVE_MEMORY

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        *(KILL, TERMINATE, RESTART, PAUSE, REPLACE, STARVE_CPU, STARVE_MEMORY, CRASH_CLIENT),
        *(ISOLATE, CUT, MINORITY, HALVES, MAJORITIES_RING, BRIDGE),
        *(FLAP, LOSSY, RESET, NARROW, SLOW),
    )
}
