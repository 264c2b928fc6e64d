"""The backends that a campaign can name, and how its system is configured on one.

The parts of a backend are imported only when one is opened. The libraries of Docker, SSH and
netlink take a third of a second to import, and a command needs at most one of them.
"""

import hashlib
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from ackproof.harness.campaign.model.clusters import ClusterSpec, ClusterSweep
from ackproof.harness.campaign.model.external import described
from ackproof.harness.interruption import SIGNALS
from ackproof.history.cell import LIBRDKAFKA, as_text
from ackproof.infra import run_control, systems
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.capabilities import DiskPlan
from ackproof.infra.api.interface import Backend, Capability, System
from ackproof.infra.backends.docker import engine
from ackproof.infra.backends.kubernetes import cluster as kubernetes_cluster
from ackproof.infra.backends.kubernetes import manifests as kubernetes_manifests
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod
from ackproof.infra.backends.local import enter as local_enter
from ackproof.infra.backends.localhost import CAPABILITIES, LocalhostBackend
from ackproof.infra.backends.ssh import inventory, libraries
from ackproof.infra.backends.ssh.inventory import BrokerHost, Inventory
from ackproof.infra.clients import programs as client_programs
from ackproof.infra.machine.registry import EntryKind
from ackproof.infra.node.capability_probes import TRIALS
from ackproof.infra.node.nodes import Obstacles, capabilities, lacking, limits
from ackproof.infra.systems import make_system, product
from ackproof.infra.systems.external.description import server_name
from ackproof.infra.systems.external.journal import FILE, Journal

if TYPE_CHECKING:
    from ackproof.infra.backends.kubernetes.pod_links import PodLinks

LOCAL, DOCKER, SSH, HERE = "local", "docker", "ssh", LocalhostBackend.name
KUBERNETES = "kubernetes"

CLIENT_NODE = "client-1"
"""The first client node, where the final read also runs."""


def client_nodes(cluster: ClusterSpec) -> tuple[str, ...]:
    """Return the nodes where clients run."""
    return tuple(f"client-{number}" for number in range(1, cluster.clients + 1))


_BY_NFT = (Capability.CUT_LINKS, Capability.LOSSY_LINKS, Capability.RESET_LINKS)
_BY_TC = (Capability.NARROW_LINKS, Capability.SLOW_LINKS)
_DISKS = (Capability.LOSE_UNSYNCED_WRITES, Capability.FILL_DISKS)
_LIMITS = (Capability.LIMIT_CPU, Capability.LIMIT_MEMORY)
_ON_MACHINES = {
    **dict.fromkeys(_BY_NFT, "nft works"),
    **dict.fromkeys(_BY_TC, "nft and tc work"),
    **dict.fromkeys(_LIMITS, "control groups are available, and Ackproof runs as root"),
    **dict.fromkeys(_DISKS, "ext4 can be mounted from a file, and Ackproof runs as root"),
    Capability.SLOW_DISKS: "the kernel throttles block devices, and Ackproof runs as root",
    Capability.FAKE_CLOCKS: "libfaketime is installed",
}
_ON_HOSTS = {
    **_ON_MACHINES,
    Capability.FURTHER_NODES: "the inventory has spare hosts, one for each",
}
_IN_CONTAINERS = {
    **dict.fromkeys((*_BY_NFT, *_BY_TC), "the kernel supports it"),
    **dict.fromkeys(_LIMITS, "the engine's kernel supports it"),
    **dict.fromkeys(_DISKS, "ext4 can be mounted from a file, and Ackproof runs as root"),
}
_NEVER_IN_CONTAINERS = {Capability.SLOW_DISKS: "/sys is read-only there"}
_IN_PODS = {
    **dict.fromkeys(
        (*_BY_NFT, *_BY_TC),
        "the cluster admits pods with NET_ADMIN, and the kernels of its nodes support it",
    ),
    **dict.fromkeys(_DISKS, "the cluster admits privileged pods, which can mount ext4 from a file"),
}
_OF_OPERATORS = {
    Capability.MOVE_PODS: "it is for your own cluster in pods (cluster.external.kubernetes)"
}
_NEVER_HERE = dict.fromkeys(
    set(Capability) - CAPABILITIES, "on an external cluster, Ackproof controls processes only"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendKind:
    """A kind of backend, before one is opened.

    Attributes:
        capabilities: Returns the capabilities at a ``BackendContext``. This may take a while.
        obstacle: Returns the reason why it does not work on this machine and the remedy; None if it
            works.
        open: Opens a backend. Nodes may keep their files below ``scratch``. Files below ``results``
            can be shared with them.
        enter: Replaces the calling process by one that runs a command where the backend works, as a
            run that the registry knows (see ``infra.backends.local.enter.enter``).
        never: The capabilities that no such backend has, on any machine, with the reasons.
        where: The other capabilities that depend on the machine, with the conditions.
    """

    capabilities: Callable[["BackendContext"], frozenset[Capability]]
    obstacle: Callable[[], str | None]
    open: "BackendOpener"
    enter: Callable[..., NoReturn]
    never: Mapping[Capability, str] = field(default_factory=dict)
    where: Mapping[Capability, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendContext:
    """The facts that backends need of a campaign before they open.

    Attributes:
        cluster: The cluster to deploy.
        needs: The capabilities that the campaign needs. A capability that takes long to probe is
            probed only if it is needed.
        joining: The largest number of brokers that one fault adds during the run.
        clients: The values of ``client`` among the cells, each once.
        tell: Receives lines about steps that take long.
        accepted_host_keys: Fingerprints of hosts that may be met for the first time.
    """

    cluster: ClusterSpec
    tell: Callable[[str], None]
    needs: frozenset[Capability] = frozenset()
    joining: int = 0
    clients: Collection[str] = ()
    accepted_host_keys: frozenset[str] = frozenset()

    @property
    def nodes(self) -> Sequence[str]:
        """Return the names of all nodes."""
        if product.is_external(self.cluster.system):
            return client_nodes(self.cluster)
        return [*self.cluster.servers, *client_nodes(self.cluster)]

    @property
    def further(self) -> Sequence[str]:
        """Return the names of the first nodes that may be added later."""
        brokers = self.cluster.brokers
        return [f"broker-{n}" for n in range(brokers + 1, brokers + self.joining + 1)]

    @property
    def artifacts(self) -> Sequence[Artifact]:
        """Return the files that nodes need for the system and its clients, and lack. Raises
        InfraError."""
        programs = [
            client_programs.artifact(client) for client in self.clients if client != LIBRDKAFKA
        ]
        return [*systems.artifacts(self.cluster.system), *filter(None, programs)]

    @property
    def inventory(self) -> Inventory:
        """Return the hosts, after a check that there are enough for the nodes. Raises
        DocumentRefused."""
        path = Path(self.cluster.inventory or "")
        found = inventory.load(path)
        inventory.check_places(self.nodes, found, path)
        return found


class BackendOpener(Protocol):
    """The function that opens a backend; see ``BackendKind.open``."""

    def __call__(self, site: BackendContext, scratch: Path, results: Path) -> Backend: ...


def _local(site: BackendContext, scratch: Path, results: Path) -> Backend:  # noqa: ARG001
    from ackproof.infra.backends.local.backend import LocalBackend

    return LocalBackend(scratch, site.nodes, clocks=site.cluster.clocks)


def _docker(site: BackendContext, scratch: Path, results: Path) -> Backend:  # noqa: ARG001
    from ackproof.infra.backends.docker.backend import DockerBackend

    disks = site.cluster.disks is not None
    return DockerBackend(results, site.tell, site.nodes, disks=disks, artifacts=site.artifacts)


def _ssh(site: BackendContext, scratch: Path, results: Path) -> Backend:  # noqa: ARG001
    from ackproof.infra.backends.ssh.backend import SshBackend

    return SshBackend(site.inventory, site.nodes, report=site.tell, artifacts=site.artifacts)


def _kubernetes(site: BackendContext, scratch: Path, results: Path) -> Backend:  # noqa: ARG001
    from ackproof.infra.backends.kubernetes.backend import KubernetesBackend

    disks = site.cluster.disks is not None
    return KubernetesBackend(site.tell, site.nodes, disks=disks, artifacts=site.artifacts)


def run_name(results: Path) -> str:
    """Return the name by which the run with these results claims hosts, the same in any process."""
    return hashlib.sha256(str(results.absolute()).encode()).hexdigest()[:16]


def _hosts_of_brokers(cluster: ClusterSpec) -> Mapping[str, BrokerHost | BrokerPod]:
    """Return the hosts or pods of an external cluster's brokers beside which the agent is put."""
    external = cluster.external
    return {} if external is None else described(external, cluster.brokers).hosts


def _here(site: BackendContext, scratch: Path, results: Path) -> Backend:
    if not (hosts := _hosts_of_brokers(site.cluster)):
        return LocalhostBackend(scratch, pod_links=_pod_links(site, results))
    from ackproof.infra.backends.attachment import Attachments

    return LocalhostBackend(scratch, Attachments(hosts, run_name(results)))


def _pods_of_brokers(cluster: ClusterSpec) -> Mapping[str, BrokerPod]:
    """Return the pods of an external cluster's brokers without agents, by the broker's name."""
    if cluster.external is None or cluster.external.agent:
        return {}
    handles = described(cluster.external, cluster.brokers).handles
    return {server_name(n): one.pod for n, one in handles.items() if one.pod is not None}


def _pod_links(site: BackendContext, results: Path) -> "PodLinks | None":
    """Return the links between brokers in pods without agents; None without such brokers."""
    if not (pods := _pods_of_brokers(site.cluster)):
        return None
    from ackproof.infra.backends.kubernetes.pod_links import PodLinks

    run, journal = run_name(results), Journal(results / FILE)
    return PodLinks(pods, run, lambda: journal.policies(run))


def _by_api(site: BackendContext) -> frozenset[Capability]:
    """Return the capabilities for brokers in pods without agents. Whether links can be cut is tried
    if a fault needs it."""
    able = CAPABILITIES | OF_PODS
    pods = _pods_of_brokers(site.cluster)
    if not pods or Capability.CUT_LINKS not in site.needs:
        return able
    from ackproof.infra.backends.kubernetes import network_policies

    all_pods = next(iter(pods.values())).pods
    obstacles = list(network_policies.survey(all_pods, [one.broker for one in pods.values()]))
    for line in dict.fromkeys(obstacles):
        site.tell(f"no {Capability.CUT_LINKS}: {line}")
    return able if obstacles else able | {Capability.CUT_LINKS}


def _beside_brokers(site: BackendContext) -> frozenset[Capability]:
    from ackproof.infra.backends.attachment import survey

    return survey(_hosts_of_brokers(site.cluster), site.tell)


def _on_this_machine(site: BackendContext) -> frozenset[Capability]:
    return capabilities(
        [_reported_obstacles(site)],
        [limits(local_enter.unlimited, site.tell)],
        _tried_on_this_machine(site, TRIALS),
    )


def _in_containers(site: BackendContext) -> frozenset[Capability]:
    """Return the capabilities of containers.

    The kernel is this machine's, and the programs are in the image. If this machine lacks nft or
    tc, the kernel cannot be probed for links, and is assumed to support them.
    """
    asked = all(map(shutil.which, ("nft", "tc")))
    known: dict[Capability, Sequence[str | None]] = {
        **{one: [why] for one, why in _NEVER_IN_CONTAINERS.items()},
        Capability.FAKE_CLOCKS: [None],  # libfaketime is in the image
    }
    tried = _tried_on_this_machine(site, TRIALS.keys() - known) | known
    return capabilities([_reported_obstacles(site)] if asked else [], [engine.limits()], tried)


def _reported_obstacles(site: BackendContext) -> Obstacles:
    obstacles = local_enter.obstacles()
    for line in lacking(obstacles):
        site.tell(line)
    return obstacles


def _tried_on_this_machine(
    site: BackendContext, which: Collection[Capability]
) -> dict[Capability, Sequence[str | None]]:
    """Return the obstacles to each of the capabilities ``which``, probing those that are needed."""
    tried: Obstacles = {one: local_enter.undoable(one) for one in which if one in site.needs}
    for line in lacking(tried):
        site.tell(line)
    return {one: [tried.get(one, "no fault needs it")] for one in which}


def _survey(site: BackendContext) -> frozenset[Capability]:
    from ackproof.infra.backends.ssh import hosts

    tried = {one: verb for one, verb in TRIALS.items() if one in site.needs}
    return hosts.survey(
        site.inventory,
        site.nodes,
        site.accepted_host_keys,
        site.tell,
        tried,
        site.further,
        site.artifacts,
    )


def _in_pods(site: BackendContext) -> frozenset[Capability]:
    from ackproof.infra.backends.kubernetes.backend import survey

    disks = Capability.LOSE_UNSYNCED_WRITES in site.needs or site.cluster.disks is not None
    return survey(site.needs, site.tell, disks=disks)


BACKENDS: Mapping[str, BackendKind] = {
    LOCAL: BackendKind(
        capabilities=_on_this_machine,
        obstacle=local_enter.can_enter,
        open=_local,
        enter=local_enter.enter,
        never=_OF_OPERATORS,
        where=_ON_MACHINES,
    ),
    DOCKER: BackendKind(
        capabilities=_in_containers,
        obstacle=engine.unavailable,
        open=_docker,
        enter=run_control.enter_for_docker,
        never={**_NEVER_IN_CONTAINERS, **_OF_OPERATORS},
        where=_IN_CONTAINERS,
    ),
    SSH: BackendKind(
        capabilities=_survey,
        obstacle=libraries.unavailable,
        open=_ssh,
        enter=run_control.enter,
        never=_OF_OPERATORS,
        where=_ON_HOSTS,
    ),
    KUBERNETES: BackendKind(
        capabilities=_in_pods,
        obstacle=kubernetes_cluster.unavailable,
        open=_kubernetes,
        enter=run_control.enter_for_kubernetes,
        never={**kubernetes_manifests.NEVER, **_OF_OPERATORS},
        where=_IN_PODS,
    ),
    HERE: BackendKind(
        capabilities=lambda _site: CAPABILITIES,
        obstacle=run_control.external_obstacle,
        open=_here,
        enter=run_control.enter_for_external,
        never=_NEVER_HERE,
    ),
}


BESIDE_BROKERS = replace(
    BACKENDS[HERE],
    capabilities=_beside_brokers,
    never={
        Capability.LOSE_UNSYNCED_WRITES: "it needs disks that Ackproof makes",
        Capability.SLOW_DISKS: "it would slow down everything on the disk",
        Capability.FAKE_CLOCKS: "Ackproof does not start the brokers",
        Capability.FURTHER_NODES: "Ackproof does not deploy the brokers",
    },
    where={
        **dict.fromkeys(_BY_NFT, "the agent is beside the brokers, and nft works there"),
        Capability.CUT_LINKS: (
            "the agent is beside the brokers, and nft works there, or NetworkPolicies are enforced "
            "for their pods"
        ),
        **dict.fromkeys(_BY_TC, "the agent is beside the brokers, and nft and tc work there"),
        Capability.LIMIT_CPU: (
            "the agent is beside the brokers, each in a control group of its own, or pods' "
            "containers have CPU limits"
        ),
        Capability.LIMIT_MEMORY: (
            "the agent is beside the brokers, each in a control group of its own"
        ),
        Capability.FILL_DISKS: "the agent is beside the brokers",
    },
)
"""The place of an external cluster with agents beside its brokers: the backend here, and more."""


OF_PODS = frozenset({Capability.MOVE_PODS, Capability.LIMIT_CPU})
"""The capabilities by the API of Kubernetes, for brokers in pods. They need no agent."""

_WITH_PODS = replace(
    BACKENDS[HERE],
    capabilities=_by_api,
    never={
        one: why for one, why in _NEVER_HERE.items() if one not in {*OF_PODS, Capability.CUT_LINKS}
    },
)
"""The place of an external cluster in pods: the backend here, and the pods' nodes."""

_NEVER_IN_BROKERS_PODS = {
    **BESIDE_BROKERS.never,
    **kubernetes_manifests.NEVER,
    Capability.FILL_DISKS: "the disk may be that of the cluster's node",
}
BESIDE_BROKERS_IN_PODS = replace(
    BESIDE_BROKERS,
    capabilities=lambda site: _beside_brokers(site) | OF_PODS,
    never={one: why for one, why in _NEVER_IN_BROKERS_PODS.items() if one not in OF_PODS},
)


def place_of(cluster: ClusterSpec | ClusterSweep) -> BackendKind:
    """Return the backend on which a cluster runs."""
    if cluster.external is None:
        return BACKENDS[cluster.backend]
    in_pods = cluster.external.kubernetes is not None
    if not cluster.external.agent:
        return _WITH_PODS if in_pods else BACKENDS[cluster.backend]
    return BESIDE_BROKERS_IN_PODS if in_pods else BESIDE_BROKERS


def make(cluster: ClusterSpec, backend: Backend) -> System:
    """Return the system of ``cluster``, configured on ``backend`` and not deployed yet."""
    disks = cluster.disks
    return make_system(
        cluster.system,
        backend,
        brokers=cluster.brokers,
        zookeepers=cluster.zookeepers,
        properties={name: as_text(value) for name, value in cluster.properties.items()},
        metadata_quorum=cluster.metadata_quorum,
        disks=None if disks is None else DiskPlan(disks.per_broker, disks.megabytes),
        clocks=cluster.clocks,
        racks=cluster.racks,
        security=None if cluster.security is None else cluster.security.requested,
    )


def require_inventory(cluster: ClusterSpec) -> None:
    """Raise DocumentRefused if the backend takes an inventory, and that of ``cluster`` is missing,
    invalid, or has too few hosts. No host is contacted."""
    if cluster.backend == SSH:
        _ = BackendContext(cluster=cluster, tell=lambda _line: None).inventory


def go_inside(
    arguments: Sequence[str],
    run_id: str,
    *,
    kind: EntryKind,
    scratch: Path,
    results: Path | None,
    backend: str = LOCAL,
) -> NoReturn:
    """Replace this process by ``ackproof <arguments>`` where ``backend`` works. ``scratch`` is
    removed when it ends. Raises InfraError if the machine does not permit it."""
    # Python cannot handle a signal before it has loaded the program, which unblocks these signals.
    blocked = [f"--block-signal={number.name}" for number in SIGNALS]
    command = ["env", *blocked, sys.executable, "-P", "-m", "ackproof.harness", *arguments]
    BACKENDS[backend].enter(command, run_id, kind=kind, scratch=scratch, results=results)
