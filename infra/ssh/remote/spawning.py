"""Starting what must outlive the agent and its connection."""

import subprocess
import sys


def spawn(role: str, argument: str) -> "subprocess.Popen[bytes]":
    """The agent's program once more in another role: in a session of its own and without our
    descriptors, so that the end of the connection is nothing to it."""
    return subprocess.Popen(
        [sys.executable, "-I", sys.argv[0], role, argument],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
