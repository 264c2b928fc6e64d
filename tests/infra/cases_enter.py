"""Run inside by test_enter.py."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ackproof.infra.api.interface import Command
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.infra.backends.local.processes import MEANT_AS_1
from ackproof.infra.machine.waiting import wait_until
from tests.support.backends.link_cases import cut
from tests.support.processes.deadlines import PATIENCE_S


def exits_with_7(_: Path) -> int:
    return 7


def kills_itself(_: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def counts_signals(scratch: Path) -> int:
    """Ends at the first SIGINT or SIGTERM, with 20 and the number of them seen until then, and with
    20 more for SIGTERM."""
    seen: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, _frame: seen.append(n))
    _ready(scratch)
    # Looked for, not paused for: one that comes between a look and the pause would end no pause.
    wait_until(lambda: bool(seen), PATIENCE_S, "a signal")
    with suppress(TimeoutError):
        wait_until(lambda: len(seen) > 1, 0.2, "a signal that should come only once")
    return len(seen) + (40 if signal.SIGTERM in seen else 20)


def breaks_a_guarantee(_scratch: Path) -> int:
    return MEANT_AS_1


def fails_as_python_does(_scratch: Path) -> int:
    raise RuntimeError("an internal error")


def is_interrupted(scratch: Path) -> int:
    try:
        _ready(scratch)
        wait_until(lambda: False, PATIENCE_S, "Ctrl-C")
    except KeyboardInterrupt:
        return 9


def reaps_orphans(_: Path) -> None:
    started = subprocess.run(
        ["sh", "-c", "sleep 0.05 >/dev/null & echo $!"], capture_output=True, check=True
    )
    orphan = Path("/proc") / started.stdout.decode().strip()
    wait_until(lambda: not orphan.exists(), PATIENCE_S, "the orphan to be reaped")


def busy(scratch: Path) -> None:
    """Nodes, processes (one of them stopped, one that left its group), a cut, the uplink."""
    backend = LocalBackend(scratch / "nodes", exposed=True)
    a, b = backend.node("a"), backend.node("b")
    sleep = [sys.executable, "-c", "import os, signal; os.fork(); signal.pause()"]
    a.start(Command(name="runs", argv=sleep, env=_mark()))
    stopped = b.start(Command(name="stopped", argv=["sleep", "1000"], env=_mark()))
    stopped.signal(signal.SIGSTOP)
    subprocess.run(["sh", "-c", "setsid sleep 1000 &"], check=True)
    cut(backend, a, b)
    _ready(scratch)
    while True:
        signal.pause()


def _ready(scratch: Path) -> None:
    (scratch / "inner.new").write_text(str(os.getpid()))
    (scratch / "inner.new").rename(scratch / "inner")


def _mark() -> dict[str, str]:
    return {"ACKPROOF_TEST_MARK": os.environ["ACKPROOF_TEST_MARK"]}
