"""Clocks of nodes, on any backend."""

import signal
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest

from ackproof.infra.api.capabilities import FakeClock
from ackproof.infra.api.interface import Backend, Capability, Command, Node, Process
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

HOUR_MS = 3_600_000
NEAR_MS = 200
SHARED_MEMORY = PurePosixPath("/dev/shm")
TELLS = """\
from time import monotonic, sleep, time
while True:
    print(time(), monotonic(), flush=True)
    sleep(0.02)
"""


def a_clock_is_set_while_a_program_runs(backend: Backend, _scratch: Path) -> None:
    """Ahead, behind, fast, slow and right again. Time since boot goes on as ever, and a process
    started meanwhile finds the clock as it is. Nothing of it stays in shared memory."""
    node = backend.node("a")
    if Capability.FAKE_CLOCKS not in backend.capabilities:
        pytest.skip("no fake clocks here")
    clock = node.fake_clock()
    first = _telling(node, clock, "first")
    for offset_ms in (0, HOUR_MS, -HOUR_MS, 1_000, 0):
        clock.run(offset_ms, 1.0)
        _await_offset(node, "first", offset_ms)
    for rate in (5.0, 0.2):
        clock.run(HOUR_MS, rate)
        _await_pace(node, "first", rate)
    clock.run(HOUR_MS, 1.0)
    second = _telling(node, clock, "second")
    _await_offset(node, "second", HOUR_MS)
    clock.run(0, 1.0)
    for name, process in (("first", first), ("second", second)):
        _await_offset(node, name, 0)
        process.signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    wait_until(
        lambda: not any(_shares(node, process) for process in (first, second)),
        PATIENCE_S,
        "shared memory to be given back",
    )


CASES = (a_clock_is_set_while_a_program_runs,)


def _telling(node: Node, clock: FakeClock, name: str) -> Process:
    """Prints, again and again, what time it is by its clock and since boot."""
    argv = [*clock.under, node.software.python, "-c", TELLS]
    process = node.start(Command(name=name, argv=argv))
    clock.started(process.pid)
    return process


def _await_offset(node: Node, name: str, wanted_ms: float) -> None:
    def near() -> bool:
        offset_ms = _offset_ms(node, name)
        return offset_ms is not None and abs(offset_ms - wanted_ms) < NEAR_MS

    wait_until(near, PATIENCE_S, f"the clock of {name} to be {wanted_ms} ms off")


def _await_pace(node: Node, name: str, rate: float) -> None:
    """From one second of true time to the next, told by the program itself."""

    def of_last_second() -> bool:
        reported_time = _times(node, name)
        last_s, last_boot_s = reported_time[-1]
        before = [one for one in reported_time if last_boot_s - 1.5 <= one[1] <= last_boot_s - 0.5]
        if not before:
            return False
        pace = (last_s - before[0][0]) / (last_boot_s - before[0][1])
        return abs(pace - rate) < 0.2 * abs(rate - 1)

    wait_until(of_last_second, PATIENCE_S, f"the clock of {name} to go {rate} times as fast")


def _offset_ms(node: Node, name: str) -> float | None:
    """Return the offset of the clock from the last line; None before there is one. All nodes of
    tests are on this machine, and have its time since boot."""
    reported_time = _times(node, name)
    if not reported_time:
        return None
    last_s, last_boot_s = reported_time[-1]
    return (last_s - last_boot_s - (time.time() - time.monotonic())) * 1_000


def _times(node: Node, name: str) -> Sequence[tuple[float, float]]:
    """Time and time since boot, in seconds, of all its lines."""
    try:
        lines = node.read(node.log_directory / f"{name}.log").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    whole = (line.split() for line in lines if line.endswith(b"\n"))
    return [(float(reported_time), float(since_boot)) for reported_time, since_boot in whole]


def _shares(node: Node, process: Process) -> bool:
    names = (f"faketime_shm_{process.pid}", f"sem.faketime_sem_{process.pid}")
    return any(_is_there(node, SHARED_MEMORY / name) for name in names)


def _is_there(node: Node, path: PurePosixPath) -> bool:
    try:
        node.read(path)
    except FileNotFoundError:
        return False
    return True
