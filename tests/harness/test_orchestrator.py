"""Whatever becomes of a step, the later ones that make sense run and the history is closed."""

import os
import signal
import threading
from collections.abc import Callable

import pytest

from harness.running.context import Run
from harness.running.deadline import Deadline
from harness.running.orchestrator import carry_out
from harness.running.steps.catalogue import STEPS, Step
from history import reader

Act = Callable[[Run, Deadline], None]


def step(name: str, act: Act, needs: str | None = None, cleans_up: bool = False) -> Step:
    return Step(name=name, act=act, limit_s=lambda _: 1.0, needs=needs, cleans_up=cleans_up)


def fine(_run: Run, _deadline: Deadline) -> None: ...


def broken(_run: Run, _deadline: Deadline) -> None:
    raise RuntimeError("it broke\nmany lines\nthe last line")


def phases(run: Run) -> list[tuple[str, str]]:
    table = reader.read(run.history, "phases", ["phase", "event"])
    return [(row["phase"], row["event"]) for row in table.to_pylist()]


def test_every_step_is_recorded(run: Run) -> None:
    assert carry_out(run, [step("deploy", fine), step("ready", fine, needs="deploy")])
    assert phases(run) == [
        ("deploy", "start"),
        ("deploy", "end"),
        ("ready", "start"),
        ("ready", "end"),
    ]
    assert not run.findings
    assert [path.name for path in run.history.iterdir()] == ["phases.harness.parquet"]


def test_a_broken_step_is_a_finding_and_what_needs_it_is_left_out(run: Run) -> None:
    steps = [
        step("deploy", fine),
        step("ready", broken, needs="deploy"),
        step("workload", fine, needs="ready"),
        step("heal", fine, needs="deploy"),
        step("teardown", fine),
    ]
    assert carry_out(run, steps)
    assert [phase for phase, event in phases(run) if event == "end"] == [
        "deploy",
        "heal",
        "teardown",
    ]
    assert ("ready", "failed") in phases(run)
    assert run.findings == ["run 1, ready: RuntimeError: it broke ... the last line"]


def test_a_step_that_hangs_is_cancelled_and_named(run: Run) -> None:
    cancelled = threading.Event()

    def hangs(run: Run, deadline: Deadline) -> None:
        run.clock.wait(threading.Event(), 10.0)
        cancelled.set() if deadline.cancelled.wait(30.0) else None

    assert carry_out(run, [step("recover", hangs), step("teardown", fine)])
    assert cancelled.is_set()
    assert "recover: did not end within 1 s" in run.findings[0]
    assert ("teardown", "end") in phases(run)


def test_ctrl_c_skips_to_what_cleans_up(run: Run) -> None:
    def interrupted(_run: Run, deadline: Deadline) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        deadline.cancelled.wait(30.0)

    steps = [
        step("faults", interrupted),
        step("recover", fine),
        step("flush", fine, cleans_up=True),
        step("final-read", fine),
        step("teardown", fine, cleans_up=True),
    ]
    assert not carry_out(run, steps)
    assert [phase for phase, event in phases(run) if event == "end"] == ["flush", "teardown"]
    assert run.findings == ["run 1, faults: interrupted"]


def test_the_history_is_closed_when_the_harness_itself_fails(run: Run) -> None:
    def no_limit(_run: Run) -> float:
        raise ZeroDivisionError

    bad = Step(name="deploy", act=fine, limit_s=no_limit)
    with pytest.raises(ZeroDivisionError):
        carry_out(run, [step("ready", fine), bad])
    assert phases(run) == [("ready", "start"), ("ready", "end")]


def test_the_steps_of_a_run() -> None:
    """DESIGN's order; what cleans up needs nothing but what it cleans."""
    assert [step.name for step in STEPS] == [
        "deploy",
        "ready",
        "workload",
        "faults",
        "heal",
        "recover",
        "flush",
        "final-read",
        "collect",
        "teardown",
    ]
    names = [step.name for step in STEPS]
    for index, one in enumerate(STEPS):
        assert one.needs is None or one.needs in names[:index]
    assert {step.name for step in STEPS if step.cleans_up} >= {"heal", "flush", "teardown"}
