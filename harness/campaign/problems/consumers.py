"""What is wrong with the consumers of a campaign, and with what its clients are called."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ackproof.config.documents import Problem
from ackproof.harness.backends import CLIENT_NODE
from ackproof.harness.campaign.clients import consumers
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.clusters import ClusterSweep
from ackproof.harness.campaign.model.values.where import where_problems
from ackproof.harness.campaign.model.workload import WorkloadSpec
from ackproof.harness.campaign.problems import coordinators
from ackproof.harness.campaign.problems.cells import NAME_MAX
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.properties import mapping
from ackproof.history.cell import Cell, Value
from ackproof.history.manifest import PlannedWriter
from ackproof.history.names import Stem
from ackproof.workloads import WORKLOADS
from ackproof.workloads.interface import Group, Place
from ackproof.workloads.spec import SpecificationError

_NOWHERE = Place(node=CLIENT_NODE, history="", progress="")
_FILE_NAME_MAX = 255
"""Bytes of a file's name, on every file system that Linux is likely to have."""
_PARTS_MAX = 999_999
"""Flushes of one file: a second each, that is eleven days."""


def own_consumer_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """What is wrong with groups by themselves. Read as they are written, so that they are judged
    whatever else is wrong with the file."""
    groups = mapping(content, "workload").get("groups")
    first: dict[str, int] = {}
    for index, group in enumerate(groups if isinstance(groups, list) else []):
        if not isinstance(group, dict):
            continue
        name, where = group.get("name"), f"workload.groups[{index}]"
        if isinstance(name, str) and first.setdefault(name, index) != index:
            reason = f"workload.groups[{first[name]}] is called {name!r}, too"
            yield Problem(field=f"{where}.name", reason=reason)
        yield from _property_problems(mapping(group, "consumer"), f"{where}.consumer")


def consumer_problems(draft: Draft) -> Iterator[Problem]:
    """What is wrong between properties that are right one by one, and between groups and cells."""
    if draft.workload is None:
        return
    for index, spec in enumerate(draft.workload.groups):
        for reason in dict.fromkeys(_refusals(spec.group, draft.cluster)):
            yield Problem(field=f"workload.groups[{index}].consumer", reason=reason)
    if draft.cells is not None:
        # Cells that share a topic, or whose topic's name is too long, are told as such.
        topics = {cell.topic: cell for cell in expand(draft.cells) if len(cell.topic) <= NAME_MAX}
        cells = list(topics.values())
        settings = [cell.settings for cell in cells]
        yield from _reader_problems(draft.workload, settings)
        for index, spec in enumerate(draft.workload.groups):
            yield from where_problems(f"workload.groups[{index}].where", spec.where, settings)
        yield from _name_problems(draft.workload, cells)
        yield from _file_problems(draft.workload, cells)


def _reader_problems(
    spec: WorkloadSpec, settings: Sequence[Mapping[str, Value]]
) -> Iterator[Problem]:
    field = "workload.readers.where"
    if spec.readers_where and not spec.readers:
        yield Problem(field=field, reason="there are no tail readers: give workload.readers")
        return
    yield from where_problems(field, spec.readers_where, settings)


def _refusals(group: Group, cluster: ClusterSweep | None) -> Iterator[str]:
    """Why librdkafka would make no member of ``group``, or a coordinator would take none."""
    try:
        consumers.try_out(group)
    except SpecificationError as refusal:
        yield str(refusal)
        return
    session_ms = int(consumers.properties(group)["session.timeout.ms"])
    for point, _ in cluster.points() if cluster is not None else ():
        if (reason := coordinators.session_refused(point, session_ms)) is not None:
            yield reason


def _property_problems(given: Mapping[str, object], where: str) -> Iterator[Problem]:
    for name, value in given.items():
        if not isinstance(value, str | int | float):
            continue  # what can be no value is for the model to refuse
        if (reason := consumers.refused(name, value)) is not None:
            yield Problem(field=f"{where}.{name}", reason=reason)


def _name_problems(spec: WorkloadSpec, cells: Sequence[Cell]) -> Iterator[Problem]:
    """A client's name is put together of others: the group ``c`` of the topic ``a-b`` and the group
    ``b-c`` of the topic ``a`` would be one."""
    names = (
        client.name
        for cell in cells
        for client in WORKLOADS[spec.kind].clients(
            cell, spec.load_of(cell), bootstrap_servers="", places=[_NOWHERE]
        )
    )
    for name, many in Counter(names).items():
        if many > 1:
            reason = f"{many} clients would be called {name}: name groups or cells otherwise"
            yield Problem(field="workload.groups", reason=reason)


def _file_problems(spec: WorkloadSpec, cells: Sequence[Cell]) -> Iterator[Problem]:
    """A file is called after both the topic and the client, whose name has the topic's, too."""
    for cell in sorted(cells, key=lambda cell: -len(cell.topic)):
        for writer in WORKLOADS[spec.kind].writers([(cell, spec.load_of(cell))], [CLIENT_NODE]):
            if (reason := _unwritable(writer)) is not None:
                yield Problem(field="cells", reason=reason)
                return


def _unwritable(writer: PlannedWriter) -> str | None:
    """Why there can be no file of this name, if so."""
    try:
        partition = max(writer.partitions, default=None)
        stem = Stem(table=writer.table, writer=writer.writer, partition=partition)
    except ValueError as refusal:
        return f"{refusal}; sweep less"
    name = f".{stem.part(_PARTS_MAX)}.part"  # as it is called while it is copied from a host
    if len(name) <= _FILE_NAME_MAX:
        return None
    return f"the file {name} would have more than {_FILE_NAME_MAX} characters: sweep less"
