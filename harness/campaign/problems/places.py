"""Reasons why a valid campaign cannot run at its place: faults that the backend cannot inject,
hosts that are not given, and programs that are missing or not allowed.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ackproof.config.documents import Problem
from ackproof.harness.campaign.backends import (
    BACKENDS,
    BESIDE_BROKERS,
    HERE,
    SSH,
    BackendKind,
    place_of,
)
from ackproof.harness.campaign.model.campaign import Campaign, Skipped
from ackproof.harness.campaign.model.clusters import ClusterSweep
from ackproof.harness.campaign.model.schedule import Entry, StoryEntry
from ackproof.harness.campaign.model.workload import clients_named
from ackproof.harness.campaign.plan.needs import DISKS, commands_of, faults_of, refusal, struck
from ackproof.harness.campaign.problems import external
from ackproof.history.cell import LIBRDKAFKA, is_program
from ackproof.infra import systems
from ackproof.infra.api.interface import Capability, InfraError
from ackproof.infra.clients import programs
from ackproof.infra.machine.own_commands import require_program
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Fault

# --- which fault is offered where -----------------------------------------------------------------

OWN_CLUSTER = "your cluster"
"""The name of an external cluster among the places. Its clients run on the backend `here`."""

PLACES: Sequence[str] = (*(name for name in BACKENDS if name != HERE), OWN_CLUSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The answer of a place to whether it offers a fault.

    Attributes:
        refused: The reason why it never does; None if it may.
        where: The conditions on which it does, if any.
    """

    refused: str | None = None
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.refused is not None:
            return f"no: {self.refused}"
        return f"where {'; '.join(self.where)}" if self.where else "yes"


def offer(fault: Fault, place: str) -> Offer:
    """Return whether one of :data:`PLACES` offers the fault."""
    if place == OWN_CLUSTER:
        return _of_own_cluster(fault)
    return _of_backend(fault, BACKENDS[place])


def _of_backend(fault: Fault, backend: BackendKind) -> Offer:
    needs = sorted(fault.needs)
    never = dict.fromkeys(backend.never[one] for one in needs if one in backend.never)
    if never:
        return Offer(refused="; ".join(never))
    where = dict.fromkeys(backend.where[one] for one in needs if one in backend.where)
    return Offer(where=tuple(where))


def _of_own_cluster(fault: Fault) -> Offer:
    why = external.refused_everywhere(fault.name)
    if why is not None:
        return Offer(refused=f"it {why}")
    where = external.asked_for(fault.name)
    by_agent = _of_backend(fault, BESIDE_BROKERS).where
    return Offer(where=(*(() if where is None else (where,)), *by_agent))


# --- what keeps a campaign from running -----------------------------------------------------------

_SKIPPED = "; `ackproof run --skip-refused` runs the campaign without it"


def lacking_capabilities(
    campaign: Campaign, capabilities: frozenset[Capability]
) -> Iterator[Problem]:
    """Yield every fault that needs a capability which the backend lacks, and whether the campaign
    can run without the fault."""
    cluster = campaign.cluster
    refused = [
        (field, reason)
        for field, fault in struck(campaign)
        if (reason := refusal(fault, FAULTS[fault].needs, capabilities, cluster))
    ]
    if cluster.disks is not None and (reason := refusal("", DISKS, capabilities, cluster)):
        refused.append(("cluster.disks", reason))
    some_left = any(
        all(FAULTS[fault].needs <= capabilities for fault in faults_of(entry))
        for entry in campaign.faults
    )
    for field, reason in refused:
        can_go = field != "failover" and (some_left or campaign.baseline)
        yield Problem(field=field, reason=f"{reason}{_SKIPPED if can_go else ''}")


def never_offered(campaign: Campaign) -> Iterator[Problem]:
    """Yield every fault that no backend of the kind offers, on any machine."""
    never = place_of(campaign.cluster).never
    return lacking_capabilities(campaign, frozenset(Capability) - never.keys())


def without_hosts(campaign: Campaign) -> Iterator[Problem]:
    """Yield a problem if the backend needs hosts and no inventory is given."""
    if campaign.cluster.backend == SSH and campaign.cluster.inventory is None:
        reason = "the backend ssh needs the file with its hosts (--inventory)"
        yield Problem(field="cluster.inventory", reason=reason)


def elsewhere(campaign: Campaign) -> Iterator[Problem]:
    """Yield a problem if the system cannot be deployed on the backend."""
    cluster = campaign.cluster
    if reason := systems.parse(cluster.system).obstacle(cluster.backend):
        yield Problem(field="cluster.backend", reason=reason)


def missing_programs(campaign: Campaign, allowed: Collection[Path]) -> Iterator[Problem]:
    """Yield a problem for each client whose program is missing on this machine, from which it is
    copied to the nodes, or is not allowed.

    ``allowed`` holds the programs of the user's own that may be started. A campaign file does not
    decide that, because it may come from anyone. The same holds for librdkafka's plugins
    (:data:`workloads.configuration.RESERVED`).
    """
    meant = {path.resolve() for path in allowed}
    for client, field in clients_named(campaign.cells, campaign.workload).items():
        if client == LIBRDKAFKA:
            continue
        if (reason_missing := programs.missing(client)) is not None:
            yield Problem(field=field, reason=reason_missing)
        elif is_program(client) and programs.own(client).resolve() not in meant:
            reason = f"it would start {client} with your rights. To allow this: "
            yield Problem(field=field, reason=f"{reason}--program {client}")


def unusable_commands(campaign: Campaign, *, allowed: bool) -> Iterator[Problem]:
    """Yield every command of a fault whose program is not on this machine, or that the user has not
    allowed. A campaign file may come from anyone."""
    for field, commands in commands_of(campaign):
        for key, argv in commands.named():
            try:
                require_program(argv[0], commands.directory)
            except OSError as error:
                reason = f"{error.filename} cannot be run: {error.strerror}"
                yield Problem(field=f"{field}.parameters.{key}", reason=reason)
        if not allowed:
            words = ", ".join(dict.fromkeys(argv[0] for _, argv in commands.named()))
            reason = f"it would run {words} with your rights. To allow this: --allow-commands"
            yield Problem(field=f"{field}.fault", reason=reason)


def strange_programs(campaign: Campaign, allowed: Collection[Path]) -> Iterator[str]:
    """Yield the reason for each allowed program that cannot be meant: it does not exist, or neither
    cell nor group names it."""
    clients = clients_named(campaign.cells, campaign.workload)
    named = {Path(client).resolve() for client in clients if is_program(client)}
    for path in allowed:
        try:
            program = programs.own(str(path))
        except InfraError as error:
            yield str(error)
            continue
        if program.resolve() not in named:
            yield f"the campaign has no client {path}: name it under cells.client, or at a group"


# --- a campaign without what its place refuses ----------------------------------------------------


def without_refused(campaign: Campaign, able: frozenset[Capability]) -> Campaign:
    """Return ``campaign`` without the faults, and the disks, that its backend refuses, given the
    capabilities ``able``.

    A story of which one step is refused is left out as a whole, because a part of a story is a
    different story.
    """
    spec = campaign.cluster
    skipped: list[Skipped] = []
    faults = []
    for entry in campaign.faults:
        if reasons := list(_reasons(entry, able, spec)):
            skipped.append(Skipped(what=_named(entry), reason="; ".join(reasons)))
        else:
            faults.append(entry)
    if spec.disks is not None and (reason := refusal("", DISKS, able, spec)):
        skipped.append(Skipped(what="cluster.disks", reason=reason))
        spec = spec.model_copy(update={"disks": None})
    update = {"faults": tuple(faults), "cluster": spec, "skipped": tuple(skipped)}
    return campaign.model_copy(update=update)


def nothing_left(campaign: Campaign, kept: Campaign) -> Iterator[Problem]:
    """Yield a problem if all faults were refused. The rest would be a baseline, which was not asked
    for."""
    if campaign.faults and not kept.faults:
        reason = f"the backend {campaign.cluster.backend} refuses all of them"
        yield Problem(field="faults", reason=reason)


def _reasons(entry: Entry, able: frozenset[Capability], cluster: ClusterSweep) -> Iterator[str]:
    for fault in faults_of(entry):
        if reason := refusal(fault, FAULTS[fault].needs, able, cluster):
            yield reason


def _named(entry: Entry) -> str:
    if isinstance(entry, StoryEntry):
        return f"story {entry.story}"
    return f"{entry.fault} of {entry.target}"
