"""The links between nodes, whatever kind they are: treated and measured by the nodes' agents."""

import itertools

from ackproof.infra.agent_client import AgentClient
from ackproof.infra.impairments import Counted, Impairment
from ackproof.infra.interface import Node
from ackproof.infra.nodes import Nodes

_SLACK_S = 15.0
_CONNECTS_WITHIN_S = 5.0
_HOLDS_WITHIN_S = 1.0
_QUEUED = ("narrow", "slow")


class AgentLinks:
    """Implements ``infra.impairments.Links``."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._numbers = itertools.count()

    def impair(self, source: Node, target: Node, impairment: Impairment) -> None:
        self._ask("impair", source, target, impairment)

    def mend(self, source: Node, target: Node, impairment: Impairment) -> None:
        self._ask("mend", source, target, impairment)

    def counted(self, source: Node, target: Node, impairment: Impairment) -> Counted:
        return Counted(**self._ask("packets", source, target, impairment))

    def tries(self, source: Node, target: Node, port: int, count: int, within: float) -> int:
        succeeded: int = self._agent(source).ask(
            "tries",
            timeout=count * within + _SLACK_S,
            address=target.address,
            port=port,
            count=count,
            within=within,
        )
        return succeeded

    def connecting_ms(self, source: Node, target: Node, port: int, count: int) -> list[float]:
        taken: list[float] = self._agent(source).ask(
            "connecting_ms",
            timeout=count * _CONNECTS_WITHIN_S + _SLACK_S,
            address=target.address,
            port=port,
            count=count,
            within=_CONNECTS_WITHIN_S,
        )
        return taken

    def hold(self, name: str, source: Node, target: Node, port: int) -> bool:
        opened: bool = self._agent(source).ask(
            "hold", name=name, address=target.address, port=port, within=_HOLDS_WITHIN_S
        )
        return opened

    def held(self, name: str, source: Node) -> str:
        state: str = self._agent(source).ask("held", name=name)
        return state

    def let_go(self, name: str, source: Node) -> None:
        self._agent(source).ask("let_go", name=name)

    def throughput_kbit(self, source: Node, target: Node, lasting: float) -> float:
        name = f"throughput-{next(self._numbers)}"
        sink = self._agent(target)
        port = sink.ask("sink", name=name, address=target.address)
        try:
            self._agent(source).ask(
                "pour",
                timeout=2 * lasting + _CONNECTS_WITHIN_S + _SLACK_S,
                address=target.address,
                port=port,
                seconds=lasting,
                within=_CONNECTS_WITHIN_S,
            )
        finally:
            taken, seconds = sink.ask("poured", name=name)
        return float(taken * 8 / 1000 / seconds) if seconds else 0.0

    def _agent(self, node: Node) -> AgentClient:
        return self._nodes.ours(node).agent

    def _ask(self, verb: str, source: Node, target: Node, impairment: Impairment) -> dict[str, int]:
        """Of who has to do with it: what is lost is lost where it comes in, and what waits does so
        where it goes out."""
        near, far = (source, target) if impairment.kind in _QUEUED else (target, source)
        answer: dict[str, int] = self._agent(near).ask(
            verb,
            addresses=list(self._nodes.ours(far).addresses),
            kind=impairment.kind,
            amount=impairment.amount,
            ports=list(impairment.ports),
        )
        return answer
