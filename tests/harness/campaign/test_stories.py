"""Stories: steps that are ordinary faults, each on its cue."""

import dataclasses
import io
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.schedule import FaultEntry, StoryEntry
from ackproof.harness.campaign.plan.context import plan_context
from ackproof.harness.campaign.plan.faults import ScheduledFault, acts, lanes
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.campaign.plan.scheduler import plan as plan_on
from ackproof.harness.campaign.plan.stories import CueSpec, Story, StoryStep, catalogue, mistakes
from ackproof.harness.campaign.problems.faults import fault_problems
from ackproof.harness.campaign.problems.places import lacking_capabilities
from ackproof.harness.campaign.validation import load
from ackproof.harness.cli import cli
from ackproof.harness.commands.catalogues import fault_catalogue
from ackproof.harness.commands.preview import timelines
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.recorder import RunRecorder
from ackproof.harness.running.steps import nemesis as steps
from ackproof.history import reader
from ackproof.infra.api.interface import ClusterView, PartitionView
from ackproof.testing.memory.cluster import Memory
from tests.support.builders.drafts import draft_of
from tests.support.fakes.jumping_clock import JumpingClock

TOPIC = "acks-all-minisr-2"


def telling(campaign: Campaign, *faults: object, brokers: int = 4) -> Campaign:
    cluster = campaign.cluster.model_copy(update={"brokers": (brokers,)})
    cells = campaign.cells.model_copy(update={"replication_factor": (brokers,)})
    return campaign.model_copy(update={"faults": faults, "cluster": cluster, "cells": cells})


def entry(story: str, **more: object) -> StoryEntry:
    needs = catalogue()[story].needs_topic
    topic = {"topic": TOPIC} if needs else {}
    return StoryEntry.model_validate({"story": story, **topic}).model_copy(update=more)


def plan(campaign: Campaign, seed: int = 1) -> tuple[ScheduledFault, ...]:
    return plan_on(campaign, seed, plan_context(campaign, next(campaign.cluster.points())[0]))


@pytest.mark.parametrize("name", catalogue())
def test_the_cues_of_every_story_come(name: str) -> None:
    story = catalogue()[name]
    assert not list(mistakes(story))
    assert story.summary
    assert story.source


@pytest.mark.parametrize("name", catalogue())
def test_every_story_can_be_in_a_campaign(campaign_file, name: str) -> None:
    document = {"story": name, **({"topic": TOPIC} if catalogue()[name].needs_topic else {})}
    changes = {"faults": [document], "cluster.brokers": 4, "cells.replication.factor": 4}
    changes.pop("cells.replication.factor")
    changes["cells.replication~factor"] = 4
    if catalogue()[name].needs_rack:
        changes["cluster.racks"] = ["a", "b"]
    # One is about the coordinator of groups.
    changes["workload.groups"] = [{"name": "g", "members": 1}]
    campaign = load(campaign_file(changes))
    assert not list(fault_problems(draft_of(campaign)))
    found = plan(campaign)
    assert len({fault.part.step for fault in found if fault.part}) == len(found)
    assert min(fault.start_ms for fault in found) == campaign.schedule.warmup
    assert all(fault.end_ms >= fault.start_ms for fault in found)
    again = load(_written(campaign, campaign_file))
    assert again.faults == campaign.faults, "the resolved file reads back"


def _written(campaign: Campaign, campaign_file) -> Path:
    path = campaign_file({})
    path.write_text(campaign.to_yaml(), encoding="utf-8")
    return path


def test_any_partition_is_the_same_for_the_whole_story_and_drawn_by_the_seed(
    campaign: Campaign,
) -> None:
    told = telling(campaign, entry("two-leaders-in-a-row"))
    found = {seed: {f.part.partition for f in plan(told, seed) if f.part} for seed in range(20)}
    assert all(len(partitions) == 1 for partitions in found.values())
    assert len({next(iter(partitions)) for partitions in found.values()}) == 3
    targets = {fault.target for fault in plan(told, 5)}
    assert len(targets) == 1, "of both steps"


def test_rack_of_a_story_is_drawn_by_the_seed_unless_it_is_named(campaign: Campaign) -> None:
    cluster = campaign.cluster.model_copy(update={"racks": ("a", "b", "c")})
    zones = campaign.model_copy(update={"cluster": cluster})
    drawn = {plan(telling(zones, entry("zone-failure")), seed)[0].target for seed in range(20)}
    assert drawn == {"rack(a)", "rack(b)", "rack(c)"}
    named = plan(telling(zones, entry("zone-cut-off", rack="b")))
    assert named[0].target == "rack(b) <-> all + quorum - rack(b) + clients"
    assert plan(telling(zones, entry("zone-failure", rack="a")))[0].affected.brokers == 2


def test_each_broker_has_its_turn(campaign: Campaign) -> None:
    told = telling(campaign, entry("rolling-restart"))
    orders = {tuple(fault.target for fault in plan(told, seed)) for seed in range(10)}
    assert all(sorted(order) == [f"broker-{n}" for n in range(1, 5)] for order in orders)
    assert len(orders) > 5
    begins = [str(fault.part.begins) for fault in plan(told) if fault.part and fault.part.begins]
    assert begins == [f"restart-{n} healed, whole" for n in range(1, 4)]
    impatient = plan(telling(campaign, entry("impatient-roll")))
    begins = [str(fault.part.begins) for fault in impatient if fault.part and fault.part.begins]
    assert begins == [f"restart-{n} healed" for n in range(1, 4)]


def test_steps_are_planned_faults_of_the_manifest(campaign: Campaign) -> None:
    told = telling(campaign, entry("last-replica-standing"), entry("crash-loop"))
    told = told.model_copy(update={"seed": 3})
    (run,) = manifest_of(told, runs_of(told)).runs
    assert [fault.fault_id for fault in run.faults] == list(range(1, 8))
    labels = {str(fault.story).split()[0] for fault in run.faults}
    assert {label.partition("#")[0] for label in labels} == {"last-replica-standing", "crash-loop"}
    assert {label.partition("#")[2] for label in labels} == {"1", "2"}


def test_a_story_at_a_time_is_played_then(campaign: Campaign) -> None:
    told = telling(campaign, entry("crash-loop", at=(40_000, 40_000)))
    found = plan(told)
    assert found[0].start_ms == 40_000
    assert all(fault.gap_ms is None for fault in found)
    assert len(acts(found)) == 1


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        ({"story": "the-end"}, "story", "unknown story 'the-end'; known: rolling-restart"),
        ({"story": "crash-loop"}, "topic", "runs on a partition: give a topic"),
        ({"story": "rolling-restart", "topic": TOPIC}, "topic", "does not run on a partition"),
        ({"story": "crash-loop", "topic": "orders"}, "topic", "no cell has the topic 'orders'"),
        (
            {"story": "crash-loop", "topic": TOPIC, "partition": 3},
            "partition",
            "has the partitions 0 to 2",
        ),
        (
            {"story": "two-then-three-of-four", "topic": TOPIC},
            "topic",
            "needs 4 replicas, but acks-all-minisr-2 has 3",
        ),
        ({"story": "zone-failure"}, "story.killed.target", "no racks are known"),
        ({"story": "crash-loop", "topic": TOPIC, "rack": "a"}, "rack", "is not about a rack"),
        ({"story": "crash-loop", "hold": "3s"}, "hold", "unknown key"),
        ({"story": "crash-loop", "partition": -1}, "partition", "greater than or equal to 0"),
    ],
)
def test_refused(campaign_file, document, field: str, reason: str) -> None:
    file = campaign_file({"faults": [document]})
    result = CliRunner().invoke(cli, ["run", str(file), "--dry-run"])
    assert result.exit_code == 2, result.output
    assert f"faults[0].{field}" in result.stderr
    assert reason in result.stderr


@pytest.mark.parametrize("system", ["bundled", "kafka:3.9.1", "kafka:0.10.2.2"])
def test_unknown_story_is_refused_for_every_system(campaign_file, system: str) -> None:
    file = campaign_file({"cluster": {"system": system}, "faults": [{"story": "the-end"}]})
    result = CliRunner().invoke(cli, ["run", str(file), "--dry-run"])
    assert result.exit_code == 2, result.output
    assert "faults[0].story" in result.stderr


def test_missing_capability_of_a_scenario_step_is_named(campaign: Campaign) -> None:
    told = telling(campaign, entry("last-replica-standing"))
    reasons = [str(problem) for problem in lacking_capabilities(told, frozenset())]
    assert any(reason.startswith("faults[0].story: cut needs cut-links") for reason in reasons)
    assert any(reason.startswith("faults[0].story: kill needs signals") for reason in reasons)


@pytest.mark.parametrize(
    ("steps_", "reason"),
    [
        ([("a", None, None), ("a", None, None)], "two steps have the same name"),
        ([("a", "b.verified", None), ("b", None, None)], "which is not an earlier step"),
        ([("a", None, "b.healed")], "there is no such step"),
        ([("a", None, "a.healed")], "to be healed"),
        ([("a", None, "b.injected"), ("b", "a.healed", None)], "to be healed"),
        ([("a", None, "b.healed"), ("b", None, "a.healed")], "to be healed"),
    ],
)
def test_cues_that_cannot_come(steps_: list[tuple[str, Any, Any]], reason: str) -> None:
    told = (
        StoryStep(
            step=name,
            fault="kill",
            target="one",
            begins=begins and CueSpec(after=begins),
            until=until and CueSpec(after=until),
        )
        for name, begins, until in steps_
    )
    story = Story(summary="x", source="x", steps=tuple(told))
    assert any(reason in mistake for mistake in mistakes(story))


def test_story_with_an_unknown_fault_is_refused() -> None:
    story = Story(summary="x", source="x", steps=(StoryStep(step="a", fault="x", target="one"),))
    assert list(mistakes(story)) == ["a uses the fault x, which does not exist"]


@pytest.mark.parametrize("width", [80, 130])
def test_printed_scenarios_fit_the_width(campaign: Campaign, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    told = telling(campaign, entry("last-replica-standing", at=(7_000, 7_000)))
    console.print(timelines(told.model_copy(update={"seed": 4})))
    printed = console.export_text()
    assert "on its cue" in printed
    assert "7.0 s" in printed
    console.print(fault_catalogue())
    printed += console.export_text()
    for name in catalogue():
        assert name in printed
    assert max(map(len, printed.splitlines())) <= width


# --- played ------------------------------------------------------------------------------------


@pytest.fixture
def played(run: Run, tmp_path: Path) -> Callable[..., Run]:
    """The run with these faults instead, on a clock that takes no time."""

    def play(*faults: object, **schedule: object) -> Run:
        changed = run.campaign.schedule.model_copy(update=schedule)
        campaign = run.campaign.model_copy(update={"faults": faults, "schedule": changed})
        planned = plan(campaign)
        clock = JumpingClock(len(list(lanes(planned))))
        return dataclasses.replace(
            run,
            campaign=campaign,
            plan=planned,
            clock=clock,
            recorder=RunRecorder(tmp_path / "history", clock),
        )

    return play


def carry_out(run: Run, seconds: float = 5_000.0) -> list[dict[str, Any]]:
    """In a thread of the faults' own: where there is but one lane, it goes on in there."""
    alone = len(list(lanes(run.plan))) == 1
    with ThreadPoolExecutor(1, thread_name_prefix="faults-alone" if alone else "step") as pool:
        pool.submit(steps.faults, run, Deadline.after(run.clock, seconds)).result()
    return reader.read(run.history, "faults").to_pylist()


def times(rows: list[dict[str, Any]], run: Run) -> Mapping[tuple[str, str], float]:
    """Return the time of each step and event."""
    names = {fault.fault_id: fault.part.step for fault in run.plan if fault.part is not None}
    return {(names[row["fault_id"]], row["event"]): row["time"] / 1e9 for row in rows}


SCRIPT: Mapping[str, list[tuple[tuple[str, str], tuple[str, str]]]] = {
    "rolling-restart": [
        (("restart-1", "healed"), ("restart-2", "inject")),
        (("restart-2", "healed"), ("restart-3", "inject")),
    ],
    "impatient-roll": [
        (("restart-1", "healed"), ("restart-2", "inject")),
        (("restart-2", "healed"), ("restart-3", "inject")),
    ],
    "crash-loop": [
        (("bounce-1", "healed"), ("bounce-2", "inject")),
        (("bounce-4", "healed"), ("bounce-5", "inject")),
    ],
    "restarted-follower-leads": [(("restarted", "healed"), ("dies", "inject"))],
    "follower-back-first": [
        (("leader-dies", "injected"), ("followers-die", "inject")),
        (("followers-die", "healed"), ("leader-dies", "heal")),
    ],
    "two-leaders-in-a-row": [
        (("first", "injected"), ("second", "inject")),
        (("second", "verified"), ("first", "heal")),
        (("first", "healed"), ("second", "heal")),
    ],
    "truncated-at-a-lagging-watermark": [
        (("slow", "verified"), ("deaf", "inject")),
        (("deaf", "verified"), ("first", "inject")),
        (("first", "injected"), ("second", "inject")),
        (("second", "verified"), ("deaf", "heal")),
        (("second", "verified"), ("slow", "heal")),
        (("second", "verified"), ("first", "heal")),
        (("first", "healed"), ("second", "heal")),
    ],
    "zookeeper-hangs": [
        (("die", "injected"), ("hang", "inject")),
        (("hang", "healed"), ("die", "heal")),
    ],
}


@pytest.mark.parametrize("name", SCRIPT)
def test_scenario_steps_follow_their_script(played, memory: Memory, name: str) -> None:
    run = played(entry(name))
    rows = carry_out(run)
    at = times(rows, run)
    assert all(row["proven"] is not False for row in rows), rows
    for before, after in SCRIPT[name]:
        assert at[before] <= at[after]
        order = [(row["fault_id"], row["event"]) for row in rows]
        names = {fault.part.step: fault.fault_id for fault in run.plan}
        assert order.index((names[before[0]], before[1])) < order.index((names[after[0]], after[1]))
    assert {row["fault_id"] for row in rows if row["event"] == "healed"} == {
        fault.fault_id for fault in run.plan
    }
    assert run.ledger.still_open() == ()
    assert not memory.backend.links_cut


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("last-replica-standing", "dies"),
        ("last-replica-loses-power", "dark"),
        ("lagging-watermark", None),
    ],
)
def test_step_waits_for_the_isr(played, memory: Memory, name: str, last: str | None) -> None:
    _follow_the_links(memory)
    run = played(entry(name, partition=0))
    rows = carry_out(run)
    at = times(rows, run)
    assert all(row["proven"] is not False for row in rows), rows
    facts = {row["fault_id"]: json.loads(row["facts"]) for row in rows if row["event"] == "inject"}
    names = {fault.part.step: fault.fault_id for fault in run.plan if fault.part}
    isr = {step: facts[n]["partitions"][f"{TOPIC}-0"]["isr"] for step, n in names.items()}
    if last is not None:
        assert isr == {"shrunk": [1, 2, 3], last: [1]}
        assert at[last, "inject"] <= at["shrunk", "heal"] < at[last, "heal"]
    else:
        assert [len(isr[step]) for step in ("lagging", "failover", "takeover")] == [3, 2, 2]
        assert isr["failover"] != isr["takeover"]
        assert at["failover", "injected"] <= at["lagging", "heal"]
        assert at["takeover", "verified"] <= at["failover", "heal"]


@pytest.mark.parametrize("name", ["last-replica-standing", "last-replica-loses-power"])
def test_broker_elected_while_the_isr_shrinks_is_alone_too(
    played, memory: Memory, name: str
) -> None:
    """The preferred leader, which was back just before: with a follower in reach it would keep it,
    and the others, which it does not hear, would be all that the ISR loses."""
    _follow_the_links(memory, elected=3)
    run = played(entry(name, partition=0))
    rows = carry_out(run)
    assert all(row["proven"] is not False for row in rows), rows
    facts = [json.loads(row["facts"]) for row in rows if row["event"] == "inject"]
    struck = [one["partitions"][f"{TOPIC}-0"] for one in facts[:2]]
    assert [(one["leader"], one["isr"]) for one in struck] == [(1, [1, 2, 3]), (3, [3])]


def test_a_leader_that_is_alone_in_sync_for_a_moment_is_no_isr_that_has_shrunk(
    played, memory: Memory
) -> None:
    """Test that a kill is not injected in this state: no other broker could lead."""
    alone = iter([True] * 5)
    _follow_the_links(memory, lambda: bool(memory.backend.links_cut) and next(alone, False))
    run = played(entry("lagging-watermark", partition=0))
    rows = carry_out(run)
    assert all(row["proven"] is not False for row in rows), rows
    facts = {row["fault_id"]: json.loads(row["facts"]) for row in rows if row["event"] == "inject"}
    isrs = [facts[number]["partitions"][f"{TOPIC}-0"]["isr"] for number in (1, 2, 3)]
    assert list(map(len, isrs)) == [3, 2, 2]


def test_scenario_begins_when_enough_replicas_are_in_sync(played, memory: Memory) -> None:
    run = played(entry("two-leaders-in-a-row", partition=0))
    caught_up = run.clock.monotonic() + 40
    _follow_the_links(memory, lambda: run.clock.monotonic() < caught_up)
    rows = carry_out(run)
    assert all(row["proven"] is not False for row in rows), rows
    assert {row["fault_id"] for row in rows if row["event"] == "healed"} == {1, 2}
    facts = json.loads(next(row["facts"] for row in rows if row["event"] == "inject"))
    assert len(facts["partitions"][f"{TOPIC}-0"]["isr"]) == 3


def _follow_the_links(
    memory: Memory, alone: Callable[[], bool] = lambda: False, elected: int | None = None
) -> None:
    """The ISR is those whom the leader hears, and comes back a look later; only the leader
    while it is ``alone``. ``elected`` leads as soon as any link is cut."""
    system, plain = memory.system, type(memory.system).view

    def heard(view: PartitionView) -> PartitionView:
        cut = memory.backend.links_cut
        if cut and elected is not None:
            view = dataclasses.replace(view, leader=elected)
        if alone():
            return dataclasses.replace(view, isr=(view.leader,))
        isr = tuple(
            b
            for b in view.isr
            if b == view.leader or (f"broker-{b}", f"broker-{view.leader}") not in cut
        )
        return dataclasses.replace(view, isr=isr)

    class Following(type(system)):  # type: ignore[misc]
        def view(self) -> ClusterView:
            found = plain(self)
            changed = {name: heard(one) for name, one in found.partitions.items()}
            return dataclasses.replace(found, partitions=changed)

    system.__class__ = Following


def test_step_that_waits_for_an_unproven_step_is_not_injected(played, memory: Memory) -> None:
    memory.backend.leaky = True
    run = played(entry("last-replica-standing"))
    rows = carry_out(run)
    shrunk, dies = (
        [(row["event"], row["proven"]) for row in rows if row["fault_id"] == number]
        for number in (1, 2)
    )
    assert ("verified", False) in shrunk
    assert ("healed", True) in shrunk
    assert [event for event, _ in dies] == ["failed"]
    evidence = next(row["evidence"] for row in rows if row["event"] == "failed")
    assert json.loads(evidence) == {"error": "CueMissed: shrunk was not verified"}
    assert all(broker.starts == 0 for broker in memory.system.brokers)
    assert run.ledger.still_open() == ()


def test_cue_that_does_not_occur_in_time_fails_its_step(played, memory: Memory) -> None:
    memory.system.lingering = {1, 2, 3}
    run = played(entry("last-replica-standing"))
    rows = carry_out(run)
    failed = next(row for row in rows if row["event"] == "failed")
    assert "isr-is-leader did not happen" in failed["evidence"]
    healed = [row["event"] for row in rows if row["fault_id"] == 1]
    assert healed[-1] == "healed", "what was held until then is let go"
    assert not memory.backend.links_cut


def test_a_lane_goes_on_when_the_story_is_over(played) -> None:
    after = FaultEntry(fault="pause", target="zookeeper").model_copy(update={"hold": (500, 500)})
    run = played(entry("restarted-follower-leads"), after, order="listed", settle=0)
    rows = carry_out(run)
    healed = max(row["time"] for row in rows if row["fault"] == "kill")
    struck = min(row["time"] for row in rows if row["fault"] == "pause")
    assert struck >= healed
    assert (struck - healed) / 1e9 >= run.plan[-1].gap_ms / 1000 - 0.5


def test_two_stories_at_once(played) -> None:
    run = played(
        entry("crash-loop", at=(1_000, 1_000)), entry("rolling-restart", at=(2_000, 2_000))
    )
    rows = carry_out(run)
    assert {row["fault_id"] for row in rows if row["event"] == "healed"} == {
        fault.fault_id for fault in run.plan
    }
