"""Giving a node's processes too little: by its agent, as a rule."""

from collections.abc import Mapping

from ackproof.infra.agent_client import AgentClient
from ackproof.infra.scarcity import Scarce

_US_PER_THOUSANDTH = 100
"""Of a core, in each tenth of a second."""


class AgentLimits:
    """Implements ``infra.scarcity.Scarcity``: control groups that the agent makes."""

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent

    def limit(self, what: Scarce, amount: int) -> None:
        own = amount * _US_PER_THOUSANDTH if what is Scarce.CPU else amount
        self._agent.ask("limit", what=what, amount=own)

    def lift(self, what: Scarce) -> None:
        self._agent.ask("lift", what=what)

    def counted(self, what: Scarce) -> Mapping[str, int]:
        found: dict[str, int] = self._agent.ask("counted", what=what)
        return found
