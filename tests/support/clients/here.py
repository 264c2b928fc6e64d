"""This machine as a node, for the command lines of client programs."""

import contextlib
import sys
import tempfile
from pathlib import PurePosixPath

from ackproof.infra.api.interface import InfraError, Software
from ackproof.infra.machine.software import find_java
from ackproof.testing.memory.servers import MemoryNode


def here() -> MemoryNode:
    """Return this machine as a node that can start every program."""
    java = "java"
    with contextlib.suppress(InfraError):
        java = str(find_java())

    class Here(MemoryNode):
        directory = PurePosixPath(tempfile.gettempdir())
        software = Software(python=sys.executable, java=java, zookeeper_class_path="")

    return Here("here", "here")
