"""The capabilities that a campaign needs of its backend, for its faults and for the disks of its
cluster."""

from collections.abc import Iterable, Iterator, Mapping, Set

from ackproof.harness.campaign.backends import KUBERNETES, SSH, place_of
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.clusters import ClusterSweep
from ackproof.harness.campaign.model.schedule import Entry, StoryEntry
from ackproof.harness.campaign.model.workload import clients_named
from ackproof.harness.campaign.plan.faults import parameters_of
from ackproof.harness.campaign.plan.stories import catalogue
from ackproof.infra import systems
from ackproof.infra.api.interface import Capability
from ackproof.infra.clients.programs import CLIENTS
from ackproof.nemesis import FAULTS
from ackproof.nemesis.admin.orders import ADD_BROKER, BrokersAdded
from ackproof.nemesis.process.commands import COMMAND, CommandParameters
from ackproof.workloads import WORKLOADS

DISKS = frozenset({Capability.LOSE_UNSYNCED_WRITES})
"""The capabilities that disks of the brokers' own need."""


def struck(campaign: Campaign) -> Iterator[tuple[str, str]]:
    """Yield the name of every fault that is injected, after the field that asks for it."""
    for index, entry in enumerate(campaign.faults):
        key = "story" if isinstance(entry, StoryEntry) else "fault"
        yield from ((f"faults[{index}].{key}", name) for name in faults_of(entry))
    if campaign.failover is not None:
        yield "failover", campaign.failover.kill.fault


def commands_of(campaign: Campaign) -> Iterator[tuple[str, CommandParameters]]:
    """Yield every fault by commands of the user's own: its field, and its commands."""
    for index, entry in enumerate(campaign.faults):
        if not isinstance(entry, StoryEntry) and entry.fault == COMMAND:
            parameters = parameters_of(entry.fault, entry.parameters)
            assert isinstance(parameters, CommandParameters)
            yield f"faults[{index}]", parameters


def faults_of(entry: Entry) -> tuple[str, ...]:
    """Return the names of the faults that an entry stands for, each once. A story that does not
    exist has none, and is a problem of its own."""
    if not isinstance(entry, StoryEntry):
        return (entry.fault,)
    story = catalogue().get(entry.story)
    return () if story is None else tuple(dict.fromkeys(step.fault for step in story.steps))


def joining(faults: Iterable[Entry]) -> int:
    """Return the largest number of brokers that one of the faults adds."""
    return max(map(_joining, faults), default=0)


def _joining(entry: Entry) -> int:
    if ADD_BROKER.name not in faults_of(entry):
        return 0
    given = {} if isinstance(entry, StoryEntry) else entry.parameters
    parameters = parameters_of(ADD_BROKER.name, given)
    assert isinstance(parameters, BrokersAdded)
    return parameters.brokers


def refusal(
    what: str, needs: Set[Capability], able: Set[Capability], cluster: ClusterSweep
) -> str | None:
    """Return the reason why the place of a cluster, with the capabilities ``able``, refuses
    ``what``, which needs ``needs``. Return None if it has them all."""
    missing = sorted(needs - able)
    if not missing:
        return None
    wanted = f"{what} needs {', '.join(missing)}".strip()
    never = place_of(cluster).never
    if reasons := dict.fromkeys(never[one] for one in missing if one in never):
        return f"{wanted}, which the backend {cluster.backend} never offers: {'; '.join(reasons)}"
    if cluster.external is not None and cluster.external.agent:
        return f"{wanted}, but the agent does not offer it beside every broker"
    if cluster.external is not None and cluster.external.kubernetes is not None:
        return f"{wanted}, but the brokers' pods do not offer it: set cluster.external.agent"
    where = _OFFERING.get(cluster.backend, "on this machine")
    return f"{wanted}, but the backend {cluster.backend} does not offer it {where}"


_OFFERING: Mapping[str, str] = {SSH: "on every host", KUBERNETES: "in this cluster"}
"""The place in which a backend offers capabilities, if it is not this machine."""


def plugins_of(campaign: Campaign) -> Mapping[str, str]:
    """Return the plug-ins whose faults, system, workload or clients a campaign uses, each with its
    version."""
    found = {FAULTS.plugin(name) for _, name in struck(campaign)}
    found.add(systems.plugin(campaign.cluster.system))
    found.add(WORKLOADS.plugin(campaign.workload.kind))
    found.update(
        CLIENTS.plugin(client) for client in clients_named(campaign.cells, campaign.workload)
    )
    return {plugin.name: plugin.version for plugin in sorted(filter(None, found))}


def needs_of(campaign: Campaign) -> frozenset[Capability]:
    """Return the capabilities that the campaign's faults and its cluster need of the backend."""
    disks: frozenset[Capability] = frozenset() if campaign.cluster.disks is None else DISKS
    found = disks.union(*(FAULTS[name].needs for _, name in struck(campaign)))
    # Only brokers of an operator have their logs on disks that Ackproof did not make.
    makes = Capability.FILL_DISKS in found and campaign.cluster.external is None
    return found | DISKS if makes else found
