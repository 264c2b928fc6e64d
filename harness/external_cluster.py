"""Runs on an external cluster: their connection, and the confirmation before the first one."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeVar

from confluent_kafka.admin import AclOperation

from ackproof.config.documents import Problem
from ackproof.config.sensitive import shown
from ackproof.harness.campaign.backends import run_name
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.harness.campaign.model.external import described
from ackproof.harness.campaign.model.schedule import FaultEntry
from ackproof.harness.campaign.plan.context import CampaignTimings
from ackproof.harness.campaign.plan.faults import parameters_of
from ackproof.harness.campaign.plan.needs import faults_of
from ackproof.harness.campaign.plan.runs import RunPlan
from ackproof.harness.campaign.problems.external import ENDING, FROM_ALL, IN_FORCE
from ackproof.harness.exit_status import ConfirmationNeeded
from ackproof.infra.api.interface import (
    Backend,
    Capability,
    InfraError,
    ViewUnavailable,
    ViewUnsupported,
)
from ackproof.infra.backends.kubernetes import broker_pods, cpu_limits, network_policies
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod
from ackproof.infra.backends.ssh.inventory import DIRECTORY, BrokerHost
from ackproof.infra.machine.secrets import Handed
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.nodes import OF_LINKS
from ackproof.infra.systems import prepare
from ackproof.infra.systems.external.description import (
    Connection,
    DescribedCluster,
    DescribedControllers,
    by_agent,
)
from ackproof.infra.systems.external.journal import FILE
from ackproof.infra.systems.external.probes import (
    CLEANUP,
    Resource,
    Right,
    SurveyedCluster,
    granted,
    pod_storage,
    survey,
)
from ackproof.infra.systems.external.reachability import why_silent, why_unreadable
from ackproof.infra.systems.external.system import ExternalSystem, metadata_of
from ackproof.infra.systems.kafka.releases import NEWEST_RECORDS, numbers_of
from ackproof.infra.systems.product import KAFKA
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Aim, Fault, Parameters
from ackproof.nemesis.process.pods import DRAIN, ON_KUBERNETES, OPERATOR_ROLL, Drained
from ackproof.nemesis.process.servers import PAUSE
from ackproof.nemesis.process.starvation import STARVE_CPU, TooLittleCpu
from ackproof.workloads.topics import TopicsRefused, create_topics

P = TypeVar("P", bound=Parameters)

KEPT: Mapping[str, str] = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""Properties of the run's topics. Records that the brokers' own settings deleted would be reported
as lost."""
_METADATA_WITHIN_S = 30.0
_EVERY_S = 0.5
_CONNECTION = "cluster.external.client"
_RELEASE = "cluster.external.controllers.release"
_KNOWN_RECORDS = numbers_of(NEWEST_RECORDS)
_STATE = "XDG_STATE_HOME"
_MOVING = frozenset(fault.name for fault in ON_KUBERNETES)
_SLOWING = frozenset({STARVE_CPU.name, PAUSE.name})
"""The faults by which a broker does not answer probes, and does not end."""
_SESSIONS = ("broker.session.timeout.ms", "zookeeper.session.timeout.ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalClusterParts:
    """The parts of a run on an external cluster. ``connection`` holds librdkafka's properties as
    clients receive them. ``secrets`` are the values that no log may show."""

    system: ExternalSystem
    connection: Mapping[str, Handed]
    secrets: frozenset[str]


def outside(cluster: ClusterSpec) -> DescribedCluster:
    """Return the external cluster of a campaign. Raises LookupError if it has none."""
    if cluster.external is None:
        raise LookupError("the campaign is not for an external cluster")
    return described(cluster.external, cluster.brokers)


def made(plan: RunPlan, directory: Path, backend: Backend) -> ExternalClusterParts:
    """Return the parts of a run whose results are in ``directory``. Raises InfraError if a secret
    is missing."""
    described = outside(plan.cluster)
    timings = CampaignTimings(plan.cluster)
    cells = [planned.cell for planned in plan.cells]
    system = ExternalSystem(
        described,
        described.connection(),
        topics=[cell.topic for cell in cells],
        groups=[group.name for planned in plan.cells for group in planned.groups],
        transactional=any(planned.transactional for planned in plan.cells),
        journal=directory / FILE,
        session_timeout_ms=timings.zookeeper_session_timeout_ms,
        replica_lag_ms=timings.replica_lag_time_max_ms,
        backend=backend,
        run=run_name(directory),
    )
    return ExternalClusterParts(
        system=system, connection=described.handed(), secrets=described.all_secrets
    )


def doings(cluster: ClusterSpec) -> Iterator[str]:
    """Yield everything that a run may do to the cluster, one line each: every host and command. The
    injected faults are in the timeline."""
    described = outside(cluster)
    yield f"connects to {described.bootstrap_servers}, deploys nothing"
    yield from _connecting(described)
    if described.controllers is not None:
        voters = described.controllers.voters.values()
        yield f"reads the metadata log from {', '.join(f'{host}:{port}' for host, port in voters)}"
        yield from _connecting(described.controllers)
    for number, handle in sorted(described.handles.items()):
        name = described.name_of(number)
        for action in sorted(handle.actions):
            yield f"{name}, to {action}: {handle.words(action)}"
        for action in sorted(by_agent(handle)) if described.has_agent(number) else ():
            yield f"{name}, to {action}: a signal by the agent"
    yield from _by_kubernetes(described)
    for name, host in sorted(described.hosts.items()):
        if isinstance(host, BrokerPod):
            yield (
                f"{name}, in its pod: an ephemeral container of {host.pods.image} with the agent, "
                "as root with NET_ADMIN and SYS_PTRACE, which ends with the run; its entry stays"
            )
            continue
        login = host.login
        yield (
            f"{name}, beside its process on {login.user}@{login}: the agent in {DIRECTORY}, as "
            "root, removed at the end"
        )
    if any(isinstance(host, BrokerHost) for host in described.hosts.values()):
        yield (
            "agents do only what the faults of the timeline need: drop or delay packets by nft and "
            "tc, limit the brokers' control groups, fill the disks of their logs"
        )
    elif described.hosts:
        yield (
            "agents do only what the faults of the timeline need: drop or delay packets by nft and "
            "tc"
        )
    if not described.handles:
        yield "controls no broker"


def _by_kubernetes(described: DescribedCluster) -> Iterator[str]:
    """Yield what may be done to brokers' pods besides stopping them, one line each."""
    pods = next((one.pod.pods for one in described.handles.values() if one.pod), None)
    if pods is None:
        return
    yield f"brokers, to limit their CPU: {pods}: resize their containers"
    if not described.agent:
        yield (
            f"brokers, to cut links between them: {pods}: NetworkPolicies with the label "
            f"{network_policies.RUN}. Before, one for a moment forbids a port that nothing uses"
        )


def _connecting(connection: Connection) -> Iterator[str]:
    if connection.client:
        given = (
            f"{name}={shown(name, value)}" for name, value in sorted(connection.client.items())
        )
        yield f"with {', '.join(given)}"
    for name, secret in connection.secrets.items():
        where = f"the file {secret.file}" if secret.env is None else f"${secret.env}"
        yield f"reads {name} from {where}"


_RUN_ALONE = "harm to topics, groups and clients of the run alone"
_OF_ROLL = (
    "all that these brokers lead, replicate or coordinate waits or moves while the operator "
    "replaces their pods, by the annotation strimzi.io/manual-rolling-update"
)
_HARMS: Sequence[tuple[Set[Capability], str]] = (
    (
        {Capability.MOVE_PODS},
        "all that the brokers on these nodes of Kubernetes lead, replicate or coordinate waits or "
        "moves; a drained node takes no new pods of anyone until the end",
    ),
    (
        {Capability.FILL_DISKS},
        "the volume of the log directories is full for all writers",
    ),
    ({Capability.LIMIT_CPU}, "these brokers are slower for all their clients"),
    (
        {Capability.LIMIT_MEMORY},
        "these brokers may be killed by the kernel, with all that they lead",
    ),
    (set(OF_LINKS), "packets between these hosts are lost or late, whatever they are for"),
    (
        {Capability.SIGNALS},
        "all that these servers lead, replicate, coordinate or control waits or moves, such as "
        "other topics, groups and transactions",
    ),
)
"""The harm of faults on servers to other users of the cluster, by the first capability that they
need."""
_UNKNOWN_HARM = "what it does is not known to Ackproof"


def harms(plans: Iterable[RunPlan]) -> Iterator[str]:
    """Yield what the planned faults harm of the cluster, one line for each kind of harm."""
    found: dict[str, dict[str, None]] = {}
    for fault in (fault for plan in plans for fault in plan.faults):
        named = f"{fault.fault} of {fault.target}"
        found.setdefault(_harm(FAULTS[fault.fault]), {})[named] = None
    for words, faults in found.items():
        yield f"{', '.join(faults)}: {words}"


def _harm(fault: Fault) -> str:
    if not fault.aim.affects_servers or fault.aim is Aim.CLIENTS:
        return _RUN_ALONE
    by_needs = (words for needs, words in _HARMS if needs & fault.needs)
    words = _OF_ROLL if fault.aim is Aim.PODS else next(by_needs, _UNKNOWN_HARM)
    return f"harm to others, too: {words}"


def topics(campaign: Campaign, plan: RunPlan) -> str:
    """Return the topics and groups that the run creates, and deletes at the end."""
    names = ", ".join(planned.cell.topic for planned in plan.cells)
    line = f"creates, and deletes at the end: {names}; for faults, {campaign.cells.prefix}own-..."
    groups = [group.name for planned in plan.cells for group in planned.groups]
    return f"{line}; the groups {', '.join(groups)}" if groups else line


def ask(
    campaign: Campaign,
    cluster: ClusterSpec,
    confirm: Callable[[str], bool],
    tell: Callable[[str], None],
    *,
    yes: bool,
    joins_within_s: float = 0.0,
) -> Iterator[Problem]:
    """Ask before the first run on the cluster, survey it, and yield each difference from the
    campaign. ``tell`` gets a line about the cluster, and one for each step that takes long. Raises
    InfraError if it does not answer or a secret is missing, and Unconfirmed if the user does not
    agree.

    The question comes before any connection. A campaign file may come from anyone. It names the
    files with passwords, and the servers that receive them. ``joins_within_s``: brokers that were
    started just now may take so many seconds to join the cluster.
    """
    described = outside(cluster)
    noted = _noted(described)
    known = noted.read_text(encoding="utf-8") if noted.exists() else None

    def meant(question: str) -> None:
        if not yes and not confirm(question):
            raise ConfirmationNeeded(f"{question}; to confirm: --yes")

    if known is None:
        servers = described.bootstrap_servers
        meant(f"this is the first run on the cluster at {servers} from this machine")
    try:
        found = _surveyed(described, joins_within_s)
    except ViewUnavailable as silence:
        connection = {**described.connection(), "bootstrap.servers": described.bootstrap_servers}
        why = why_silent(connection, silence)
        raise InfraError(f"{described.bootstrap_servers} cannot be used: {why}") from silence
    if known not in (None, found.cluster_id):
        # The same address may lead to another cluster on another day or in another network.
        there = f"at {described.bootstrap_servers} there is now another cluster, {found.cluster_id}"
        meant(f"{there}: this is the first run on it")
    for directory in reversed((noted.parent, *noted.parent.parents)):
        directory.mkdir(mode=0o700, exist_ok=True)  # as the XDG specification wants it
    noted.write_text(found.cluster_id, encoding="utf-8")
    releases = _releases(described, found.brokers)
    tell(f"connected to {found}{f'; Kafka {releases}' if releases else ''}")
    if described.controllers is not None:
        _read_metadata(described, described.controllers, found.cluster_id, tell)
    yield from _differences(cluster, described, found)
    yield from _pods(campaign, cluster, described)
    for warning in _warnings(campaign, cluster, described):
        tell(f"warning: {warning}")
    yield from _compacting(campaign, found)
    if not described.controllers_have_agents:
        yield from _still_connected(campaign, found)


def refused_topics(plan: RunPlan) -> Iterator[Problem]:
    """Yield why the cluster would not create the run's topics. It is asked, and creates none.
    Raises InfraError if a secret is missing."""
    described = outside(plan.cluster)
    cells = [planned.cell for planned in plan.cells]
    servers, connection = described.bootstrap_servers, described.connection()
    try:
        create_topics(servers, cells, _METADATA_WITHIN_S, connection, KEPT, tried=True)
    except TopicsRefused as refused:
        for topic, why in refused.reasons.items():
            reason = f"the cluster would not create the topic {topic}: {why}"
            yield Problem(field="cells", reason=reason)


_CONSUMER_OFFSETS, _TRANSACTION_STATE = "__consumer_offsets", "__transaction_state"
_OF_CLUSTER: Mapping[str, Sequence[AclOperation]] = {
    "reassign": (AclOperation.ALTER,),
    "elect-preferred": (AclOperation.ALTER,),
    "elect-unclean": (AclOperation.ALTER,),
}
_OF_TOPICS: Mapping[str, Sequence[AclOperation]] = {
    "alter-min-isr": (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    "add-partitions": (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER),
    "advance-log-start": (AclOperation.DELETE,),
}
"""The operations of faults on the cluster, and on the topics of the cells."""
_OF_OWN_TOPICS: Mapping[str, Sequence[AclOperation]] = {
    "create-topic": (),
    "grow-topic": (AclOperation.ALTER,),
    "delete-topic": (),
    "delete-records": (AclOperation.WRITE,),
}
"""The operations of faults on topics of their own, beside those to create and delete them."""
FAULTS_WITH_RIGHTS = {*_OF_CLUSTER, *_OF_TOPICS, *_OF_OWN_TOPICS}
"""The faults for which the user needs rights."""


def needed_rights(campaign: Campaign, plan: RunPlan) -> Mapping[Right, str]:
    """Return every right that a run needs, with what needs it first. The metadata log has been read
    before, and the creation of the cells' topics is asked for by itself."""
    found: dict[Right, str] = {}
    for by, resource, names, operations in (
        *_by_workload(campaign, plan),
        *_by_faults(campaign, plan),
    ):
        for name, operation in product(names, operations):
            found.setdefault(Right(resource=resource, name=name, operation=operation), by)
    return found


Needs = Iterator[tuple[str, Resource, Sequence[str], Sequence[AclOperation]]]
"""Entries of a table of rights: who needs them, the kind and names of the resources, and the
operations."""


def _by_workload(campaign: Campaign, plan: RunPlan) -> Needs:
    describe = (AclOperation.DESCRIBE,)
    used = (AclOperation.READ, AclOperation.DELETE)
    topics = [planned.cell.topic for planned in plan.cells]
    groups = [group.name for planned in plan.cells for group in planned.groups]
    transactional = campaign.workload.is_transactional
    yield "every run", Resource.CLUSTER, [""], (*describe, AclOperation.DESCRIBE_CONFIGS)
    yield "every run", Resource.TOPIC, topics, (*describe, AclOperation.WRITE, *used)
    yield "groups", Resource.GROUP, groups, (*describe, *used)
    if groups or transactional:
        yield "groups", Resource.TOPIC, [_CONSUMER_OFFSETS], describe
    if transactional:
        ids = [campaign.cells.prefix]
        yield "transactions", Resource.TOPIC, [_TRANSACTION_STATE], describe
        yield "transactions", Resource.TRANSACTIONAL_ID, ids, (*describe, AclOperation.WRITE)


def _by_faults(campaign: Campaign, plan: RunPlan) -> Needs:
    topics = [planned.cell.topic for planned in plan.cells]
    made = (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.DELETE)
    for fault in dict.fromkeys(name for entry in campaign.faults for name in faults_of(entry)):
        yield fault, Resource.CLUSTER, [""], _OF_CLUSTER.get(fault, ())
        yield fault, Resource.TOPIC, topics, _OF_TOPICS.get(fault, ())
        if fault in _OF_OWN_TOPICS:
            own = [f"{campaign.cells.prefix}own-"]
            yield fault, Resource.TOPIC, own, (*made, *_OF_OWN_TOPICS[fault])


def lacking_rights(
    campaign: Campaign, plan: RunPlan, tell: Callable[[str], None]
) -> Iterator[Problem]:
    """Yield each right that a run needs and the user lacks, by the cluster's answers, which change
    nothing. ``tell`` gets the rights that cannot be asked so. Raises InfraError if a secret is
    missing."""
    described = outside(plan.cluster)
    connection = {**described.connection(), "bootstrap.servers": described.bootstrap_servers}
    needed = needed_rights(campaign, plan)
    answers = granted(connection, needed.keys())
    for right, by in needed.items():
        if not answers.get(right, True):
            yield Problem(field=_CONNECTION, reason=f"the user needs the ACL {right}, for {by}")
    if untried := sorted({_of_kind(one) for one in needed.keys() - answers.keys()}):
        tell(f"not tried, because only their use shows these rights: {', '.join(untried)}")


def _of_kind(right: Right) -> str:
    """Return a right on a resource by its kind, because all names have the prefix of the run."""
    kind = right.resource if right.resource is Resource.CLUSTER else f"{right.resource}s"
    return f"{right.words} on {kind}"


def releases(cluster: ClusterSpec) -> str | None:
    """Return the releases of the brokers of an external cluster, as ``3.9, 4.3``; None if they do
    not report them, or the cluster is not external."""
    if cluster.external is None:
        return None
    described = outside(cluster)
    with suppress(InfraError):
        return _releases(described, survey(described).brokers)
    return None


def _releases(described: DescribedCluster, brokers: Mapping[int, tuple[str, int]]) -> str | None:
    # kio takes long to import (infra.systems.kafka.product).
    from ackproof.infra.systems.external.releases import releases_of
    from ackproof.infra.systems.wire import connector

    try:
        connect = connector(described.connection())
    except (ValueError, OSError):
        return None
    found = releases_of(brokers, connect)
    unknown = {"unknown"} if found.keys() != brokers.keys() else set()
    return ", ".join(sorted({*found.values(), *unknown})) if found else None


def _surveyed(described: DescribedCluster, within_s: float) -> SurveyedCluster:
    """Return the facts about a cluster when all brokers have joined it, or after ``within_s``
    seconds. Raises as :func:`survey`."""
    found: list[SurveyedCluster] = []

    def has_joined() -> bool:
        found[:] = [survey(described)]
        return set(described.brokers) <= found[0].brokers.keys()

    with suppress(TimeoutError):
        wait_until(has_joined, within_s, "all brokers", _EVERY_S)
    return found[0]


def _read_metadata(
    described: DescribedCluster,
    controllers: DescribedControllers,
    cluster_id: str,
    tell: Callable[[str], None],
) -> None:
    """Read the metadata log once. Raises InfraError with the cause if that fails."""
    if controllers.release is not None and numbers_of(controllers.release) > _KNOWN_RECORDS:
        prepare(f"{KAFKA}:{controllers.release}", tell)
    metadata = metadata_of(described, lambda _topic: False, cluster_id)
    try:
        metadata.read(lambda _image, _moment: None, _METADATA_WITHIN_S)
    except ViewUnsupported as unknown:
        words = f"{unknown}: set {_RELEASE} to the version of the controllers"
        raise InfraError(words) from unknown
    except ViewUnavailable as silence:
        addresses = list(controllers.voters.values())
        why = why_unreadable(addresses, controllers.connection(), str(silence))
        raise InfraError(f"the metadata log cannot be read: {why}") from silence
    finally:
        metadata.close()


def _differences(
    cluster: ClusterSpec, described: DescribedCluster, found: SurveyedCluster
) -> Iterator[Problem]:
    if lacking := sorted(set(described.brokers) ^ found.brokers.keys()):
        there = ", ".join(map(str, sorted(found.brokers)))
        unlike = ", ".join(map(str, lacking))
        reason = f"the cluster has the brokers {there}; the campaign differs in {unlike}"
        yield Problem(field="cluster.external", reason=reason)
    yield from rack_differences(cluster, found)
    timings = CampaignTimings(cluster)
    said = {
        IN_FORCE[2]: timings.replica_lag_time_max_ms,
        **dict.fromkeys(_SESSIONS, timings.zookeeper_session_timeout_ms),
    }
    for name, value in found.in_force.items():
        if name in said and value != str(said[name]):
            reason = f"{name} is {value} on the cluster: set it in cluster.properties"
            yield Problem(field="cluster.properties", reason=reason)


def rack_differences(cluster: ClusterSpec, found: SurveyedCluster) -> Iterator[Problem]:
    """Yield each rack of the campaign that has other brokers on the cluster."""
    for rack, given in sorted(cluster.external.racks.items() if cluster.external else ()):
        there = sorted(broker for broker, its in found.racks.items() if its == rack)
        if sorted(given) != there:
            has = f"the brokers {', '.join(map(str, there))}" if there else "no brokers"
            yield Problem(
                field=f"cluster.external.racks.{rack}",
                reason=f"says {', '.join(map(str, given))}, but this rack has {has} on the cluster",
            )


def _pods(
    campaign: Campaign, cluster: ClusterSpec, described: DescribedCluster
) -> Iterator[Problem]:
    """Yield why the brokers' pods cannot be used as the campaign wants."""
    if cluster.external is None or (spec := cluster.external.kubernetes) is None:
        return
    ends = any(not ENDING.isdisjoint(faults_of(entry)) for entry in campaign.faults)
    ways = {one.by for one in _parameters(campaign, DRAIN.name, Drained)}
    for reason in broker_pods.survey(
        spec.pods,
        described.brokers,
        ends=ends or "deletion" in ways,
        evicts="eviction" in ways,
        cordons=bool(ways),
        rolls=any(OPERATOR_ROLL.name in faults_of(entry) for entry in campaign.faults),
    ):
        yield Problem(field="cluster.external.kubernetes", reason=reason)
    limits = [one.thousandths for one in _parameters(campaign, STARVE_CPU.name, TooLittleCpu)]
    for reason in cpu_limits.survey(spec.pods, described.brokers, limits) if limits else ():
        yield Problem(field="cluster.external.kubernetes", reason=reason)


def _warnings(
    campaign: Campaign, cluster: ClusterSpec, described: DescribedCluster
) -> Iterator[str]:
    yield from _lost_storage(campaign, cluster, described)
    yield from _probed(campaign, cluster, described)


def _probed(campaign: Campaign, cluster: ClusterSpec, described: DescribedCluster) -> Iterator[str]:
    """Yield which brokers the kubelet may restart, because faults keep them from answering its
    probes. Raises InfraError without an answer of Kubernetes."""
    named = dict.fromkeys(name for entry in campaign.faults for name in faults_of(entry))
    slowing = [name for name in named if name in _SLOWING]
    if not slowing or cluster.external is None or (spec := cluster.external.kubernetes) is None:
        return
    if probed := cpu_limits.probed(spec.pods, described.brokers):
        yield (
            f"{', '.join(probed)} have a livenessProbe. If {', '.join(slowing)} lasts longer than "
            "that allows, the kubelet restarts these brokers, which is reported as their end"
        )


def _lost_storage(
    campaign: Campaign, cluster: ClusterSpec, described: DescribedCluster
) -> Iterator[str]:
    """Yield which brokers lose the data of their logs by the campaign's faults, because of where
    their pods keep them. Raises InfraError without an answer of Kubernetes."""
    named = dict.fromkeys(name for entry in campaign.faults for name in faults_of(entry))
    moving = [name for name in named if name in _MOVING]
    ending = [name for name in named if name in ENDING or name in _MOVING]
    if not ending or cluster.external is None or (spec := cluster.external.kubernetes) is None:
        return
    connection = {**described.connection(), "bootstrap.servers": described.bootstrap_servers}
    for storage, pods in _by_storage(spec.pods, connection, described.brokers).items():
        words, ends_with_pod = storage
        where = f"the log.dirs of {', '.join(pods)} are on {words}"
        if ends_with_pod:
            yield (
                f"{where}, which is lost with the pod. {', '.join(ending)} will empty these "
                "brokers: the loss of a record that no other in-sync replica has is by design of "
                "the cluster"
            )
        elif moving:
            yield (
                f"{where}, which stays on its node. A broker that {', '.join(moving)} moves to "
                "another node may start empty there"
            )


def _by_storage(
    pods: broker_pods.BrokerPods, connection: Mapping[str, str], brokers: Sequence[int]
) -> Mapping[tuple[str, bool], Sequence[str]]:
    """Return the names of pods by the storage that does not stay with their brokers, and whether it
    ends with the pods."""
    found: dict[tuple[str, bool], list[str]] = {}
    for _, storage in sorted(pod_storage(pods, connection, brokers).items()):
        for one in dict.fromkeys(filter(None, storage)):
            found.setdefault((one.words, one.ends_with_pod), []).append(one.pod)
    return found


def _parameters(campaign: Campaign, fault: str, kind: type[P]) -> Iterator[P]:
    """Yield the parameters of each entry of the campaign that has the fault."""
    for entry in campaign.faults:
        if fault in faults_of(entry):
            given = entry.parameters if isinstance(entry, FaultEntry) else {}
            parameters = parameters_of(fault, given)
            assert isinstance(parameters, kind)
            yield parameters


def _compacting(campaign: Campaign, found: SurveyedCluster) -> Iterator[Problem]:
    policy = found.in_force.get(CLEANUP, "delete")
    if policy != "delete" and "cleanup.policy" not in campaign.cells.topic:
        reason = (
            f"{CLEANUP} is {policy} on the cluster, and compacted records would be reported "
            "as lost: set cells.topic.cleanup.policy: delete"
        )
        yield Problem(field="cells.topic", reason=reason)


def _still_connected(campaign: Campaign, found: SurveyedCluster) -> Iterator[Problem]:
    """Yield each fault that would cut brokers off from all other servers, but leave them connected
    with the servers that keep the metadata."""
    for index, entry in enumerate(campaign.faults if found.keepers_apart else ()):
        for fault in FROM_ALL & set(faults_of(entry)):
            reason = (
                f"{fault} cuts brokers off from all servers, but this cluster's metadata is kept "
                "by servers that are no brokers, and have no agent; use cut, halves or bridge, "
                "which treat links between brokers"
            )
            yield Problem(field=f"faults[{index}]", reason=reason)


def _noted(described: DescribedCluster) -> Path:
    """Return the file that exists once the user has agreed to all of this. It holds the id of the
    cluster that was found there. Its name depends on the commands, because other commands would
    start other programs."""
    state = os.environ.get(_STATE)
    home = Path(state) if state else Path.home() / ".local" / "state"
    said = described.model_dump_json(by_alias=True)
    return home / "ackproof" / "clusters" / hashlib.sha256(said.encode()).hexdigest()
