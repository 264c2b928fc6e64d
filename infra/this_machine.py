"""Nodes on this machine: each is a directory and an agent that is a child of ours."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from ackproof.infra.agent_process import AgentProcess
from ackproof.infra.copying import SeenThere
from ackproof.infra.node import AgentNode, Made
from ackproof.infra.software import of_this_machine


class Directories:
    """Of the nodes of a backend, by their names, below one that is the caller's."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent.absolute()

    def make(self, name: str) -> Path:
        directory = self._parent / name
        (directory / "logs").mkdir(parents=True)
        return directory

    def remove(self, name: str) -> None:
        """Idempotent."""
        if (self._parent / name).exists():
            shutil.rmtree(self._parent / name)

    def remains(self, name: str) -> Sequence[str]:
        """See ``infra.interface.Backend``."""
        directory = self._parent / name
        return [str(directory)] if directory.exists() else []


def node_of(
    agent: AgentProcess, address: str, directory: Path, remove: Callable[[], None]
) -> AgentNode:
    """The node that this agent serves. ``remove``: see ``infra.node.Made``."""
    return AgentNode(
        Made(
            name=agent.name,
            addresses=[address],
            directory=PurePosixPath(directory),
            agent=agent.client(),
            software=of_this_machine,
            shares=SeenThere(agent.name, Path("/")),
            artifacts=None,
            remove=remove,
        )
    )
