"""Problems of a campaign for an external cluster: keys that only a deployment needs, and faults and
settings that such a cluster does not offer.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import ValidationError

from ackproof.config.documents import Problem, problems_of
from ackproof.harness.campaign import clients
from ackproof.harness.campaign.backends import BESIDE_BROKERS, BESIDE_BROKERS_IN_PODS, OF_PODS
from ackproof.harness.campaign.model.clusters import ClusterSweep
from ackproof.harness.campaign.model.external import (
    ExternalSpec,
    SecretSpec,
    controllers_apart,
    controllers_connection,
    controls,
    described,
    handle,
    ids,
    is_broker,
    names,
    voters,
)
from ackproof.harness.campaign.model.schedule import Entry, FaultEntry
from ackproof.harness.campaign.model.values import Scalar
from ackproof.harness.campaign.model.workload import clients_named
from ackproof.harness.campaign.plan.stories import catalogue
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.properties import mapping
from ackproof.harness.campaign.problems.systems import keeper_roles
from ackproof.history.cell import LIBRDKAFKA, as_text
from ackproof.infra import systems
from ackproof.infra.api.interface import Capability
from ackproof.infra.backends.kubernetes.cluster import IMAGE
from ackproof.infra.backends.ssh.inventory import Login
from ackproof.infra.node.nodes import LIMITS, OF_LINKS
from ackproof.infra.systems.external.description import Action, by_agent
from ackproof.infra.systems.product import EXTERNAL, KAFKA
from ackproof.infra.systems.security import MECHANISMS, unspoken
from ackproof.nemesis import FAULTS
from ackproof.nemesis.admin.orders import ELECT_UNCLEAN
from ackproof.nemesis.network.cuts import CUTS, ISOLATE, MINORITY
from ackproof.nemesis.process.commands import COMMAND
from ackproof.nemesis.process.pods import NODE_FAILURE, ON_KUBERNETES, OPERATOR_ROLL
from ackproof.nemesis.targets import expressions
from ackproof.workloads.configuration import connection_properties
from ackproof.workloads.foreign.security import untranslated

_WHERE = "cluster.external"
IN_FORCE = (
    "zookeeper.session.timeout.ms",
    "broker.session.timeout.ms",
    "replica.lag.time.max.ms",
)
"""Properties that state the timeouts of the external cluster. Ackproof sets none of them."""
_ALONE = ("No such", "Invalid value", "Java JAAS")
"""The beginnings of librdkafka's messages about a single property."""
_HANDS: Mapping[str, frozenset[Action]] = {
    "kill": frozenset({Action.KILL, Action.START}),
    # A broker that has not ended when asked is killed when the fault is over.
    "terminate": frozenset({Action.STOP, Action.KILL, Action.START}),
    "restart": frozenset({Action.STOP, Action.KILL, Action.START}),
    "pause": frozenset({Action.PAUSE, Action.RESUME}),
    # A broker with a full disk is started again at the end.
    "disk-full": frozenset({Action.KILL, Action.START}),
    # The kernel kills a broker that needs more memory.
    "starve-memory": frozenset({Action.START}),
}
"""The actions that each fault on broker processes needs."""
_IN_PODS = frozenset(one.name for one in ON_KUBERNETES)
"""Faults for brokers in pods alone, of which each action is possible."""
ENDING = frozenset(
    {*(name for name, actions in _HANDS.items() if Action.START in actions), NODE_FAILURE.name}
)
"""The faults after which a broker must be started."""
_ORDERS = frozenset(
    {
        *("alter-min-isr", "create-topic", "grow-topic", "delete-topic", "delete-records"),
        *("crash-client", "pause-client", "add-partitions", "advance-log-start", "command"),
    }
)
"""Faults that need only clients, or commands of the user's own."""
_UNSPOKEN = frozenset({"reassign", "elect-preferred"})
"""Faults that need a request which librdkafka does not speak."""
_BY_METADATA = frozenset({ELECT_UNCLEAN.name})
"""Faults that only the metadata log of KRaft's controllers proves."""
_BY_AGENT = frozenset({*OF_LINKS, *LIMITS, Capability.FILL_DISKS})
"""Capabilities of which a fault needs one if the agent beside the brokers is what injects it."""
_BOTH_ENDS = frozenset({Capability.RESET_LINKS, Capability.NARROW_LINKS, Capability.SLOW_LINKS})
"""Capabilities that each direction of a link needs at an end of its own."""
FROM_ALL = frozenset({ISOLATE.name, MINORITY.name})
"""Faults that cut servers off from all others."""
_BY_POLICY = frozenset(fault.name for fault in CUTS)
"""Faults that NetworkPolicies can inject between brokers in pods without agents."""
_NO_TARGET = f"the controllers are unknown: name them under {_WHERE}.controllers"


def own_external_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the problems of the section ``cluster`` by itself. If its types are wrong, there are
    none here."""
    written = mapping(content, "cluster")
    there = written.get("external") is not None
    if (written.get("system") == EXTERNAL) != there:
        yield Problem(
            field=_WHERE if there else "cluster.system",
            reason=f"is for system: {EXTERNAL}" if there else f"{EXTERNAL} needs {_WHERE}",
        )
        return
    try:
        cluster = ClusterSweep.model_validate_json(json.dumps(written))
    except ValidationError:
        return
    if cluster.external is not None:
        yield from _cluster_problems(cluster)
        yield from _brokers(cluster.external, cluster)
        yield from _racks(cluster.external, cluster)
        yield from _connection(_WHERE, cluster.external.client, cluster.external.secrets)
        yield from _controllers(cluster.external)
        yield from _hands(cluster.external)
        yield from _agents(cluster.external)


def external_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each setting and fault that an external cluster does not offer."""
    if draft.cluster is None or (spec := draft.cluster.external) is None:
        return
    for client, field in clients_named(draft.cells, draft.workload).items():
        lacking = untranslated(client, spec.client, spec.secrets)
        if client != LIBRDKAFKA and lacking is not None:
            reason = f"of {_WHERE}.client, {client} cannot receive {lacking}; {LIBRDKAFKA} can"
            yield Problem(field=field, reason=reason)
    for name in draft.cells.producer if draft.cells else ():
        if connection_properties({name: ""}):
            yield Problem(field=f"cells.producer.{name}", reason=f"belongs to {_WHERE}.client")
    if draft.failover is not None:
        reason = "failovers are measured only on clusters that Ackproof deploys"
        yield Problem(field="failover", reason=reason)
    for index, entry in enumerate(draft.faults or ()):
        field = f"faults[{index}].{'fault' if isinstance(entry, FaultEntry) else 'story'}"
        cluster = described(spec, max(draft.cluster.brokers))
        apart = {
            name: cluster.has_agent(number)
            for name, number in controllers_apart(spec, max(draft.cluster.brokers)).items()
        }
        reasons = (
            *_refusals(entry, spec, apart),
            *_links_of_clients(entry, draft.cluster.clients),
            *_links_of_pods(entry, spec),
        )
        for reason in dict.fromkeys(reasons):
            yield Problem(field=field, reason=reason)


def _refusals(entry: Entry, spec: ExternalSpec, apart: Mapping[str, bool]) -> Iterator[str]:
    """Yield why the cluster does not offer a fault or story. ``apart`` has the known controllers
    that are no brokers, and whether the agent is put beside each."""
    keepers = keeper_roles(entry)
    if spec.controllers is None:
        yield from (f"{role}: {_NO_TARGET}" for role in keepers)
    if isinstance(entry, FaultEntry):
        signal = entry.parameters.get("signal")
        faults = {entry.fault: signal if isinstance(signal, str) else "kill"}
        named = {role.name for role in expressions.parse(entry.target).roles}
    else:
        faults = {step.fault: "terminate" for step in catalogue()[entry.story].steps}
        named = set()
    for fault, signal in faults.items():
        every = bool(keepers) or fault in FROM_ALL
        affected = {name: beside for name, beside in apart.items() if every or name in named}
        yield from _refused(fault, spec, signal, affected)


def _links_of_clients(entry: Entry, clients: int) -> Iterator[str]:
    """Yield why links of clients cannot be treated so. Clients run on this machine, whose own
    packets are left alone, and share its addresses."""
    if not isinstance(entry, FaultEntry) or FAULTS[entry.fault].needs.isdisjoint(OF_LINKS):
        return
    named = [role.name for role in expressions.parse(entry.target).roles]
    if not any(name.partition("-")[0] in ("client", "clients") for name in named):
        return
    if clients > 1:
        yield f"{entry.target}: the {clients} client nodes share this machine's addresses"
    if not FAULTS[entry.fault].needs.isdisjoint(_BOTH_ENDS):
        yield (
            f"{entry.fault} would treat packets on this machine, where the clients run; between "
            "clients and brokers only cuts and losses are possible"
        )


def _links_of_pods(entry: Entry, spec: ExternalSpec) -> Iterator[str]:
    """Yield why NetworkPolicies cannot cut links so, between brokers in pods without agents."""
    if isinstance(entry, FaultEntry):
        steps = [(entry.fault, entry.target, entry.parameters)]
    else:
        steps = [(one.fault, one.target, one.parameters) for one in catalogue()[entry.story].steps]
    for fault, target, parameters in steps:
        if fault not in _BY_POLICY or not _is_by_pod(fault, spec):
            continue
        set_agent = f"set {_WHERE}.agent for that"
        if "->" in target.replace("<->", ""):
            yield f"{target}: NetworkPolicies cut links in both directions (<->): {set_agent}"
        if "client" in target:
            yield f"{target}: NetworkPolicies cut links between brokers alone: {set_agent}"
        for name in sorted({"direction", "service"} & parameters.keys()):
            if parameters[name] not in (None, "both"):
                yield f"{fault}: NetworkPolicies cut whole links, without {name}: {set_agent}"


def refused_everywhere(fault: str) -> str | None:
    """Return the reason why no external cluster can offer the fault, or None if some can."""
    never = BESIDE_BROKERS.never
    if reasons := [never[one] for one in sorted(FAULTS[fault].needs) if one in never]:
        return f"is not for system: {EXTERNAL}: {reasons[0]}"
    known = _ORDERS | _UNSPOKEN | _BY_METADATA | _IN_PODS | _HANDS.keys()
    if fault in known or _is_by_agent(fault):
        return None
    return f"is for clusters that Ackproof deploys, not for system: {EXTERNAL}"


def _is_by_agent(fault: str) -> bool:
    return not FAULTS[fault].needs.isdisjoint(_BY_AGENT)


def _is_by_pod(fault: str, spec: ExternalSpec) -> bool:
    """Return whether the API of Kubernetes injects the fault, without an agent."""
    if spec.kubernetes is None:
        return False
    return (FAULTS[fault].needs <= OF_PODS) or (fault in _BY_POLICY and not spec.agent)


def asked_for(fault: str) -> str | None:
    """Return the condition on which an external cluster offers a fault, or None if there is
    none."""
    if fault in _UNSPOKEN:
        return f"sasl.mechanism, if set, is one of {', '.join(MECHANISMS)}"
    if fault in _BY_METADATA:
        return f"{_WHERE}.controllers names the controllers"
    if fault == OPERATOR_ROLL.name:
        return f"{_WHERE}.kubernetes.strimzi names the brokers' cluster"
    if fault in _IN_PODS:
        return f"{_WHERE}.kubernetes finds the brokers' pods"
    if fault in _HANDS:
        return f"it is configured how to {', '.join(sorted(_HANDS[fault]))}"
    return None


def _refused(
    fault: str, spec: ExternalSpec, signal: str, controllers: Mapping[str, bool]
) -> Iterator[str]:
    """Yield the reasons why the cluster does not offer a fault.

    ``signal`` is the signal by which a restart ends the process. ``controllers`` are those that the
    fault may affect and that are no brokers, and whether the agent is put beside each.
    """
    if fault in _ORDERS:
        return
    if (reason := refused_everywhere(fault)) is not None:
        yield f"{fault} {reason}; commands of your own can take its place (fault: {COMMAND})"
        return
    if (reason := _misplaced(fault, spec)) is not None:
        yield f"{fault} {reason}"
        return
    if fault in _UNSPOKEN:
        given = {name: as_text(value) for name, value in spec.client.items()}
        if (unsaid := unspoken(given, frozenset(spec.secrets))) is not None:
            yield (
                f"{fault} needs a request that librdkafka does not support, and Ackproof's "
                f"own connection does not support {unsaid}"
            )
    elif fault in _BY_METADATA and spec.controllers is None:
        yield f"{fault} is proven by leader epochs: name the controllers under {_WHERE}.controllers"
    elif _is_by_agent(fault) and (why := _without_agents(fault, spec, controllers)) is not None:
        yield f"{fault} {why}"
    elif fault in _HANDS:
        gentle = fault == "restart" and signal == "kill"
        yield from _lacking(fault, spec, _HANDS["kill" if gentle else fault], controllers)


def _without_agents(fault: str, spec: ExternalSpec, controllers: Mapping[str, bool]) -> str | None:
    """Return why nothing here injects a fault that agents inject on hosts, or None if something
    does."""
    if _is_by_pod(fault, spec):
        return f"needs the pods of {', '.join(controllers)}, too" if controllers else None
    if not spec.agent:
        return f"needs the agent beside the brokers: {_to_have_agents(spec, fault)}"
    if without := [name for name, beside in controllers.items() if not beside]:
        return (
            f"needs the agent beside {', '.join(without)}, too: give ssh to a host of its own "
            f"under {_WHERE}.servers; cut, halves and bridge treat links between brokers"
        )
    return None


def _misplaced(fault: str, spec: ExternalSpec) -> str | None:
    """Return why a fault is not for brokers at the place of these, hosts or pods; None if it is."""
    if spec.kubernetes is None:
        elsewhere = f"is for brokers in pods: name these under {_WHERE}.kubernetes"
        return elsewhere if fault in _IN_PODS else None
    if fault == OPERATOR_ROLL.name and spec.kubernetes.strimzi is None:
        return f"is for clusters of Strimzi: name yours by {_WHERE}.kubernetes.strimzi"
    if (reason := _refused_in_pods(fault)) is None:
        return None
    return (
        f"is not for {_WHERE}.kubernetes: {reason}; it is for brokers on hosts, named under "
        f"{_WHERE}.servers with ssh, and {_WHERE}.agent"
    )


def _refused_in_pods(fault: str) -> str | None:
    """Return the reason why no cluster in pods offers a fault, or None if some do."""
    never = BESIDE_BROKERS_IN_PODS.never
    return next((never[one] for one in sorted(FAULTS[fault].needs) if one in never), None)


def _to_have_agents(spec: ExternalSpec, fault: str) -> str:
    """Return the keys to set so that an agent for a fault is beside every broker."""
    agent = f"set {_WHERE}.agent"
    if spec.kubernetes is not None:
        return agent
    if not spec.servers:
        pods = f", or their pods under {_WHERE}.kubernetes" if not _refused_in_pods(fault) else ""
        return f"{agent}, and name all brokers under {_WHERE}.servers, each with ssh{pods}"
    without = [name for name, one in spec.servers.items() if is_broker(name) and one.ssh is None]
    return f"{agent}, and give ssh to {', '.join(sorted(without))}" if without else agent


def _lacking(
    fault: str, spec: ExternalSpec, needed: frozenset[Action], controllers: Mapping[str, bool]
) -> Iterator[str]:
    """Yield what is missing to do the ``needed`` actions on brokers, and on ``controllers``."""
    if not spec.servers and spec.kubernetes is None:
        yield (
            f"{fault} needs control of the brokers: configure it under {_WHERE}.servers, or name "
            f"their pods under {_WHERE}.kubernetes"
        )
        return
    if spec.kubernetes is not None:
        control = next(iter(controls(spec, 1).values()))
        if needed - control.actions - (by_agent(control) if spec.agent else set()):
            yield (
                f"{fault} is none of the operations on pods ({_WHERE}.kubernetes): it needs the "
                f"agent beside the brokers: set {_WHERE}.agent"
            )
    for name in (*filter(is_broker, spec.servers), *controllers):
        if name not in spec.servers:
            yield f"{fault} needs control of {name}, which {_WHERE}.servers does not have"
            continue
        control = handle(spec.servers[name])
        beside = controllers.get(name, spec.agent)
        able = control.actions | (by_agent(control) if beside else set())
        if lacking := sorted(needed - able):
            yield f"{fault} needs commands of {name} to {', '.join(lacking)}"


def _cluster_problems(cluster: ClusterSweep) -> Iterator[Problem]:
    if reason := systems.parse(EXTERNAL).obstacle(cluster.backend):
        yield Problem(field="cluster.backend", reason=reason)
    if cluster.size > 1 or cluster.compare:
        reason = "an external cluster is a single cluster: give no lists and no comparison"
        yield Problem(field="cluster", reason=reason)
    if cluster.disks is not None:
        reason = "Ackproof cannot set the disks of external brokers"
        yield Problem(field="cluster.disks", reason=reason)
    for name, values in cluster.properties.items():
        field = f"cluster.properties.{name}"
        if name not in IN_FORCE:
            reason = (
                "Ackproof sets no properties of an external cluster; the properties in "
                f"force can be declared under {IN_FORCE}"
            )
            yield Problem(field=field, reason=reason.replace("'", ""), key=True)
        elif not all(isinstance(value, int) and value > 0 for value in values):
            yield Problem(field=field, reason="a whole number of milliseconds")


def _brokers(spec: ExternalSpec, cluster: ClusterSweep) -> Iterator[Problem]:
    many = max(cluster.brokers)
    found = ids(spec, many)
    if len(set(found)) != many:
        reason = f"says {many}, but {', '.join(map(str, found))} are named under {_WHERE}"
        yield Problem(field="cluster.brokers", reason=reason)
    named = set(names(spec, many))
    if spec.servers and (without := sorted(named - spec.servers.keys())):
        reason = f"name all brokers, or none: {', '.join(without)} is missing"
        yield Problem(field=f"{_WHERE}.servers", reason=reason)
    apart = controllers_apart(spec, many)
    for name in sorted(spec.servers.keys() - named - apart.keys()):
        reason = "is not in broker.ids"
        if not is_broker(name):
            reason = (
                f"is none of the voters of {_WHERE}.controllers that are no brokers: "
                f"{', '.join(sorted(apart)) or 'there are none'}"
            )
        yield Problem(field=f"{_WHERE}.servers.{name}", reason=reason, key=True)


def _racks(spec: ExternalSpec, cluster: ClusterSweep) -> Iterator[Problem]:
    if cluster.racks:
        reason = f"spreads brokers that are deployed; name the racks of yours under {_WHERE}.racks"
        yield Problem(field="cluster.racks", reason=reason, key=True)
    brokers = ids(spec, max(cluster.brokers))
    count = Counter(one for given in spec.racks.values() for one in given)
    for rack, given in spec.racks.items():
        field = f"{_WHERE}.racks.{rack}"
        if unknown := sorted(set(given) - set(brokers)):
            there = ", ".join(map(str, brokers))
            reason = f"there is no broker {', '.join(map(str, unknown))}; there are {there}"
            yield Problem(field=field, reason=reason)
        if twice := sorted(one for one in set(given) if count[one] > 1):
            reason = f"a broker is in one rack: {', '.join(map(str, twice))} is named twice"
            yield Problem(field=field, reason=reason)


def _connection(
    where: str, client: Mapping[str, Scalar], secrets: Mapping[str, SecretSpec]
) -> Iterator[Problem]:
    for section, given in (("client", client), ("secrets", secrets)):
        for name in given:
            field = f"{where}.{section}.{name}"
            if not connection_properties({name: ""}):
                reason = "is not a connection setting: only security.protocol, sasl.* and ssl.* are"
                yield Problem(field=field, reason=reason, key=True)
            elif section == "secrets" and name in client:
                yield Problem(field=field, reason="is also set under client", key=True)
            elif (unknown := _unknown(name, given[name])) is not None:
                yield Problem(field=field, reason=unknown)


def _controllers(spec: ExternalSpec) -> Iterator[Problem]:
    """Yield what is wrong with the controllers, from whom the metadata log is read."""
    if (controllers := spec.controllers) is None:
        return
    where = f"{_WHERE}.controllers"
    if len(voters(controllers)) != controllers.quorum_voters.count("@"):
        yield Problem(field=f"{where}.quorum.voters", reason="names a node.id twice")
    yield from _connection(where, controllers.client or {}, controllers.secrets)
    client, secrets = controllers_connection(spec, controllers)
    given = {name: as_text(value) for name, value in client.items()}
    if (unsaid := unspoken(given, frozenset(secrets))) is not None:
        reason = (
            "the metadata log is read over Ackproof's own connection, which does not support "
            f"{unsaid}"
        )
        yield Problem(field=where, reason=reason)
    if controllers.release is not None:
        try:
            quorums = systems.parse(f"{KAFKA}:{controllers.release}").quorums
        except ValueError as error:
            yield Problem(field=f"{where}.release", reason=str(error))
        else:
            if not any(quorum.kraft for quorum in quorums):
                reason = f"{controllers.release} has no KRaft, which is ready from 3.3 on"
                yield Problem(field=f"{where}.release", reason=reason)


def _unknown(name: str, value: object) -> str | None:
    """Return librdkafka's reason why a property or its value does not exist, or None if they may.
    Properties that do not go together are found when a client connects."""
    refused = clients.producer_refusal(name, value if isinstance(value, (str, int, float)) else "")
    return refused if refused and refused.startswith(_ALONE) else None


def _hands(spec: ExternalSpec) -> Iterator[Problem]:
    for name, one in spec.servers.items():
        try:
            handle(one)
        except ValidationError as invalid:
            for problem in problems_of(invalid, Login.model_json_schema(by_alias=True)):
                yield replace(problem, field=f"{_WHERE}.servers.{name}.ssh.{problem.field}")


def _agents(spec: ExternalSpec) -> Iterator[Problem]:
    """Yield what keeps the agent from being put beside each broker."""
    if not spec.agent:
        return
    field = f"{_WHERE}.agent"
    if spec.kubernetes is not None:
        if spec.kubernetes.pods.image is None:
            reason = f"needs an image for its container: set {_WHERE}.kubernetes.image, or {IMAGE}"
            yield Problem(field=field, reason=reason)
        return
    if not spec.servers:
        reason = f"the agent is put beside the brokers of {_WHERE}.servers: name them"
        yield Problem(field=field, reason=reason)
    brokers = {name: one for name, one in spec.servers.items() if is_broker(name)}
    if lacking := sorted(name for name, one in brokers.items() if one.ssh is None):
        reason = f"the agent comes to a host by ssh: {', '.join(lacking)} has none"
        yield Problem(field=field, reason=reason)
    hosts = Counter((one.ssh.address, one.ssh.port) for one in brokers.values() if one.ssh)
    for address, _ in sorted(host for host, brokers in hosts.items() if brokers > 1):
        reason = f"{address} has several brokers: with the agent each needs a host of its own"
        yield Problem(field=field, reason=reason)
