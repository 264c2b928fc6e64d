"""Faults on a server that ran before the agent came: limits, and room on the disks of its logs."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NoReturn

from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import InfraError
from ackproof.infra.node.agent_client import AgentClient
from ackproof.infra.node.node import in_units_of_the_agent

_DISK_WITHIN_S = 60.0


class ServerLimits:
    """An ``infra.api.capabilities.ResourceLimits`` on the control group of the server that listens
    at a port."""

    def __init__(self, agent: AgentClient, port: int) -> None:
        self._agent = agent
        self._port = port

    def limit(self, what: LimitedResource, amount: int) -> None:
        own = in_units_of_the_agent(what, amount)
        self._agent.ask("limit_server", port=self._port, what=what, amount=own)

    def lift(self, what: LimitedResource) -> None:
        self._agent.ask("lift_server", what=what)

    def counted(self, what: LimitedResource) -> Mapping[str, int]:
        found: dict[str, int] = self._agent.ask("server_counted", what=what)
        return found


class LogDirectoryDisk:
    """An ``infra.api.interface.Disk`` on which a log directory lies, and which is its operator's.

    It can be filled. Every other failure needs a disk that Ackproof has made, and is refused.
    """

    def __init__(self, agent: AgentClient, directory: PurePosixPath) -> None:
        self._agent = agent
        self.data = directory

    def fill(self) -> None:
        self._ask("fill_directory")

    def empty(self) -> None:
        self._ask("empty_directory")

    def refuses_writes(self) -> str | None:
        refusal: str | None = self._ask("directory_refuses_writes")
        return refusal

    def bytes_per_s(self) -> None:
        """Return None: nothing slows it down."""

    def __getattr__(self, what: str) -> NoReturn:
        if what.startswith("__"):  # requests of Python itself
            raise AttributeError(what)
        raise InfraError(f"the disk of {self.data} on {self._agent.who} is not Ackproof's: {what}")

    def _ask(self, verb: str) -> Any:
        return self._agent.ask(verb, timeout=_DISK_WITHIN_S, directory=str(self.data))
