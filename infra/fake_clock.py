"""The fake clock of a node, as the harness sees it. What it is is :mod:`infra.agent.clocks`."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from ackproof.infra.agent_client import AgentClient
from ackproof.infra.clocks import Question, Told

_WITHIN_S = 30.0


class AgentClock:
    """Implements ``infra.clocks.FakeClock``, with its files in ``directory`` on the node."""

    def __init__(self, agent: AgentClient, directory: PurePosixPath) -> None:
        self._agent = agent
        self._directory = str(directory)
        self.under: Sequence[str] = self._ask("make_clock", directory=self._directory)

    def started(self, pid: int) -> None:
        self._ask("forget_shared", pid=pid)

    def run(self, offset_ms: int, rate: float) -> None:
        self._ask("run_clock", directory=self._directory, offset_ms=offset_ms, rate=rate)

    def told(self, question: Question) -> Told:
        answer: dict[str, float] = self._ask(
            "told_time",
            address=question.address,
            port=question.port,
            say=question.say.hex(),
            line=question.line,
            log=str(question.log),
        )
        return Told(**answer)

    def _ask(self, verb: str, **arguments: object) -> Any:
        return self._agent.ask(verb, timeout=_WITHIN_S, **arguments)
