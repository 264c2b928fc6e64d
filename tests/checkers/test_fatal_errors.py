"""A fatal error of a producer's client library ends a session of it, and no more: it is told, and
costs a cell its verdict only where nothing of what is known explains it."""

from pathlib import Path
from typing import Any

import pytest

from ackproof.history.sessions import NO_BROKERS, session_number
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    NOT_GUARANTEED,
    PASS,
    checked,
    told,
)
from tests.support.builders.histories import (
    AFTER,
    ALL,
    BEFORE,
    DURING,
    MadeRun,
    at,
    cell,
    entry,
    kept,
    send,
    state,
    write_campaign,
)

SECOND = session_number(1, 1)
ENDED = {
    "time": at(26),
    "client": "producer-1",
    "exit_code": None,
    "fault_id": None,
    "detail": "sequence desynchronization",
    "session": 1,
}
WORDS = "a fatal error ended session 1 of producer-1, which went on in another"
BEFORE_IT = kept(BEFORE, DURING)
UNDER_WAY = send("invoke", 1, 2, at(25)), send("info", 1, 2, at(26))
ITS_SENDS = (
    *(send("invoke", SECOND, 3, at(27)), send("ok", SECOND, 3, at(27.1), 2)),
    *(send("invoke", SECOND, 4, at(AFTER)), send("ok", SECOND, 4, at(AFTER + 0.1), 3)),
)
ITS_LOG = (entry(2, SECOND, 3), entry(3, SECOND, 4))
UNCLEAN = cell({**ALL, "unclean.leader.election.enable": True})


def ended(log: Any = ITS_LOG, **changes: Any) -> MadeRun:
    """Producer 1, of which a fatal error ended the first session with a record under way."""
    ours = BEFORE_IT.but(
        sends=[*BEFORE_IT.sends, *UNDER_WAY, *ITS_SENDS],
        log=[*BEFORE_IT.log, *log],
        end=max(one.offset for one in log) + 1,
    )
    return MadeRun(partitions={("t", 0): ours}, **{"clients": [ENDED], **changes})


def test_fatal_error_under_full_guarantees_is_inconclusive(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, ended()))
    assert result.cells[0].verdict is INCONCLUSIVE
    assert WORDS in told(result)
    assert any(WORDS in finding for finding in result.findings)


def test_fatal_error_where_acked_records_may_be_lost_is_only_a_finding(tmp_path: Path) -> None:
    seen = [state(-5, 1, 0, (1,)), state(24, 2, 1, (2,))]
    unclean = ended(cluster=seen, cells=(UNCLEAN,))
    result = checked(write_campaign(tmp_path, unclean))
    assert result.cells[0].verdict is NOT_GUARANTEED, told(result)
    assert WORDS not in told(result)
    assert any(WORDS in finding for finding in result.findings)


def test_fatal_error_of_the_library_alone_is_only_a_finding(tmp_path: Path) -> None:
    """Else every cell of a campaign in which all brokers were fenced would be left open."""
    result = checked(write_campaign(tmp_path, ended(clients=[{**ENDED, "detail": NO_BROKERS}])))
    assert result.cells[0].verdict is PASS, told(result)
    words = f"the client producer-1 started session 2: {NO_BROKERS}"
    assert [finding for finding in result.findings if words in finding]


@pytest.mark.parametrize("late", [False, True])
def test_records_in_flight_at_a_fatal_error_may_be_in_the_log(tmp_path: Path, late: bool) -> None:
    """Behind the first record of the next session, too: that is another producer to the log."""
    if not late:
        well = ended(clients=[])
    else:
        behind = (entry(2, SECOND, 3), entry(3, 1, 2), entry(4, SECOND, 4))
        acks = (*ITS_SENDS[:3], send("ok", SECOND, 4, at(AFTER + 0.1), 4))
        well = ended(log=behind, clients=[])
        ours = well.partitions["t", 0].but(sends=[*BEFORE_IT.sends, *UNDER_WAY, *acks])
        well = MadeRun(partitions={("t", 0): ours})
    result = checked(write_campaign(tmp_path, well))
    found = result.cells[0]
    assert found.verdict is PASS, told(result)
    assert (found.lost, found.duplicated, found.reordered, found.indeterminate) == (0, 0, 0, 1)


def test_loss_of_a_record_acked_to_the_next_session_fails(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, ended(log=[entry(2, SECOND, 3), entry(3)])))
    assert result.cells[0].verdict is FAIL
    assert result.cells[0].lost == 1
