"""The findings of a run that was cut short: the cause first, its consequences folded."""

from ackproof.checkers.context import steps
from ackproof.checkers.context.gaps import folded


def test_steps_that_did_not_end_are_one_sentence() -> None:
    rows = [
        {"phase": "deploy", "event": "end", "detail": None},
        {"phase": "ready", "event": "failed", "detail": "not ready"},
        {"phase": "heal", "event": "end", "detail": None},
    ]
    assert list(steps.gaps(rows, identity="run 1 of seed 1")) == [
        "the step ready failed: not ready",
        "the steps workload, faults, recover, flush, final-read did not end",
    ]


def test_findings_alike_are_one_sentence() -> None:
    unclosed = [f"sends by c-{number}: its writer did not close it" for number in range(20)]
    assert list(folded([*unclosed, "another"])) == [
        "its writer did not close it: sends by c-0, sends by c-1, sends by c-2 and 17 more",
        "another",
    ]
    assert list(folded([*unclosed[:3], "another"])) == [*unclosed[:3], "another"]
