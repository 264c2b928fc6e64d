"""A loss that acks=1 permits does not come back with acks=all, or without the fault."""

import json

import pytest

from tests.support.processes.deadlines import TEST_S

FAULT = "without fault 1, isolate on leader(acks-1-minisr-2, any)"


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(5 * TEST_S)
def test_why_finds_the_settings_that_prevent_a_loss(ackproof) -> None:
    lossy = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    assert lossy.returncode == 0, lossy.stdout + lossy.stderr
    answers = []
    for runs in ("1", "2"):  # the second call keeps the runs of the first
        found = ackproof(
            *("why", "results", "--runs", runs, "--change", "acks=all", "--change", FAULT)
        )
        assert found.returncode == 0, found.stdout + found.stderr
        answers.append(json.loads((ackproof.directory / "results/why.json").read_text()))
    assert "run-1 of 2, " not in found.stdout
    assert "run-2 of 2, as it was: " in found.stdout
    for number, answer in enumerate(answers, start=1):
        assert (answer["cell"], answer["as_it_was"]["failed"]) == ("acks-1.minisr-2", number)
        assert {one["name"]: one["failed"] for one in answer["changes"]} == {
            "acks=all": 0,
            FAULT: 0,
        }
        assert "cannot show any difference" in answer["conclusion"]
