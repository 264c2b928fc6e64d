"""asyncio on the simulated loop, and the end of processes."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from simulation.loop import (
    EndlessStep,
    OutOfSteps,
    SimulatedLoop,
    SimulatedProcess,
    Stalled,
    step_watchdog,
)

pytestmark = pytest.mark.simulation


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(Random(1), steps_max=100_000)
    yield loop
    loop.close()


def start(loop: SimulatedLoop, process: SimulatedProcess, work: Any) -> asyncio.Task[Any]:
    return loop.create_task(work, context=process.context.copy())


# --- asyncio ----------------------------------------------------------------------------------


def test_time_passes_only_by_timers(loop: SimulatedLoop) -> None:
    async def test() -> None:
        await asyncio.sleep(3600)
        assert loop.time() == pytest.approx(3600, abs=0.001)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        assert loop.time() == pytest.approx(3610, abs=0.001)

    loop.run_until_complete(test())


def test_asyncio_primitives_work_on_the_simulated_loop(loop: SimulatedLoop) -> None:
    async def test() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        lock, slots, order = asyncio.Lock(), asyncio.Semaphore(2), []

        async def put() -> None:
            for number in range(10):
                await queue.put(number)

        async def work(number: int) -> None:
            async with slots, lock:
                await asyncio.sleep(0.1)
                order.append(number)

        async with asyncio.TaskGroup() as group:
            group.create_task(put())
            for number in range(5):
                group.create_task(work(number))
            assert [await queue.get() for _ in range(10)] == [*range(10)]
        assert order == [*range(5)]
        assert await asyncio.to_thread(lambda: "done elsewhere") == "done elsewhere"
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        done, waiting = await asyncio.wait(
            [asyncio.create_task(asyncio.sleep(pause)) for pause in (1, 2)],
            return_when=asyncio.FIRST_COMPLETED,
        )
        assert (len(done), len(waiting)) == (1, 1)

    loop.run_until_complete(test())


def test_run_without_progress_ends(loop: SimulatedLoop) -> None:
    with pytest.raises(Stalled):
        loop.run_until_complete(asyncio.Event().wait())

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(OutOfSteps):
        loop.run_until_complete(spin())


def test_endless_step_ends_the_run(loop: SimulatedLoop) -> None:
    def turn() -> None:
        while True:
            with contextlib.suppress(Exception):
                list(range(100))

    async def broken() -> None:
        turn()

    with step_watchdog(loop, 0.05), pytest.raises(EndlessStep, match=r"a step .* in .*turn"):
        loop.run_until_complete(broken())


def test_short_steps_do_not_trigger_the_watchdog(loop: SimulatedLoop) -> None:
    async def work() -> None:
        ends = time.process_time() + 0.3
        while time.process_time() < ends:
            sum(range(10_000))
            await asyncio.sleep(0)

    with step_watchdog(loop, 0.05):
        loop.run_until_complete(work())


def test_failing_callback_is_recorded_and_the_loop_continues(loop: SimulatedLoop) -> None:
    process = SimulatedProcess("host")
    loop.call_soon(lambda: 1 / 0, context=process.context)
    loop.run_for(1)
    (trouble,) = loop.unhandled_errors
    assert trouble.process is process
    assert isinstance(trouble.exception, ZeroDivisionError)


def test_fail_ends_the_run_despite_exception_handlers(loop: SimulatedLoop) -> None:
    async def test() -> None:
        with contextlib.suppress(BaseException):
            loop.fail(ValueError("violated"))
            raise ValueError
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="violated"):
        loop.run_until_complete(test())
    assert loop.time() < 1


# --- processes --------------------------------------------------------------------------------


def test_paused_process_catches_up_in_order(loop: SimulatedLoop) -> None:
    process, seen = SimulatedProcess("host"), []
    for second in (3, 1, 2, 5):
        loop.call_later(
            second,
            lambda second=second: seen.append((second, loop.time())),
            context=process.context,
        )
    loop.run_for(1.5)
    loop.pause(process)
    loop.run_for(2.5)
    assert [second for second, _ in seen] == [1]
    loop.resume(process)
    loop.run_for(2)
    assert [second for second, _ in seen] == [1, 2, 3, 5]
    assert [round(at) for _, at in seen] == [1, 4, 4, 5]


def test_dead_process_runs_no_steps(loop: SimulatedLoop) -> None:
    process, alive = SimulatedProcess("host"), True
    late: list[str] = []

    def note(what: str) -> None:
        if not alive:
            late.append(what)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(work())
            await asyncio.Event().wait()

    async def work() -> None:
        try:
            while True:
                await asyncio.sleep(0.3)
                note("worked")
                asyncio.get_running_loop().run_in_executor(None, note, "in a thread")
        finally:
            asyncio.get_running_loop().call_soon(note, "cleaned up")
            await asyncio.sleep(0.1)
            note("cleaned up slowly")

    start(loop, process, run())
    loop.run_for(1)
    loop.kill(process)
    alive = False
    loop.run_for(10)
    assert not late
    assert not loop.unhandled_errors


def test_process_may_be_killed_in_its_own_step(loop: SimulatedLoop) -> None:
    process, late = SimulatedProcess("host"), []

    async def work() -> None:
        loop.kill(process)
        await asyncio.sleep(0)
        late.append("went on")

    task = start(loop, process, work())
    loop.run_for(1)
    assert process.is_dead
    assert not late
    assert not task.done()
