"""Faults: how a cluster is broken on purpose, with proof.

``FAULTS`` is the catalogue: one module per family, one line here per fault.
"""

from nemesis.admin import ADMIN
from nemesis.churn import CHURN
from nemesis.clients import CRASH_CLIENT, PAUSE_CLIENT
from nemesis.clocks import CLOCKS
from nemesis.interface import Fault
from nemesis.links import FLAP, LOSSY, NARROW, RESET, SLOW
from nemesis.live_topics import LIVE_TOPICS
from nemesis.network import BRIDGE, CUT, HALVES, ISOLATE, MAJORITIES_RING, MINORITY
from nemesis.processes import KILL, PAUSE, REPLACE, RESTART, TERMINATE
from nemesis.sessions import SESSIONS
from nemesis.starvation import STARVE_CPU, STARVE_MEMORY
from nemesis.storage import STORAGE

_FAMILIES: tuple[Fault, ...] = (
    *(KILL, TERMINATE, RESTART, PAUSE, REPLACE, STARVE_CPU, STARVE_MEMORY),
    *(CRASH_CLIENT, PAUSE_CLIENT),
    *(ISOLATE, CUT, MINORITY, HALVES, MAJORITIES_RING, BRIDGE),
    *(FLAP, LOSSY, RESET, NARROW, SLOW),
    *STORAGE,
    *CLOCKS,
    *SESSIONS,
    *ADMIN,
    *CHURN,
    *LIVE_TOPICS,
)

FAULTS: dict[str, Fault] = {fault.name: fault for fault in _FAMILIES}
