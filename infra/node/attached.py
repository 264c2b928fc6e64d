"""A server that ran before the agent came: its process, limits, and room on its logs' disks."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NoReturn

from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import InfraError, ProcessState, SchedulingTimes
from ackproof.infra.node.agent_client import AgentClient, NodeGone
from ackproof.infra.node.node import in_units_of_the_agent

_DISK_WITHIN_S = 60.0
_LOGS_WITHIN_S = 120.0


class FoundProcess:
    """An ``infra.api.interface.Process`` that the agent did not start and only looks at. Its exit
    status is unknown.

    Args:
        name: The name of its server.
        pid: Its id there.
        start: Its start in clock ticks since boot. Another process of the same id has another one.
    """

    signals: frozenset[int] = frozenset()

    def __init__(self, name: str, agent: AgentClient, pid: int, start: int) -> None:
        self.name = name
        self.pid = pid
        self._start = start
        self._agent = agent

    def state(self) -> ProcessState:
        return ProcessState(self._seen()["state"])

    def scheduled(self) -> SchedulingTimes | None:
        times = self._seen()["scheduled"]
        return None if times is None else SchedulingTimes(**times)

    def exit_code(self) -> None:
        """Return None: the status goes to the process that started it."""

    def signal(self, signal_number: int) -> NoReturn:
        raise InfraError(f"{self.name} is not the agent's: signal {signal_number} is not sent")

    def wait(self, timeout: float | None = None) -> NoReturn:
        """Raise TimeoutError: its exit status never becomes known."""
        raise TimeoutError(f"the exit status of {self.name} is unknown (waited {timeout} s)")

    def log_lines(self, words: Sequence[str], within_s: float) -> Sequence[str] | None:
        """Return the lines with one of ``words`` that it has written to its own log in the last
        ``within_s`` seconds, or None if no log file of it was found."""
        found: Sequence[str] | None = self._agent.ask(
            "log_lines",
            timeout=_LOGS_WITHIN_S,
            pid=self.pid,
            words=list(words),
            within_s=within_s,
        )
        return found

    def _seen(self) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = self._agent.ask(
                "see_server", pid=self.pid, start=self._start
            )
        except NodeGone:
            return {"state": ProcessState.EXITED, "scheduled": None}
        return found


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
