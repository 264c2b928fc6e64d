"""A line of a broker's log that no broker writes is passed over and reported; it ends no check."""

import json
from pathlib import Path

import pytest

from ackproof.checkers.context.broker_logs import orders_of, roles_of, truncations_of
from tests.support.builders.checked_runs import PASS, checked, run
from tests.support.builders.histories import write_campaign

SOUND = {
    "event": "completed",
    "change": "LeaderAndIsr",
    "partition": "t-0",
    "broker": 1,
    "leader": 1,
    "leader_epoch": 7,
}
CUT = {
    **SOUND,
    "change": "Truncate",
    "log_end_offset": 9,
    "offset": 5,
    "due_to": "leader epoch 6",
}
DEEP = "[" * 100_000
NONSENSE = (
    json.dumps(SOUND).replace("7", "1e400"),
    json.dumps(SOUND).replace("7", "1" * 5_000),
    json.dumps(SOUND).replace("7", "9223372036854775808"),
    json.dumps(SOUND).replace("7", "-1e30"),
    json.dumps(SOUND).replace("7", "NaN"),
    json.dumps(SOUND).replace("7", '{"a": 1}'),
    json.dumps({**SOUND, "leader_epoch": 1}).replace('"broker"', f'"x": {DEEP}, "broker"'),
    json.dumps(CUT).replace("7", "1e400"),
)
UNTOLD = (
    json.dumps({**SOUND, "change": ["LeaderAndIsr"]}),
    json.dumps({**SOUND, "partition": "t-" + "9" * 5_000}),
    json.dumps(SOUND)[:40],
    '"completed"',
    '"Truncate" {}',
    f"[Broker id=1] Leader t-0 x starts at leader epoch {'9' * 5_000} from offset 9 ",
    f"[Broker id=1] Leader t-0 x starts at leader epoch 3 from offset {2**63} ",
    f"[Broker id=1] Follower t-0 starts at leader epoch {'9' * 5_000} x Current leader is 2",
    f"replicaId=1, leaderId=2, x] Truncating partition t-0 with T(offset={'9' * 5_000}, x due to y",
)


def logs_with(directory: Path, line: str | bytes) -> Path:
    """The log of broker 1, with a sound line before and behind a line."""
    node = directory / "logs" / "broker-1"
    node.mkdir(parents=True)
    line = line.encode() if isinstance(line, str) else line
    sound = [json.dumps({**one, "leader_epoch": 3}).encode() for one in (SOUND, CUT)]
    (node / "server.log").write_bytes(b"\n".join([*sound, line, *sound]) + b"\n")
    return directory / "logs"


@pytest.mark.parametrize("line", [*NONSENSE, *UNTOLD, b'\xff\xfe"completed" {\x80}'])
def test_line_that_makes_no_sense_is_passed_over(tmp_path: Path, line: str | bytes) -> None:
    logs = logs_with(tmp_path, line)
    epochs = [word.leader_epoch for word in roles_of(logs)["t", 0]]
    assert epochs == [3, 3]
    assert [truncation.leader_epoch for truncation in truncations_of(logs)["t", 0]] == [3, 3]
    assert orders_of(logs) in ({}, {("t", 0): {1: [3]}})


@pytest.mark.parametrize("line", NONSENSE)
def test_line_that_makes_no_sense_is_a_finding(tmp_path: Path, line: str) -> None:
    directory = write_campaign(tmp_path, run())
    logs_with(directory / "runs" / "1", line)
    result = checked(directory)
    assert result.verdict is PASS
    assert result.findings == (
        "run 1: broker-1/server.log: skipped 1 unreadable line(s), the first is line 3",
    )


def test_half_line_is_no_finding(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    logs_with(directory / "runs" / "1", json.dumps(SOUND)[:40])
    assert checked(directory).findings == ()
