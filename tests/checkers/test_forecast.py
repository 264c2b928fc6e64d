"""Forecasts of guarantees: a dry run says of each guarantee what the checked run says of it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from ackproof.checkers.guarantees.decisions import Prospect, forecast
from ackproof.history import manifest
from ackproof.history.cell import Value
from ackproof.testing.histories import SETTINGS, sound_history
from tests.support.builders.checked_runs import checked
from tests.support.oracles.forecasts import compared

CLIENTS_ALONE = {"replicas-agree": "no agent", "committed-stays": "no controllers"}
RETENTION = {**SETTINGS, "topic.retention.ms": 10_000}
COMPACTION = {**SETTINGS, "topic.cleanup.policy": "compact"}
LEADER_ALONE = {"acks": "1", "min.insync.replicas": 1, "replication.factor": 1}


@pytest.mark.parametrize(
    ("settings", "share_group", "unchecked", "expected"),
    [
        (SETTINGS, False, {}, {"min-isr-kept": "checked", "commits-kept": "checked"}),
        (SETTINGS, True, {}, {"no-share-undelivered": "checked"}),
        (SETTINGS, False, CLIENTS_ALONE, dict.fromkeys(CLIENTS_ALONE, "not checked")),
        (RETENTION, False, {}, {"kept-until-retention": "checked"}),
        (COMPACTION, False, {}, {"no-offset-gap": "not checked"}),
        (LEADER_ALONE, False, CLIENTS_ALONE, dict.fromkeys(CLIENTS_ALONE, "not promised")),
        ({**LEADER_ALONE, "acks": "0"}, False, {}, {"no-acked-record-lost": "not promised"}),
    ],
)
def test_result_of_each_guarantee_equals_its_forecast(
    tmp_path: Path,
    settings: Mapping[str, Value],
    share_group: bool,
    unchecked: Mapping[str, str],
    expected: Mapping[str, str],
) -> None:
    sound_history(settings, share_group=share_group).write(tmp_path)
    file = tmp_path / "manifest.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    document["runs"][0]["unchecked"] = unchecked
    file.write_text(json.dumps(document), encoding="utf-8")

    (run,) = manifest.read(tmp_path).runs
    found = list(forecast(run, run.cells[0]))
    prospects = {one.name: one.prospect for one in found}
    assert {name: prospects[name] for name in expected} == expected
    assert [
        one.name for one in found if (one.prospect is Prospect.CHECKED) == bool(one.reason)
    ] == []
    (cell,) = checked(tmp_path).cells
    results = {one.name: asdict(one) for one in cell.guarantees}
    assert list(compared(found, results, complete=False)) == []
