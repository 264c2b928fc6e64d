"""A manifest that no campaign can have written is refused, and nothing is concluded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackproof.history.manifest import FILE
from tests.support.builders.checked_runs import INCONCLUSIVE, PASS, checked, told, two_cells
from tests.support.builders.histories import FINISHED, write_campaign

CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "the run 1 2 times": lambda plan: plan["runs"].append(plan["runs"][0]),
    "the cell c 2 times": lambda plan: plan["runs"][0]["cells"][1]["cell"].update(name="c"),
    "the topic t 2 times": lambda plan: plan["runs"][0]["cells"][1]["cell"].update(topic="t"),
    "no cell d, but d-1 belongs to it": lambda plan: plan["runs"][0]["cells"].pop(),
    "c has more than 1,000,000 partitions": lambda plan: plan["runs"][0]["cells"][0]["cell"][
        "settings"
    ].update(partitions=2**63),
    "the fault 1 2 times": lambda plan: plan["runs"][0]["faults"].append(
        plan["runs"][0]["faults"][0]
    ),
}


@pytest.mark.parametrize(("detail", "own"), [("run 1, seed 1", True), ("run 2, seed 9", False)])
def test_history_of_another_run_is_noticed(tmp_path: Path, detail: str, own: bool) -> None:
    first, *others = FINISHED
    phases = [{**first, "detail": detail}, *others]
    result = checked(write_campaign(tmp_path, two_cells(phases=phases)))
    assert result.verdict is (PASS if own else INCONCLUSIVE)
    assert ("the history belongs to run 2, seed 9" in told(result)) is not own


@pytest.mark.parametrize("words", CHANGES)
def test_manifest_that_contradicts_itself_is_refused(tmp_path: Path, words: str) -> None:
    directory = write_campaign(tmp_path, two_cells())
    assert checked(directory).verdict is PASS
    plan = json.loads((directory / FILE).read_text())
    CHANGES[words](plan)
    (directory / FILE).write_text(json.dumps(plan))
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert words in result.findings[0]
