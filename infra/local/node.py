"""Making a local node: a network namespace, and the agent in it."""

from contextlib import ExitStack
from pathlib import Path

from ackproof.infra import agent_process
from ackproof.infra.agent.cgroups import RUN
from ackproof.infra.local.namespace import NetworkNamespace
from ackproof.infra.local.network import Router
from ackproof.infra.node import AgentNode
from ackproof.infra.this_machine import node_of

_INHERITED = (*agent_process.INHERITED, RUN)


def make_node(name: str, directory: Path, namespace: NetworkNamespace, router: Router) -> AgentNode:
    """The node in ``namespace``, linked to ``router``, its files in ``directory``. Raises
    InfraError when there is no address left for it."""
    with ExitStack() as made:
        agent = agent_process.start(name, directory, inherited=_INHERITED, within=namespace.call)
        made.callback(agent.end)
        address = router.attach(namespace)  # while the agent starts
        return node_of(agent, address, directory, made.pop_all().close)
