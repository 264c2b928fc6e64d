"""What is wrong with the stories of a campaign: names, topics; and the faults that they come to."""

from collections.abc import Iterator, Mapping

from ackproof.config.documents import Problem
from ackproof.config.suggestions import meant_of, unknown
from ackproof.harness.campaign.model.schedule import FaultEntry, StoryEntry
from ackproof.harness.campaign.plan.stories import Story, catalogue, target_of, unrolled
from ackproof.history.cell import Cell
from ackproof.nemesis.interface import Members


def story_problems(
    entry: StoryEntry, where: str, cells: Mapping[str, Cell] | None
) -> Iterator[Problem]:
    """That there is no such story, that it cannot play on this topic; ``cells``: by topic, None
    where they are not known."""
    story = catalogue().get(entry.story)
    if story is None:
        reason = unknown("story", entry.story, catalogue())
        yield Problem(field=f"{where}.story", reason=reason)
        return
    for field, reason in _topic_problems(entry, story, cells):
        yield Problem(field=f"{where}.{field}", reason=reason)


def steps_as_faults(
    entry: StoryEntry, where: str, members: Members
) -> Iterator[tuple[str, FaultEntry]]:
    """The steps of a story that is right so far, as faults that can be judged like any other, each
    with its field."""
    partition = None if entry.topic is None else (entry.topic, _number(entry))
    for step in unrolled(catalogue()[entry.story], members, seed=0):
        target = target_of(step, partition)
        fault = FaultEntry(fault=step.fault, target=target, parameters=step.parameters)
        yield f"{where}.story.{step.step}", fault


def _topic_problems(
    entry: StoryEntry, story: Story, cells: Mapping[str, Cell] | None
) -> Iterator[tuple[str, str]]:
    """By field."""
    if entry.topic is None:
        if story.needs_topic:
            yield "topic", f"{entry.story} plays on a partition: a topic is needed"
        return
    if not story.needs_topic:
        yield "topic", f"{entry.story} is about no partition"
    elif cells is None:
        return
    elif (cell := cells.get(entry.topic)) is None:
        yield "topic", f"no cell has the topic {entry.topic!r}; {meant_of(entry.topic, cells)}"
    elif cell.replication_factor < story.replicas:
        needed = f"{entry.story} needs {story.replicas} replicas"
        yield "topic", f"{needed}, and {entry.topic} has {cell.replication_factor}"
    elif _number(entry) >= cell.partitions:
        yield "partition", f"{entry.topic} has the partitions 0 to {cell.partitions - 1}"


def _number(entry: StoryEntry) -> int:
    return entry.partition if entry.partition != "any" else 0
