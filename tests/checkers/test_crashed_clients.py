"""Records of a client up to its crash: they count, and no others do."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.verdict import Verdict
from ackproof.history.manifest import PlannedFault
from tests.support.builders.checked_runs import FAIL, INCONCLUSIVE, PASS, checked, told
from tests.support.builders.histories import (
    AFTER,
    BEFORE,
    DURING,
    KILL,
    Entry,
    MadeRun,
    Send,
    at,
    client_fault,
    entry,
    history_of,
    kept,
    send,
    write_campaign,
)

CRASH_S = 30
CRASH = client_fault("crash-client", CRASH_S)
UNPROVEN = [{**row, "proven": row["proven"] and row["event"] == "healed"} for row in CRASH]
KILLED = {"time": at(CRASH_S), "client": "producer-2", "exit_code": -9, "fault_id": 2}

LIVES_ON = kept(BEFORE, DURING, 29)
ITS_SENDS = (
    *(send("invoke", 2, 0, at(29.1)), send("ok", 2, 0, at(29.2), 3)),
    *(send("invoke", 2, 1, at(29.3)), send("ok", 2, 1, at(29.4), 4)),
    send("invoke", 2, 2, at(29.5)),
)
"""Two acked, and one under way."""
ITS_LOG = (entry(3, 2, 0), entry(4, 2, 1))
UNRECORDED = entry(5, 2, 3)
"""Sent after the last that it recorded."""


def crashed(
    *,
    sends: Sequence[Send] = ITS_SENDS,
    log: Sequence[Entry] = ITS_LOG,
    others: bool = True,
    **changes: Any,
) -> MadeRun:
    """Producers 1, which goes on, if ``others``, and 2, which was crashed."""
    all_sends, stands = [*sends], [*log]
    if others:
        last = max(one.offset for one in (*LIVES_ON.log, *log)) + 1
        goes_on = (send("invoke", 1, 3, at(AFTER)), send("ok", 1, 3, at(AFTER), last))
        all_sends += [*LIVES_ON.sends, *goes_on]
        stands = [*LIVES_ON.log, *log, entry(last, 1, 3)]
    ours = LIVES_ON.but(
        sends=all_sends,
        log=stands,
        start=min((one.offset for one in stands), default=0),
        end=max((one.offset for one in stands), default=-1) + 1,
    )
    given = {"faults": [*KILL, *CRASH], "clients": [KILLED], "crashed": {2}}
    return MadeRun(partitions={("t", 0): ours}, **{**given, **changes})


def test_records_of_a_crashed_client_count_and_other_clients_continue(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, crashed()))
    (found,) = result.cells
    assert found.verdict is PASS, told(result)
    assert (found.sent, found.acked, found.indeterminate, found.lost) == (7, 6, 1, 0)
    assert found.unavailable is None
    recorded = "sends by c-2: recorded until crash-client#2 crashed its client"
    assert result.findings == (f"run 1: {recorded}",)


def test_loss_of_a_record_acked_to_a_crashed_client_fails(tmp_path: Path) -> None:
    gone = [entry(3, 2, 0), entry(4, 1, 0)]
    result = checked(write_campaign(tmp_path, crashed(log=gone)))
    assert result.cells[0].verdict is FAIL
    assert result.cells[0].lost == 1
    assert "no-acked-record-lost" in told(result)


def test_cell_without_another_producer_after_a_crash_is_inconclusive(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, crashed(others=False)))
    assert result.cells[0].verdict is INCONCLUSIVE
    assert "no client sends to this cell after crash-client#2" in told(result)
    assert "its writer did not close it" not in told(result)
    lost = crashed(others=False, log=[entry(3, 2, 0), entry(4)])
    assert checked(write_campaign(tmp_path / "lost", lost)).cells[0].verdict is FAIL


RETURN = [
    PlannedFault(fault_id=number, fault=name, target="one", parameters=own, start_ms=0, hold_ms=0)
    for number, name, own in ((1, "kill", {}), (2, "crash-client", {"comes_back": True}))
]
AGAIN = (send("invoke", 4, 0, at(AFTER)), send("ok", 4, 0, at(AFTER + 0.1), 5))
"""Of the one that came in its place."""


def returned(log: Sequence[Entry] = (*ITS_LOG, entry(5, 4, 0)), **changes: Any) -> MadeRun:
    """Producer 2 was crashed, and 4 has come in its place; 4 had no replacement."""
    given = {"plan": RETURN, "instead_of": {4: 2, 6: 4}, **changes}
    sends = [*ITS_SENDS, *given.pop("again", AGAIN)]
    return crashed(sends=sends, log=log, others=False, **given)


def test_another_in_its_place_goes_on(tmp_path: Path) -> None:
    """The cell has evidence of what came after; who did not have to come is not missed."""
    without_before = [row for row in returned().faults if row["fault_id"] == 2]
    result = checked(write_campaign(tmp_path, returned(faults=without_before, plan=RETURN[1:])))
    assert result.cells[0].verdict is PASS, told(result)
    assert (result.cells[0].sent, result.cells[0].acked, result.cells[0].lost) == (4, 3, 0)
    assert result.cells[0].indeterminate == 1, "what was under way at its death"


def test_records_in_flight_at_a_crash_may_be_appended_late(tmp_path: Path) -> None:
    late = [*ITS_LOG, entry(5, 4, 0), entry(6, 2, 2), entry(7, 2, 3)]
    without_before = [row for row in returned().faults if row["fault_id"] == 2]
    run = returned(log=late, faults=without_before, plan=RETURN[1:])
    result = checked(write_campaign(tmp_path, run))
    assert result.cells[0].verdict is PASS, told(result)
    assert result.cells[0].duplicated == result.cells[0].reordered == 0


def test_a_loss_of_the_one_that_came_is_a_loss(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, returned(log=[*ITS_LOG, entry(5)])))
    assert result.cells[0].verdict is FAIL
    assert result.cells[0].lost == 1


def test_missing_replacement_client_is_inconclusive(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, returned(log=ITS_LOG, again=())))
    assert result.cells[0].verdict is INCONCLUSIVE
    assert "sends by c-4: its writer did not close it" in told(result)
    assert "c-6" not in told(result)


def test_unrecorded_last_record_of_a_crashed_client_is_no_phantom(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, crashed(log=[*ITS_LOG, UNRECORDED])))
    assert result.cells[0].verdict is PASS, told(result)
    assert result.anomalies["phantom"] == 0


@pytest.mark.parametrize(
    "strange",
    [entry(5, 1, 9), entry(5, 3, 0), entry(5), entry(5, 2, -1)],
    ids=[
        "of who lives on",
        "without an identity",
        "no payload of ours",
        "before the last it recorded",
    ],
)
def test_other_record_that_was_never_sent_is_a_phantom(tmp_path: Path, strange: Entry) -> None:
    result = checked(write_campaign(tmp_path, crashed(log=[*ITS_LOG, strange])))
    assert result.cells[0].verdict is FAIL
    assert result.anomalies["phantom"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"faults": [*KILL, *UNPROVEN]},
        {"clients": [{**KILLED, "fault_id": None}]},
        {"clients": [{**KILLED, "exit_code": 1}]},
        {"clients": []},
        {"clients": [{**KILLED, "fault_id": 1}]},
    ],
    ids=["not proven", "by itself", "another end", "never seen to end", "a fault on a broker"],
)
def test_crash_without_proof_leaves_the_writer_unclosed(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    result = checked(write_campaign(tmp_path, crashed(**changes)))
    assert result.cells[0].verdict is INCONCLUSIVE
    assert "sends by c-2: its writer did not close it" in told(result)
    assert result.cells[0].lost is None


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [cut_short, emptied])
@pytest.mark.parametrize(("proven", "verdict"), [(True, PASS), (False, INCONCLUSIVE)])
def test_a_last_part_that_is_cut_short_is_no_damage_if_the_crash_is_proven(
    tmp_path: Path, spoil: Callable[[Path], None], proven: bool, verdict: Verdict
) -> None:
    faults = [*KILL, *(CRASH if proven else UNPROVEN)]
    directory = write_campaign(tmp_path, crashed(faults=faults))
    spoil(parts(directory)[-1])
    result = checked(directory)
    assert result.cells[0].verdict is verdict, told(result)
    assert result.cells[0].sent == 6


def test_a_last_part_that_is_damaged_otherwise_costs_the_evidence(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, crashed())
    last = parts(directory)[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[:8] + bytes(8) + whole[16:])
    result = checked(directory)
    assert result.cells[0].verdict is INCONCLUSIVE
    assert last.name in told(result)


def test_an_ack_in_a_part_that_is_cut_short_is_no_claim(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, crashed(sends=ITS_SENDS[:-1], log=ITS_LOG[:1]))
    assert checked(directory).cells[0].verdict is FAIL
    cut_short(parts(directory)[-1])
    assert checked(directory).cells[0].verdict is PASS


@pytest.mark.parametrize("spoil", [cut_short, emptied, Path.unlink])
@pytest.mark.parametrize("which", [0, 1])
def test_any_other_part_is_damage_all_the_same(
    tmp_path: Path, spoil: Callable[[Path], None], which: int
) -> None:
    directory = write_campaign(tmp_path, crashed())
    spoil(parts(directory)[which])
    result = checked(directory)
    assert result.cells[0].verdict is INCONCLUSIVE
    assert "c-2" in told(result)


def test_a_crash_cuts_one_part_short_and_not_two(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, crashed())
    for part in parts(directory)[-2:]:
        cut_short(part)
    result = checked(directory)
    assert result.cells[0].verdict is INCONCLUSIVE
    assert parts(directory)[-2].name in told(result)


def test_crashed_client_without_any_records_is_inconclusive(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, crashed())
    for part in parts(directory):
        part.unlink()
    result = checked(directory)
    assert result.cells[0].verdict is INCONCLUSIVE
    nothing = "sends of t-0 by c-2: its client recorded nothing before it was crashed"
    assert nothing in told(result)


def test_a_table_of_clients_that_is_gone_is_missed(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, crashed())
    next(history_of(directory).glob("clients.*")).unlink()
    result = checked(directory)
    assert result.cells[0].verdict is INCONCLUSIVE
    assert "clients by harness" in told(result)


def parts(directory: Path) -> list[Path]:
    """Return the parts of the crashed client, in order."""
    found = sorted(history_of(directory).glob("sends.t.0.c-2.part-*.arrows"))
    assert found
    return found
