"""What is wrong with how a campaign's clients send, with nodes on which nobody would run, and with
cells that have a run each."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import ValidationError

from ackproof.config.documents import Problem, problems_of
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.schedule import Entry, StoryEntry
from ackproof.harness.campaign.model.workload import WorkloadSpec
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.properties import mapping
from ackproof.history.cell import LIBRDKAFKA, Value
from ackproof.nemesis.targets import expressions
from ackproof.workloads import WORKLOADS
from ackproof.workloads.configuration import PARTITIONER, producer_config
from ackproof.workloads.producing.keys import keys_of
from ackproof.workloads.spec import SpecificationError

_DEFAULT_KIND = WorkloadSpec.model_fields["kind"].default


def workload_problems(draft: Draft) -> Iterator[Problem]:
    """Everything that is wrong between the workload, the cells and the faults."""
    if draft.workload is not None:
        yield from _amount_problems(draft.workload)
        yield from _key_problems(draft, draft.workload)
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
    """That nobody would run on some of the nodes for clients: a fault on one of these would be
    about nothing."""
    if draft.workload is None or draft.cluster is None:
        return
    most, nodes = draft.workload.clients_at_most, draft.cluster.clients
    if nodes > most:
        they = "client" if most == 1 else "clients"
        reason = f"nobody would run on client-{most + 1}: a cell has {most} {they} at the most"
        yield Problem(field="cluster.clients", reason=reason)


def _amount_problems(workload: WorkloadSpec) -> Iterator[Problem]:
    records = workload.records
    if workload.flat_out and records is None:
        reason = "is missing: flat out there is no other limit to what is sent, and kept on disk"
        yield Problem(field="workload.records", reason=reason)
    elif records is not None and records < workload.producers:
        reason = f"{records} records are too few for {workload.producers} producers"
        yield Problem(field="workload.records", reason=reason)


def _key_problems(draft: Draft, workload: WorkloadSpec) -> Iterator[Problem]:
    """Yield a problem where the partition of a record would not be known before it is sent. A
    workload that writes in transactions has no keys, and says so itself."""
    if draft.cells is None or workload.is_transactional:
        return
    keys = workload.keys
    cells = expand(draft.cells)
    alike: dict[tuple[int, Value | None], list[str]] = {}
    for cell in cells:
        config = producer_config(cell) if cell.client == LIBRDKAFKA else {}
        alike.setdefault((cell.partitions, config.get(PARTITIONER)), []).append(cell.name)
    for (partitions, partitioner), names in alike.items():
        try:
            keys_of(keys, partitions, partitioner)
        except SpecificationError as refusal:
            field = "workload.keys" if partitioner is None else f"cells.producer.{PARTITIONER}"
            yield Problem(field=field, reason=f"{refusal} (in {', '.join(names)})")
    others = sorted({cell.client for cell in cells} - {LIBRDKAFKA})
    if others and keys is not None:
        reason = f"programs are told no keys, and there are cells of {', '.join(others)}"
        yield Problem(field="workload.keys", reason=reason)


def _topics_named(entries: tuple[Entry, ...]) -> Iterator[Problem]:
    """With a run each, no topic is there in all of them."""
    for index, entry in enumerate(entries):
        if isinstance(entry, StoryEntry):
            field, topics = f"faults[{index}].topic", [entry.topic]
        else:
            field, topics = f"faults[{index}].target", list(_topics_of(entry.target))
        for topic in topics:
            if topic is not None and topic != expressions.ANY and not topic.startswith("__"):
                reason = f"cells.alone: the topic {topic} is in one run only; say any"
                yield Problem(field=field, reason=reason)


def _topics_of(target: str) -> Iterator[str | None]:
    try:
        yield from (role.topic for role in expressions.parse(target).roles)
    except ValueError:
        return  # told elsewhere
