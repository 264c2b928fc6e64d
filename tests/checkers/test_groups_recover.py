"""Groups that go on when the cluster has recovered, and ones that do not: generated, and by hand
what excuses them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.checkers.verdict import CampaignResult, Guarantee
from ackproof.history.sessions import SHOWN_NOTHING
from tests.support.builders.checked_runs import FAIL, PASS, checked, run, told
from tests.support.builders.consumers import Given, MadeConsumer, Seen, seen
from tests.support.builders.consumers import given as assigned
from tests.support.builders.examples import examples
from tests.support.builders.histories import (
    FINISHED,
    KILL,
    MadeRun,
    at,
    cell,
    client_fault,
    history_of,
    kept,
    recovered,
    write_campaign,
)

GROUP = "t-g"
PEACE = 65
"""Seconds, from which on the cluster is seen to have recovered."""
TIME = 60
"""Seconds that a group has from then on."""
ON_DISK = settings(max_examples=examples(10), deadline=None)


@dataclass(frozen=True, kw_only=True)
class Reign:
    """A member has the partition between two moments, in seconds."""

    member: int
    since: float
    until: float


@dataclass(frozen=True, kw_only=True)
class World:
    """One partition, and the two members of the group that reads it; clients are asked to end at
    ``end``. The member with the partition reads each record ``lag`` seconds after it was acked, or
    after it was given the partition; the last ones perhaps when it has been asked to end."""

    acks: Sequence[float]
    leadership_terms: Sequence[Reign]
    lag: float
    end: float
    mute_from: float = 10_000
    """The time from which no member reads anything."""

    @property
    def members(self) -> list[MadeConsumer]:
        polls: tuple[list[Seen], list[Seen]] = ([], [])
        events: tuple[list[Given], list[Given]] = ([], [])
        due = 0
        for term in self.leadership_terms:
            mine, gone = polls[term.member], min(term.until, self.end + 5)
            last = mine[-1].poll if mine else 0
            events[term.member].append(assigned(last, at(term.since), due))
            while due < len(self.acks):
                time = max(self.acks[due], term.since) + self.lag
                if time >= min(gone, self.mute_from):
                    break
                last += 1
                mine.append(seen(last, due, 1, due, at(time)))
                due += 1
            events[term.member].append(assigned(last, at(gone), None, "revoked"))
        return [
            MadeConsumer(client=f"member-{n}", group=GROUP, polls=polls[n], assigned=events[n])
            for n in (0, 1)
        ]


@st.composite
def worlds(draw: st.DrawFn, shortest: int = 70) -> World:
    """Members take turns whenever they like, and for a while no member has the partition."""
    end = draw(st.integers(shortest, 400))
    step = draw(st.floats(1.5, 4))
    acks = [1.5 + step * number for number in range(int((end + 3) / step))]
    leadership_terms: list[Reign] = []
    since = 0.5
    while since < end:
        until = since + draw(st.integers(5, 200))
        leadership_terms.append(Reign(member=draw(st.integers(0, 1)), since=since, until=until))
        since = until + draw(st.integers(1, 20))
    return World(
        acks=acks, leadership_terms=leadership_terms, lag=draw(st.floats(0.001, 3)), end=end
    )


def made(world: World, **changes: Any) -> MadeRun:
    flushed = {"time": at(world.end)}
    phases = [{**row, **(flushed if row["phase"] == "flush" else {})} for row in FINISHED]
    given = {
        "partitions": {("t", 0): kept(*world.acks)},
        "cells": (timed(TIME),),
        "consumers": world.members,
        "phases": phases,
        "recovery": [recovered(seconds=PEACE)],
    }
    return run(**{**given, **changes})


def timed(seconds: int | None) -> Any:
    """A cell whose group has so much time; None: as in a manifest of former days."""
    planned = cell(groups={GROUP: "at-least-once"})
    ms = None if seconds is None else seconds * 1000
    (group,) = planned.groups
    return planned.model_copy(update={"groups": (group.model_copy(update={"recovery_ms": ms}),)})


def judged(world: World, **changes: Any) -> tuple[CampaignResult, Guarantee]:
    with TemporaryDirectory() as directory:
        result = checked(write_campaign(Path(directory), made(world, **changes)))
    return result, of(result)


def of(result: CampaignResult) -> Guarantee:
    (found,) = [g for g in result.cells[0].guarantees if g.name == "groups-recover"]
    return found


@ON_DISK
@given(worlds())
def test_group_with_members_that_read_acked_records_recovers(world: World) -> None:
    result, found = judged(world)
    assert result.verdict is PASS, told(result)
    went_on = any(
        row.time and world.acks[row.offset] > PEACE + 1.1
        for member in world.members
        for row in member.polls
    )
    assert found.promised
    assert found.held is (True if went_on else None), found.reason


@ON_DISK
@given(worlds(), st.data())
def test_unassigned_partition_or_member_without_reads_violates_groups_recover(
    world: World, data: st.DataObject
) -> None:
    end = data.draw(st.integers(200, 400))
    mute = data.draw(st.integers(PEACE - 40, end - TIME - 10))
    world = replace(world, mute_from=mute, end=end, acks=[1.5 + 3 * n for n in range(end // 3)])
    last = max(
        (one for one in world.leadership_terms if one.since < mute), key=lambda one: one.since
    )
    before = [one for one in world.leadership_terms if one.since < last.since]
    taken = data.draw(st.booleans())
    until = mute if taken else end + 5
    world = replace(world, leadership_terms=[*before, replace(last, until=until)])
    result, found = judged(world)
    assert result.verdict is FAIL
    assert found.broken == 1
    whose = "assigned to no member" if taken else "assigned to 1 of its members"
    assert f"groups-recover: {GROUP} on t-0: {whose}, read nothing for" in told(result)
    assert [g.name for g in result.cells[0].guarantees if g.broken] == ["groups-recover"]


NOTHING = assigned(0, at(0.5), 0, "revoked")
"""What tells of which group a member is that never had the partition."""
STUCK = World(
    acks=[1.5 + 2 * number for number in range(100)],
    leadership_terms=[Reign(member=0, since=0.5, until=500)],
    lag=0.1,
    end=200,
    mute_from=70,
)
"""A member that is shown nothing from 70 seconds on, for 130."""
HAS_ENDED = {"exit_code": 70, "fault_id": None, "detail": "ended with status 70"}
HAS_NOT_POLLED = {"detail": "was silent for 60 s: it has not polled"}
SHOWN_NONE = {"detail": f"was silent for 60 s: {SHOWN_NOTHING}"}
NEW_SESSION = {"detail": "its client library did not recover from a commit", "session": 1}


def of_members(row: dict[str, Any], *numbers: int) -> list[dict[str, Any]]:
    return [{"time": at(150), "client": f"member-{number}", **row} for number in numbers]


def test_duration_without_reads_is_reported() -> None:
    result, _ = judged(STUCK)
    # Owed since 71.5 s; of the clocks a second is allowed for.
    assert "read nothing for 127,500 ms" in told(result)


@pytest.mark.parametrize(
    "changes",
    [
        {"clients": of_members(HAS_ENDED, 1)},
        {"clients": of_members(HAS_NOT_POLLED, 1)},
        {"clients": of_members(SHOWN_NONE, 0, 1)},
        {"clients": of_members(NEW_SESSION, 0, 1)},
        # Killed, since it did not end in time when it was asked to.
        {"clients": of_members({**HAS_ENDED, "exit_code": -9, "time": at(230)}, 0, 1)},
    ],
)
def test_a_group_is_blamed_as_long_as_a_member_goes_on(changes: dict[str, Any]) -> None:
    result, found = judged(STUCK, **changes)
    assert found.broken == 1
    assert result.verdict is FAIL


CRASH = client_fault("crash-client")
CRASHED = {"time": at(30), "client": "member-0", "exit_code": -9, "fault_id": 2}


def test_the_partition_of_a_member_that_was_crashed_is_another_ones() -> None:
    world = replace(STUCK, mute_from=30)
    dead, alive = world.members
    dead = dead.but(assigned=dead.assigned[:1], crashed=True)
    changes = {"faults": [*KILL, *CRASH], "clients": [CRASHED]}
    result, found = judged(world, consumers=[dead, alive.but(assigned=[NOTHING])], **changes)
    assert found.broken == 1
    assert f"{GROUP} on t-0: assigned to no member, read nothing" in told(result)
    _, found = judged(world, consumers=[dead], **changes)
    assert found.broken == 0, "no member is left"


UNHEALED = client_fault("pause-client", healed=False)
SEEN_AT_70 = [recovered(seconds=PEACE, whole=False, isr=(1, 2))]


@pytest.mark.parametrize(
    "changes",
    [
        {"clients": of_members(HAS_ENDED, 0, 1)},
        {"clients": of_members(HAS_NOT_POLLED, 0, 1)},
        {"cells": (timed(None),)},
        {"cells": (timed(128),)},
        {"partitions": {("t", 0): kept(*(one for one in STUCK.acks if one < PEACE))}},
        {"partitions": {("t", 0): kept(*(one for one in STUCK.acks if one < 70))}},
        {"faults": [*KILL, *UNHEALED]},
        {"recovery": SEEN_AT_70},
        {"recovery": []},
        {"phases": [row for row in FINISHED if row["phase"] != "flush"]},
        {"bounds": (0, 900_000_000)},
    ],
)
def test_excused_or_unknown_stall_is_no_violation(changes: dict[str, Any]) -> None:
    _, found = judged(STUCK, **changes)
    assert found.broken == 0, found.reason
    # Shown what was sent at 67.5 s it had gone on, and there is no other evidence.
    assert found.held is not False


def test_member_that_passes_over_a_record_counts_as_progress() -> None:
    """Test a group that may commit before it processes. Other guarantees concern the passed
    record."""
    reader, idle = replace(STUCK, mute_from=10_000).members
    passed = next(n for n, acked in enumerate(STUCK.acks) if acked > PEACE + 2)
    shown = [row for row in reader.polls if row.offset != passed]
    _, found = judged(STUCK, consumers=[reader.but(polls=shown), idle])
    assert found.broken == 0
    assert found.held


def test_group_without_observed_progress_is_unknown() -> None:
    _, found = judged(replace(STUCK, mute_from=PEACE), cells=(timed(None),))
    assert found.held is None


Spoil = Callable[[Path], object]


@pytest.mark.parametrize("table", ["polls", "assignments", "commits"])
def test_group_with_missing_member_tables_is_unknown(tmp_path: Path, table: str) -> None:
    directory = write_campaign(tmp_path, made(STUCK))
    for path in history_of(directory).glob(f"closings.{table}*member-0*"):
        path.unlink()
    found = of(checked(directory))
    assert found.broken == 0
    assert found.held is None
