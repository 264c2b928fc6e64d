"""What is wrong with when a campaign's faults strike, given that each by itself is right."""

from collections.abc import Iterator

from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.schedule import FAULTS_MAX, Entry, StoryEntry
from ackproof.harness.campaign.plan.ground import Ground
from ackproof.harness.campaign.plan.storytelling import most_at_once
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.nemesis.targets.bounds import Count


def schedule_problems(draft: Draft) -> Iterator[Problem]:
    """Everything that is wrong with the schedule of ``draft``, as far as it can be told."""
    if draft.schedule is None or draft.faults is None:
        return
    campaign = draft.as_campaign
    yield from _contradictions(campaign)
    crowded = [problem for ground in draft.grounds for problem in _too_many(campaign, ground)]
    yield from {problem.field: problem for problem in crowded}.values()
    if not crowded and any(len(plan) > FAULTS_MAX for plan in draft.plans):
        reason = f"makes more than {FAULTS_MAX:,} faults a run"
        yield Problem(field="schedule", reason=reason)


def _contradictions(campaign: Campaign) -> Iterator[Problem]:
    schedule = campaign.schedule
    if schedule.lasts is not None and schedule.rounds > 1:
        reason = "is instead of rounds: say how long, or how often"
        yield Problem(field="schedule.lasts", reason=reason)
    for index, entry in enumerate(campaign.faults):
        if entry.weight is not None and (schedule.order != "drawn" or entry.at is not None):
            why = "it has a time of its own" if entry.at is not None else "nothing is drawn"
            reason = f"is for schedule.order: drawn, and {why}"
            yield Problem(field=f"faults[{index}].weight", reason=reason)


def _too_many(campaign: Campaign, ground: Ground) -> Iterator[Problem]:
    for index, entry in enumerate(campaign.faults):
        befallen, where = _befallen(entry, ground)
        for kind, found, room in _kinds(befallen, ground.room):
            if found > room:
                reason = f"befalls up to {found} {kind} at once; schedule.at.most allows {room}"
                yield Problem(field=f"faults[{index}].{where}", reason=reason)


def _befallen(entry: Entry, ground: Ground) -> tuple[Count, str]:
    if isinstance(entry, StoryEntry):
        return most_at_once(entry, ground), "story"
    return ground.befallen(entry.fault, entry.target), "target"


def _kinds(found: Count, room: Count) -> Iterator[tuple[str, int, int]]:
    yield "brokers", found.brokers, room.brokers
    yield "zookeepers", found.zookeepers, room.zookeepers
