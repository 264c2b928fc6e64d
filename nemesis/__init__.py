"""Faults: the ways to break a cluster on purpose, with proof.

``FAULTS`` is the catalogue: a package for each family, one line here per fault, and the faults of
plug-ins (``registration``) under the entry-point group ``ackproof.faults``. All families share the
definition of a fault (``interface``), its aim (``targets``), execution (``execution``) and proof
(``proofs``).
"""

from ackproof.nemesis.admin.orders import ADD_BROKER, ADMIN
from ackproof.nemesis.admin.topics import CHURN, LIVE_TOPICS
from ackproof.nemesis.certificates import CERTIFICATES
from ackproof.nemesis.clock import CLOCKS
from ackproof.nemesis.interface import Fault, as_fault
from ackproof.nemesis.network.cuts import CUTS
from ackproof.nemesis.network.links import FLAP, LOSSY, NARROW, RESET, SLOW
from ackproof.nemesis.process.clients import CRASH_CLIENT, PAUSE_CLIENT
from ackproof.nemesis.process.commands import OWN_COMMANDS
from ackproof.nemesis.process.migration import MIGRATION
from ackproof.nemesis.process.pods import ON_KUBERNETES
from ackproof.nemesis.process.rolling import UPGRADES
from ackproof.nemesis.process.servers import KILL, PAUSE, REPLACE, RESTART, TERMINATE
from ackproof.nemesis.process.starvation import STARVE_CPU, STARVE_MEMORY
from ackproof.nemesis.process.voters import REMOVE_VOTER
from ackproof.nemesis.remote_tier import REMOTE_TIER
from ackproof.nemesis.storage import STORAGE
from ackproof.nemesis.zookeeper import SESSIONS
from ackproof.plugins import Table

_FAMILIES: tuple[Fault, ...] = (
    *(KILL, TERMINATE, RESTART, PAUSE, REPLACE, STARVE_CPU, STARVE_MEMORY),
    *ON_KUBERNETES,
    *(CRASH_CLIENT, PAUSE_CLIENT),
    *CUTS,
    *(FLAP, LOSSY, RESET, NARROW, SLOW),
    *STORAGE,
    *CLOCKS,
    *CERTIFICATES,
    REMOTE_TIER,
    *SESSIONS,
    *ADMIN,
    ADD_BROKER,
    *CHURN,
    *LIVE_TOPICS,
    *UPGRADES,
    *MIGRATION,
    REMOVE_VOTER,
    OWN_COMMANDS,
)

FAULTS: Table[Fault] = Table(
    "ackproof.faults", "fault", {fault.name: fault for fault in _FAMILIES}, as_fault
)
