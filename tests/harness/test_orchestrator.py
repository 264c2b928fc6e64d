"""Whatever becomes of a step, the later ones that make sense run and the history is closed."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from ackproof.harness.interruption import SIGNALS, Interruption
from ackproof.harness.running import orchestrator
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.steps.catalogue import STEPS, RunStep
from ackproof.history import reader

Act = Callable[[Run, Deadline], None]


def step(name: str, act: Act, needs: str | None = None, cleans_up: bool = False) -> RunStep:
    return RunStep(name=name, act=act, limit_s=lambda _: 1.0, needs=needs, cleans_up=cleans_up)


def fine(_run: Run, _deadline: Deadline) -> None: ...


def broken(_run: Run, _deadline: Deadline) -> None:
    raise RuntimeError("it broke\nmany lines\nthe last line")


def carry_out(run: Run, steps: Sequence[RunStep]) -> None:
    orchestrator.carry_out(run, Interruption(), steps)


@pytest.fixture
def interruption() -> Iterator[Interruption]:
    """Takes the signals of this process, while nothing but the test is asked to stop."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    taking = Interruption()
    taking.install()
    with taking.noted():
        yield taking
    for number, handler in before.items():
        signal.signal(number, handler)


def phases(run: Run) -> list[tuple[str, str]]:
    table = reader.read(run.history, "phases", ["phase", "event"])
    return [(row["phase"], row["event"]) for row in table.to_pylist()]


def test_every_step_is_recorded(run: Run) -> None:
    carry_out(run, [step("deploy", fine), step("ready", fine, needs="deploy")])
    assert phases(run) == [
        ("deploy", "start"),
        ("deploy", "end"),
        ("ready", "start"),
        ("ready", "end"),
    ]
    assert not run.findings
    written = {path.name.partition(".")[0] for path in run.history.iterdir()}
    assert written == {"phases", "closings"}


def test_failed_step_is_a_finding_and_dependent_steps_are_skipped(run: Run) -> None:
    steps = [
        step("deploy", fine),
        step("ready", broken, needs="deploy"),
        step("workload", fine, needs="ready"),
        step("heal", fine, needs="deploy"),
        step("teardown", fine),
    ]
    carry_out(run, steps)
    assert [phase for phase, event in phases(run) if event == "end"] == [
        "deploy",
        "heal",
        "teardown",
    ]
    assert ("ready", "failed") in phases(run)
    assert run.findings == ["run 1, ready: RuntimeError: it broke"]


def test_a_step_that_hangs_is_cancelled_and_named(run: Run) -> None:
    cancelled = threading.Event()

    def hangs(run: Run, deadline: Deadline) -> None:
        run.clock.wait(threading.Event(), 10.0)
        cancelled.set() if deadline.cancelled.wait(30.0) else None

    carry_out(run, [step("recover", hangs), step("teardown", fine)])
    assert cancelled.is_set()
    assert "recover: did not end within 1 s" in run.findings[0]
    assert ("teardown", "end") in phases(run)


@pytest.mark.parametrize("number", SIGNALS)
def test_interruption_skips_to_the_steps_that_clean_up(
    run: Run, interruption: Interruption, number: signal.Signals
) -> None:
    def interrupted(_run: Run, deadline: Deadline) -> None:
        os.kill(os.getpid(), number)
        assert deadline.cancelled.wait(30.0)

    steps = [
        step("faults", interrupted),
        step("recover", fine),
        step("flush", fine, cleans_up=True),
        step("final-read", fine),
        step("teardown", fine, cleans_up=True),
    ]
    orchestrator.carry_out(run, interruption, steps)
    assert [phase for phase, event in phases(run) if event == "end"] == ["flush", "teardown"]
    assert run.findings == ["run 1, faults: interrupted"]
    assert run.progress.said.count(orchestrator.STOPPING) == 1
    assert "interrupt again to end at once" in orchestrator.STOPPING
    assert interruption.asked
    assert not interruption.asked_again


def test_interruption_does_not_cut_short_a_step_that_cleans_up(
    run: Run, interruption: Interruption
) -> None:
    def asked(_run: Run, deadline: Deadline) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert not deadline.cancelled.wait(2.0)

    steps = [step("heal", asked, cleans_up=True), step("recover", fine)]
    orchestrator.carry_out(run, interruption, steps)
    assert phases(run) == [("heal", "start"), ("heal", "end")]


def test_second_interruption_ends_the_run_at_once(run: Run, interruption: Interruption) -> None:
    def asked_twice(_run: Run, _deadline: Deadline) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(2.0)

    steps = [step("heal", asked_twice, cleans_up=True), step("teardown", fine, cleans_up=True)]
    with pytest.raises(KeyboardInterrupt):
        orchestrator.carry_out(run, interruption, steps)
    assert interruption.asked_again
    assert not list(run.history.glob("*.part-*")), "the history is closed all the same"


def test_while_nothing_runs_asking_once_is_enough() -> None:
    before = signal.getsignal(signal.SIGTERM)
    Interruption().install()
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_signal_that_was_ignored_from_the_start_is_taken() -> None:
    """``ackproof run ... &`` in a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    interruption = Interruption()
    try:
        interruption.install()
        with interruption.noted():
            signal.raise_signal(signal.SIGINT)
        assert interruption.asked
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_a_step_with_a_finding_has_not_ended_well(run: Run) -> None:
    """Its thread came to its end, but what it found is why no step may build on it."""

    def finds(run: Run, _deadline: Deadline) -> None:
        run.finding("ready", "only half of it is there")

    carry_out(run, [step("ready", finds), step("workload", fine, needs="ready")])
    assert phases(run) == [("ready", "start"), ("ready", "failed")]
    assert not run.ended_well["ready"]


def test_a_finding_of_a_step_that_is_over_is_that_steps_own(run: Run) -> None:
    def later(run: Run, _deadline: Deadline) -> None:
        run.finding("workload", "a client ended by itself")

    steps = [step("workload", fine), step("faults", later), step("heal", fine, needs="workload")]
    carry_out(run, steps)
    assert phases(run) == [
        ("workload", "start"),
        ("workload", "end"),
        ("faults", "start"),
        ("workload", "failed"),
        ("faults", "end"),
    ]


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt()])
def test_a_thread_that_ends_early_in_any_way_has_not_ended_well(
    run: Run, error: BaseException
) -> None:
    def ends(_run: Run, _deadline: Deadline) -> None:
        raise error

    carry_out(run, [step("ready", ends)])
    assert ("ready", "failed") in phases(run)


def test_a_step_left_behind_knows_before_the_next_one_begins(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """And what it raises later is logged, though no step waits for it."""
    ours: list[Deadline] = []
    seen: list[bool] = []
    over = threading.Event()

    def stubborn(run: Run, deadline: Deadline) -> None:
        ours.append(deadline)
        run.clock.wait(threading.Event(), 10.0)
        assert over.wait(30.0)
        raise RuntimeError("much too late")

    def following(_run: Run, _deadline: Deadline) -> None:
        seen.append(ours[0].cancelled.is_set())
        over.set()

    with caplog.at_level(logging.ERROR):
        steps = [step("faults", stubborn), step("heal", following)]
        orchestrator.carry_out(run, Interruption(), steps, left_behind_after_s=0.1)
        left = [thread for thread in threading.enumerate() if thread.name == "faults"]
        for thread in left:
            thread.join(10)
    assert seen == [True]
    assert any("much too late" in str(record.exc_info) for record in caplog.records)


def test_a_fault_of_our_own_around_a_step_does_not_keep_the_rest_from_being_done(run: Run) -> None:
    def no_limit(_run: Run) -> float:
        raise ZeroDivisionError("no limit")

    bad = RunStep(name="deploy", act=fine, limit_s=no_limit)
    carry_out(run, [bad, step("ready", fine, needs="deploy"), step("teardown", fine)])
    assert phases(run) == [("deploy", "failed"), ("teardown", "start"), ("teardown", "end")]
    assert run.findings == ["run 1, deploy: ZeroDivisionError: no limit"]


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
        "failover",
        "collect",
        "teardown",
    ]
    names = [step.name for step in STEPS]
    for index, one in enumerate(STEPS):
        assert one.needs is None or one.needs in names[:index]
    assert {step.name for step in STEPS if step.cleans_up} >= {"heal", "flush", "teardown"}


def test_remaining_time_follows_the_pace_of_the_faults_so_far() -> None:
    assert orchestrator.left(planned_s=100, reached_s=0, elapsed_s=35) == "at least 100 s"
    assert orchestrator.left(planned_s=100, reached_s=0, elapsed_s=135) == ""
    assert orchestrator.left(planned_s=100, reached_s=25, elapsed_s=40) == "about 95 s"
    slow = orchestrator.left(planned_s=100, reached_s=25, elapsed_s=160)
    assert slow == "about 5 min", "40 s of the plan took 160 s: 75 * 4 + 20 s"
