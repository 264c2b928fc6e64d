"""Making a local node: a directory, a network namespace, and the agent in it."""

from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from infra import agent_process
from infra.agent.cgroups import RUN
from infra.copying import SeenThere
from infra.local.namespace import NetworkNamespace
from infra.local.network import Router
from infra.node import AgentNode, Made
from infra.software import of_this_machine

_INHERITED = (*agent_process.INHERITED, RUN)


def make_node(name: str, directory: Path, namespace: NetworkNamespace, router: Router) -> AgentNode:
    """The node in ``namespace``, linked to ``router``, its files in ``directory``. Raises
    InfraError when there is no address left for it."""
    (directory / "logs").mkdir(parents=True)
    with ExitStack() as made:
        agent = agent_process.start(name, directory, inherited=_INHERITED, within=namespace.call)
        made.callback(agent.end)
        address = router.attach(namespace)  # while the agent starts
        return AgentNode(
            Made(
                name=name,
                addresses=[address],
                directory=PurePosixPath(directory),
                agent=agent.client(),
                software=of_this_machine,
                shares=SeenThere(name, Path("/")),
                jars=None,
                remove=made.pop_all().close,
            )
        )
