"""What is wrong with orders on topics that are written to. Those that change one for good are
refused where it could not be told any more what was lost, and so is one that would change nothing:
it is not proven when it strikes, and costs its cells their verdicts."""

from collections.abc import Iterable, Iterator, Mapping

from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.schedule import FaultEntry
from ackproof.harness.campaign.plan.faults import parameters_of
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.history.cell import Cell
from ackproof.nemesis.admin.churn import DELETE_TOPIC
from ackproof.nemesis.admin.live_topics import ADD_PARTITIONS, ADVANCE_LOG_START
from ackproof.nemesis.admin.orders import ALTER_MIN_ISR, MIN_ISR, MinIsrAltered
from ackproof.nemesis.targets import expressions
from ackproof.workloads.interface import Load


def live_topic_problems(draft: Draft, cells: Mapping[str, Cell]) -> Iterator[Problem]:
    """Of a campaign whose faults are right by themselves. ``cells``: by topic."""
    for index, entry in enumerate(draft.faults or ()):
        if not isinstance(entry, FaultEntry):
            continue
        field = f"faults[{index}]"
        if entry.fault == DELETE_TOPIC.name:
            yield from _deletion(entry, field)
        elif entry.fault == ALTER_MIN_ISR.name:
            yield from _unchanged(entry, _meant(entry.target, cells), f"{field}.parameters")
        elif entry.fault in (ADD_PARTITIONS.name, ADVANCE_LOG_START.name):
            of = _meant(entry.target, cells)
            for reason in dict.fromkeys(_reasons(entry.fault, of, draft)):
                yield Problem(field=f"{field}.target", reason=reason)


def _deletion(entry: FaultEntry, field: str) -> Iterator[Problem]:
    roles = expressions.parse(entry.target).roles
    if any(role.name == "topic" for role in roles):
        yield Problem(
            field=f"{field}.target",
            reason="a topic that is written to is not deleted: made again, it would begin at the "
            "same offsets in the same epochs, and nobody could tell what was lost from what was "
            "deleted; delete-topic makes topics of its own, on the brokers that it is aimed at",
        )


def _unchanged(entry: FaultEntry, cells: Iterable[Cell], field: str) -> Iterator[Problem]:
    """Of a topic that is drawn, too: it may be drawn."""
    parameters = parameters_of(entry.fault, entry.parameters)
    assert isinstance(parameters, MinIsrAltered)
    value = parameters.min_insync_replicas
    same = [cell.topic for cell in cells if cell.min_insync_replicas == value]
    if same:
        yield Problem(
            field=f"{field}.min_insync_replicas",
            reason=f"{MIN_ISR} of {', '.join(same)} is {value} already, so that nothing would "
            "change: give another value, or other topics",
        )


def _meant(target: str, cells: Mapping[str, Cell]) -> list[Cell]:
    """The cells whose topics the target names; where that is any, all."""
    named = {
        role.topic
        for topic in cells
        for role in expressions.parse(expressions.on_topic(target, topic)).roles
    }
    return [cell for topic, cell in cells.items() if topic in named]


def _reasons(fault: str, cells: Iterable[Cell], draft: Draft) -> Iterator[str]:
    for cell in cells:
        load = None if draft.workload is None else draft.workload.load_of(cell)
        if fault == ADVANCE_LOG_START.name and cell.acks == "0":
            yield (
                f"{cell.topic}: with acks=0 nobody is told an offset, so that nobody can tell what "
                "was lost from what was deleted"
            )
        if load is not None:
            yield from (f"{cell.topic}: {reason}" for reason in _of_readers(fault, load))


def _of_readers(fault: str, load: Load) -> Iterator[str]:
    if fault == ADVANCE_LOG_START.name and (load.readers or load.groups):
        yield (
            "it has consumers, and nobody could tell what they passed over from what was deleted "
            "before they came to it"
        )
    if fault == ADD_PARTITIONS.name and load.groups:
        yield (
            "it has consumer groups, whose members would be given partitions of which the manifest "
            "knows nothing"
        )
