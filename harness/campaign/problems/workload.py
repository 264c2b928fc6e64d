"""Problems of a campaign's clients: how producers send, how consumers read, what
transactions need, and nodes without clients.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import ValidationError

from ackproof.config.documents import Problem, problems_of
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign import clients
from ackproof.harness.campaign.backends import CLIENT_NODE
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.clusters import ClusterSweep
from ackproof.harness.campaign.model.schedule import Entry, FaultEntry, StoryEntry
from ackproof.harness.campaign.model.values import where_problems
from ackproof.harness.campaign.model.workload import WorkloadSpec
from ackproof.harness.campaign.problems import coordinators
from ackproof.harness.campaign.problems.cells import NAME_MAX, unknown_library
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.properties import mapping
from ackproof.history.cell import LIBRDKAFKA, SYNC, Cell, Value
from ackproof.history.manifest import PlannedWriter
from ackproof.history.names import FileStem
from ackproof.infra import systems
from ackproof.infra.clients.programs import CLIENTS, client_of, is_client
from ackproof.infra.systems.product import BUNDLED, is_external
from ackproof.nemesis.targets import expressions
from ackproof.workloads import WORKLOADS
from ackproof.workloads.configuration import PARTITIONER, connection_properties, producer_config
from ackproof.workloads.foreign.protocol import KEYED_VERSION
from ackproof.workloads.interface import ClientNode, ClientRole, Group, Load, ShareGroup
from ackproof.workloads.spec import SpecificationError

# --- producers and nodes --------------------------------------------------------------------------

_DEFAULT_KIND = WorkloadSpec.model_fields["kind"].default


def workload_problems(draft: Draft) -> Iterator[Problem]:
    """Yield every contradiction between the workload, the cells and the faults."""
    if draft.workload is not None:
        yield from _amount_problems(draft.workload)
        yield from _key_problems(draft, draft.workload)
        yield from _tombstone_problems(draft, draft.workload)
    if draft.cells is not None and draft.cells.alone:
        yield from _topics_named(draft.faults or ())


def own_workload_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a problem for a kind that does not exist, and for each parameter that its workload does
    not take."""
    written = mapping(content, "workload")
    kind = written.get("kind", _DEFAULT_KIND)
    workload = WORKLOADS.get(kind) if isinstance(kind, str) else None
    if isinstance(kind, str) and workload is None:
        reason = WORKLOADS.refusal(kind) or unknown("workload", kind, WORKLOADS)
        yield Problem(field="workload.kind", reason=reason)
    if workload is None:
        return
    try:
        workload.parameters.model_validate(dict(mapping(written, "parameters")))
    except ValidationError as invalid:
        for one in problems_of(invalid, workload.parameters.model_json_schema()):
            yield replace(one, field=f"workload.parameters.{one.field}")


def idle_nodes(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if some client nodes would have no clients. A fault on such a node would have
    no effect."""
    if draft.workload is None or draft.cluster is None:
        return
    most, nodes = draft.workload.clients_at_most, draft.cluster.clients
    if nodes > most:
        they = "client" if most == 1 else "clients"
        reason = f"no client would run on client-{most + 1}: a cell has at most {most} {they}"
        yield Problem(field="cluster.clients", reason=reason)


def _amount_problems(workload: WorkloadSpec) -> Iterator[Problem]:
    records = workload.records
    if workload.flat_out and records is None:
        reason = (
            "is missing: a producer that sends as fast as possible has no other limit "
            "for the records sent and kept on disk"
        )
        yield Problem(field="workload.records", reason=reason)
    elif records is not None and records < workload.producers:
        reason = f"{records} records are too few for {workload.producers} producers"
        yield Problem(field="workload.records", reason=reason)


def _key_problems(draft: Draft, workload: WorkloadSpec) -> Iterator[Problem]:
    """Yield a problem if the partition of a record would not be known before it is sent. A workload
    that writes in transactions refuses partitioners itself."""
    if draft.cells is None:
        return
    keys = workload.keys
    cells = expand(draft.cells)
    alike: dict[tuple[int, Value | None], list[str]] = {}
    for cell in cells:
        partitioner = None
        if not workload.is_transactional:
            partitioner = producer_config(cell).get(PARTITIONER)
        alike.setdefault((cell.partitions, partitioner), []).append(cell.name)
    for (partitions, partitioner), names in alike.items():
        if keys is None and partitioner is None:
            continue
        from ackproof.workloads.librdkafka.keys import keys_of  # it imports numpy

        try:
            keys_of(keys, partitions, partitioner)
        except SpecificationError as refusal:
            field = "workload.keys" if partitioner is None else f"cells.producer.{PARTITIONER}"
            yield Problem(field=field, reason=f"{refusal} (in {', '.join(names)})")
    unable = _without_keys({cell.client for cell in cells})
    if unable and keys is not None:
        reason = f"keys need version 2 of the client protocol, and the program of {unable} speaks "
        reason += "version 1"
        yield Problem(field="workload.keys", reason=reason)


def _tombstone_problems(draft: Draft, workload: WorkloadSpec) -> Iterator[Problem]:
    """Yield a problem if the removal of tombstones could not be judged."""
    if not workload.tombstones or draft.cells is None:
        return
    if workload.keys is None:
        reason = "a tombstone deletes a key: give the records keys (workload.keys)"
        yield Problem(field="workload.tombstones", reason=reason)
    cells = expand(draft.cells)
    if not all(cell.compacts for cell in cells):
        reason = "only compaction removes tombstones: set cleanup.policy: compact in cells.topic"
        yield Problem(field="workload.tombstones", reason=reason)
    if any(cell.delete_retention_ms is None for cell in cells):
        reason = (
            "the checkers judge by delete.retention.ms: set it in cells.topic, in milliseconds "
            "(Kafka's default is 86400000)"
        )
        yield Problem(field="workload.tombstones", reason=reason)
    unable = _without_keys({group.client for group in workload.groups})
    if unable:
        reason = (
            "members report tombstones by version 2 of the client protocol, and the program of "
        )
        reason += f"{unable} speaks version 1"
        yield Problem(field="workload.tombstones", reason=reason)


def _without_keys(clients: Collection[str]) -> str:
    """Return the names of those clients whose programs know neither keys nor tombstones."""
    known = filter(is_client, clients)
    return ", ".join(sorted(one for one in known if client_of(one).protocol < KEYED_VERSION))


def _topics_named(entries: tuple[Entry, ...]) -> Iterator[Problem]:
    """Yield a problem for each topic that a fault names if every cell has a run of its own, because
    no topic is then in every run."""
    for index, entry in enumerate(entries):
        if isinstance(entry, StoryEntry):
            field, topics = f"faults[{index}].topic", [entry.topic]
        else:
            field, topics = f"faults[{index}].target", list(_topics_of(entry.target))
        for topic in topics:
            if topic is not None and topic != expressions.ANY and not topic.startswith("__"):
                reason = f"cells.alone: the topic {topic} exists in one run only; use any"
                yield Problem(field=field, reason=reason)


def _topics_of(target: str) -> Iterator[str | None]:
    try:
        yield from (role.topic for role in expressions.parse(target).roles)
    except ValueError:
        return  # reported elsewhere


# --- consumers ------------------------------------------------------------------------------------

_MEMBERS = ("consumer", "replacement")
"""The keys of a group with properties of its members."""
_NOWHERE = ClientNode(node=CLIENT_NODE, history="", progress="")
_FILE_NAME_MAX = 255
"""The most bytes of a file's name, on every file system that Linux is likely to have."""
_PARTS_MAX = 999_999
"""The most flushes of one file. At one a second, they take eleven days."""


def own_consumer_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the problems of groups by themselves. They are read as they are written, so that they
    are judged even if other parts of the file are invalid."""
    first: dict[str, str] = {}
    for kind in ("groups", "share.groups"):
        groups = mapping(content, "workload").get(kind)
        for index, group in enumerate(groups if isinstance(groups, list) else []):
            if not isinstance(group, dict):
                continue
            name, where = group.get("name"), f"workload.{kind}[{index}]"
            client = group.get("client", LIBRDKAFKA)
            if (reason := unknown_library(client)) is not None:
                yield Problem(field=f"{where}.client", reason=reason)
                continue
            if isinstance(name, str) and first.setdefault(name, where) != where:
                reason = f"{first[name]} also has the name {name!r}"
                yield Problem(field=f"{where}.name", reason=reason)
            for key in _MEMBERS if kind == "groups" else ():
                yield from _property_problems(mapping(group, key), f"{where}.{key}", client)


def consumer_problems(draft: Draft) -> Iterator[Problem]:
    """Yield the contradictions between valid properties, and between groups and cells."""
    spec = draft.workload
    if spec is None:
        return
    yield from _member_problems(draft, spec)
    for index, share in enumerate(spec.share_groups):
        for reason in dict.fromkeys(_share_refusals(share.group, draft.cluster)):
            yield Problem(field=f"workload.share.groups[{index}]", reason=reason)
    if draft.cells is not None:
        # Cells that share a topic, or whose topic's name is too long, are reported elsewhere.
        topics = {cell.topic: cell for cell in expand(draft.cells) if len(cell.topic) <= NAME_MAX}
        cells = list(topics.values())
        settings = [cell.settings for cell in cells]
        yield from _reader_problems(spec, settings)
        wheres = {f"groups[{n}]": one.where for n, one in enumerate(spec.groups)}
        wheres |= {f"share.groups[{n}]": one.where for n, one in enumerate(spec.share_groups)}
        for field, where in wheres.items():
            yield from where_problems(f"workload.{field}.where", where, settings)
        yield from _name_problems(spec, cells)
        yield from _file_problems(spec, cells)


def _member_problems(draft: Draft, workload: WorkloadSpec) -> Iterator[Problem]:
    of_producers = draft.cells.producer if draft.cells is not None else ()
    secured = sorted(connection_properties(dict.fromkeys(of_producers, "")))
    for index, spec in enumerate(workload.groups):
        where = f"workload.groups[{index}]"
        if secured and spec.client != LIBRDKAFKA:
            reason = f"{spec.client} does not receive cells.producer.{secured[0]}"
            yield Problem(field=f"{where}.client", reason=reason)
        for key, config in zip(_MEMBERS, (spec.consumer, spec.replacement), strict=True):
            reasons = () if config is None else _refusals(spec.group, config, draft.cluster)
            for reason in dict.fromkeys(reasons):
                yield Problem(field=f"{where}.{key}", reason=reason)
        if spec.replacement is not None and not _are_replaced(draft):
            reason = (
                "no member is ever replaced: add a fault crash-client of consumers with "
                "comes_back: true"
            )
            yield Problem(field=f"{where}.replacement", reason=reason)


def _reader_problems(
    spec: WorkloadSpec, settings: Sequence[Mapping[str, Value]]
) -> Iterator[Problem]:
    field = "workload.readers.where"
    if spec.readers_where and not spec.readers:
        yield Problem(field=field, reason="there are no tail readers: add workload.readers")
        return
    yield from where_problems(field, spec.readers_where, settings)


def _are_replaced(draft: Draft) -> bool:
    """Return whether a fault may replace consumers. If the faults are invalid, it is assumed."""
    crashes = [
        one.parameters
        for one in draft.faults or ()
        if isinstance(one, FaultEntry) and one.fault == "crash-client"
    ]
    return draft.faults is None or any(
        one.get("comes_back") and one.get("role") != ClientRole.PRODUCER for one in crashes
    )


def _refusals(
    group: Group, config: Mapping[str, Value], cluster: ClusterSweep | None
) -> Iterator[str]:
    """Yield the reasons why its client would make no member of ``group`` with these properties, or
    a coordinator would refuse one."""
    try:
        clients.try_out_member(group, config)
    except SpecificationError as refusal:
        yield str(refusal)
        return
    session_ms = clients.session_ms(group, config)
    for point, _ in cluster.points() if cluster is not None else ():
        reason = (
            coordinators.without_heartbeats(point)
            if session_ms is None
            else coordinators.session_refused(point, session_ms)
        )
        if reason is not None:
            yield reason


def _share_refusals(group: ShareGroup, cluster: ClusterSweep | None) -> Iterator[str]:
    """Yield the reasons why there would be no members of a share group."""
    try:
        clients.try_out_share_member(group)
    except SpecificationError as refusal:
        yield str(refusal)
    if group.releases + group.rejects >= 1:
        yield "releases and rejects: together they must be less than 1"
    for point, _ in cluster.points() if cluster is not None else ():
        if is_external(point.system):
            yield "an external cluster has none: its delivery count limit and lock are unknown"
        elif (reason := coordinators.without_share_groups(point)) is not None:
            yield reason


def _property_problems(given: Mapping[str, object], where: str, client: str) -> Iterator[Problem]:
    for name, value in given.items():
        if not isinstance(value, str | int | float):
            continue  # the model refuses what cannot be a value
        if (reason := clients.consumer_refusal(name, value, client)) is not None:
            yield Problem(field=f"{where}.{name}", reason=reason)


def _name_problems(spec: WorkloadSpec, cells: Sequence[Cell]) -> Iterator[Problem]:
    """Yield a problem for clients that would share a name. A client's name is made of others: the
    group ``c`` of the topic ``a-b`` and the group ``b-c`` of the topic ``a`` would be one."""
    loads = spec.loads_of(cells)
    names = (
        client.name
        for cell in cells
        for client in WORKLOADS[spec.kind].clients(
            cell, loads[cell.name], bootstrap_servers="", places=[_NOWHERE]
        )
    )
    for name, many in Counter(names).items():
        if many > 1:
            reason = (
                f"{many} clients would have the name {name}: choose other names for groups or cells"
            )
            yield Problem(field="workload.groups", reason=reason)


def _file_problems(spec: WorkloadSpec, cells: Sequence[Cell]) -> Iterator[Problem]:
    """Yield a problem if a file's name would be too long. It is made of the topic and of the
    client's name, which contains the topic again."""
    for cell in sorted(cells, key=lambda cell: -len(cell.topic)):
        for writer in WORKLOADS[spec.kind].writers([(cell, spec.load_of(cell))], [CLIENT_NODE]):
            if (reason := _unwritable(writer)) is not None:
                yield Problem(field="cells", reason=reason)
                return


def _unwritable(writer: PlannedWriter) -> str | None:
    """Return the reason why no file can have this name, or None."""
    try:
        partition = max(writer.partitions, default=None)
        stem = FileStem(table=writer.table, writer=writer.writer, partition=partition)
    except ValueError as refusal:
        return f"{refusal}; sweep fewer settings"
    name = f".{stem.part(_PARTS_MAX)}.part"  # as it is called while it is copied from a host
    if len(name) <= _FILE_NAME_MAX:
        return None
    return f"the file {name} would have more than {_FILE_NAME_MAX} characters: sweep fewer settings"


# --- transactions ---------------------------------------------------------------------------------

_SYSTEM = "cluster.system"
_OFFERS = "kafka:4.4.0 does"


def own_transaction_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a problem if the system has no transactions. The file is read as it is written, because
    the properties of another system are most likely wrong, too."""
    kind = mapping(content, "workload").get("kind")
    if isinstance(kind, str) and kind in WORKLOADS and WORKLOADS[kind].transactional:
        yield from _system_problems(mapping(content, "cluster").get("system", BUNDLED))


def transaction_problems(draft: Draft) -> Iterator[Problem]:
    """Yield every contradiction between the workload, its system and its cells."""
    spec = draft.workload
    if spec is None:
        return
    if not spec.is_transactional:
        yield from _without(draft)
        return
    if spec.groups:
        reason = "the workload transactions has transformers for groups: leave out workload.groups"
        yield Problem(field="workload.groups", reason=reason)
    if spec.share_groups:
        reason = "the workload transactions has no share groups"
        yield Problem(field="workload.share.groups", reason=reason)
    yield from _of_produce_alone(spec)
    yield from _replacement_problems(draft)
    wrong: dict[tuple[str, str], list[str]] = {}
    for cell in expand(draft.cells) if draft.cells is not None else ():
        for field, reason in _cell_problems(cell, spec.load_of(cell)).items():
            wrong.setdefault((field, reason), []).append(cell.name)
    for (field, reason), names in wrong.items():
        yield Problem(field=field, reason=f"{reason} (in {', '.join(names)})")


def _of_produce_alone(spec: WorkloadSpec) -> Iterator[Problem]:
    """Yield a problem for each way of sending that transactions do not support."""
    said = {
        "rate": spec.flat_out,
        "records": spec.records is not None,
        "record.bytes": len(set(spec.record_bytes)) > 1,
        "producers.shared": spec.producers_shared,
    }
    for key, is_said in said.items():
        if is_said:
            reason = (
                "the workload transactions sends at a rate, records of one size, with producers "
            )
            reason += "of each cell"
            yield Problem(field=f"workload.{key}", reason=reason)


def _replacement_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each replacement of a crashed client. A transformer starts its next
    session instead."""
    for index, entry in enumerate(draft.faults or ()):
        if isinstance(entry, FaultEntry) and entry.parameters.get("comes_back"):
            reason = "the workload transactions does not replace crashed clients"
            yield Problem(field=f"faults[{index}].parameters.comes_back", reason=reason)


def _without(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each setting that only transactions have."""
    if draft.workload is not None and draft.workload.transactions is not None:
        reason = "applies only to kind: transactions; this one is of kind " + draft.workload.kind
        yield Problem(field="workload.transactions", reason=reason)
    cells = expand(draft.cells) if draft.cells is not None else ()
    if any(cell.reads_committed for cell in cells):
        reason = "no transactions are sent: it applies only to workload.kind: transactions"
        yield Problem(field="cells.isolation.level", reason=reason)


def _system_problems(system: object) -> Iterator[Problem]:
    try:
        reason = systems.parse(str(system)).without_transactions
    except ValueError:
        return  # this is a problem of its own
    if reason:
        yield Problem(field=_SYSTEM, reason=f"{reason}; {_OFFERS}")


def _cell_problems(cell: Cell, load: Load) -> Mapping[str, str]:
    """Return the reasons why ``cell`` could have no transactional clients, by field."""
    if cell.acks != "all":
        return {"cells.acks": "transactions need acks: all"}
    if not cell.enable_idempotence:
        return {"cells.enable.idempotence": "transactions need enable.idempotence: true"}
    assert load.transactions is not None
    if cell.producer_type == SYNC:
        return {"cells.producer.type": "a transaction's records are sent together: leave it out"}
    if PARTITIONER in producer_config(cell):
        reason = "a transaction's records are sent to stated partitions: leave it out"
        return {f"cells.producer.{PARTITIONER}": reason}
    if cell.client != LIBRDKAFKA:
        if not client_of(cell.client).transactions:
            able = [name for name, client in CLIENTS.items() if client.transactions]
            reason = f"the program of {cell.client} does not support transactions; those of "
            reason += f"{' and '.join(able)} do"
            return {"cells.client": reason}
        if load.transactions.transformers and not client_of(cell.client).transformers:
            able = [name for name, client in CLIENTS.items() if client.transformers]
            reason = f"the program of {cell.client} cannot be a transformer (KIP-447); those of "
            reason += f"{' and '.join(able)} can: set 0"
            return {"workload.transactions.transformers": reason}
    try:
        clients.try_out_transactional(cell, load.transactions)
    except SpecificationError as refusal:
        return {"cells": str(refusal)}
    return {}
