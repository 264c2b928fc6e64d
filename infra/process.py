"""A process on a node, known to the node's agent by a number."""

from ackproof.infra.agent_client import AgentClient
from ackproof.infra.interface import ProcessState
from ackproof.infra.waiting import wait_until

_FOREVER_S = float("inf")
_LOOK_EVERY_S = 0.05


class AgentProcess:
    """Implements ``infra.interface.Process``. Every method may raise InfraError when the agent does
    not answer."""

    def __init__(self, name: str, pid: int, number: int, agent: AgentClient) -> None:
        self.name = name
        self.pid = pid
        self.number = number
        self._agent = agent
        self._exit_code: int | None = None
        self._signals: set[int] = set()

    @property
    def signals(self) -> frozenset[int]:
        return frozenset(self._signals)

    def state(self) -> ProcessState:
        if self._exit_code is not None:
            return ProcessState.EXITED
        answer = self._agent.ask("state", number=self.number)
        self._exit_code = answer["exit_code"]
        return ProcessState(answer["state"])

    def exit_code(self) -> int | None:
        self.state()
        return self._exit_code

    def signal(self, signal_number: int) -> None:
        if self._exit_code is not None:
            raise ProcessLookupError(f"{self.name} (process {self.pid}) has exited")
        self._signals.add(int(signal_number))  # before: sent it may be though the answer is lost
        self._agent.ask("signal", number=self.number, signal_number=int(signal_number))

    def wait(self, timeout: float | None = None) -> int:
        what = f"the end of {self.name} (process {self.pid})"
        limit = _FOREVER_S if timeout is None else timeout
        wait_until(lambda: self.exit_code() is not None, limit, what, _LOOK_EVERY_S)
        assert self._exit_code is not None
        return self._exit_code

    def ended(self, exit_code: int) -> None:
        """Its node was closed, and it ended so: nobody can be asked any more."""
        self._exit_code = exit_code
