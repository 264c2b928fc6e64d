"""**WritesAreCompared**: nobody writes what he has computed from a node without saying which
version of it he has read.

The controller takes 3 out of an ISR of which its leader has just taken 2: written over whatever is
there, 2 would be in the ISR again, and nobody wait for it. So with the end of a reassignment, which
is computed from where the partition is. That somebody else writes within the few ms between a read
and a write is rare; that it is not asked is plain in each write.
"""

from typing import Any, Final

from kazoo.protocol.serialization import CheckVersion, SetData, Transaction

from simulation.violation import Violation

ANY: Final = -1


def check(request: Any) -> None:
    """Of a write, before it is carried out; raises Violation."""
    operations = request.operations if type(request) is Transaction else (request,)
    for operation in operations:
        if type(operation) in (SetData, CheckVersion) and operation.version == ANY:
            match operation.path.split("/")[1:]:
                case ["brokers", "topics", _, "partitions", _, "state"]:
                    name = "is written"
                case ["brokers", "topics", _, _, "replicas"] if type(operation) is CheckVersion:
                    name = "is counted on"
                case _:
                    continue
            raise Violation("WritesAreCompared", f"{operation.path} {name}, whatever is there")
