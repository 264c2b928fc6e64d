"""Faults: how a cluster is broken on purpose, with proof.

``FAULTS`` is the catalogue: a room for each family, one line here per fault. What all families
share is what a fault is (``interface``), and how it is aimed (``targets``), carried out
(``execution``) and proven (``proofs``).
"""

from nemesis.admin.added import ADD_BROKER
from nemesis.admin.churn import CHURN
from nemesis.admin.live_topics import LIVE_TOPICS
from nemesis.admin.orders import ADMIN
from nemesis.clock.faults import CLOCKS
from nemesis.interface import Fault
from nemesis.network.cuts import BRIDGE, CUT, HALVES, ISOLATE, MAJORITIES_RING, MINORITY
from nemesis.network.links import FLAP, LOSSY, NARROW, RESET, SLOW
from nemesis.process.clients import CRASH_CLIENT, PAUSE_CLIENT
from nemesis.process.servers import KILL, PAUSE, REPLACE, RESTART, TERMINATE
from nemesis.process.starvation import STARVE_CPU, STARVE_MEMORY
from nemesis.storage.faults import STORAGE
from nemesis.zookeeper.sessions import SESSIONS

_FAMILIES: tuple[Fault, ...] = (
    *(KILL, TERMINATE, RESTART, PAUSE, REPLACE, STARVE_CPU, STARVE_MEMORY),
    *(CRASH_CLIENT, PAUSE_CLIENT),
    *(ISOLATE, CUT, MINORITY, HALVES, MAJORITIES_RING, BRIDGE),
    *(FLAP, LOSSY, RESET, NARROW, SLOW),
    *STORAGE,
    *CLOCKS,
    *SESSIONS,
    *ADMIN,
    ADD_BROKER,
    *CHURN,
    *LIVE_TOPICS,
)

FAULTS: dict[str, Fault] = {fault.name: fault for fault in _FAMILIES}
