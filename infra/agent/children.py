"""The processes below this one. There is one such set in a process, so it is this module's state.

Everything that starts, reaps or signals happens in the main thread, one thing after the other
(:func:`in_main_thread`; :func:`run` is its loop):

- Between looking at a process and signalling it nobody reaps it, so its id cannot come to mean
  another process.
- A process that ends before its starter has noted its id would be taken for an orphan and its
  status lost.
- The parent-death signal comes with the end of the *thread* that forked: started from the thread of
  a connection, a broker would be killed when that connection is closed.
"""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from ackproof.infra.agent.parents import dying_with
from ackproof.infra.agent.stat import children
from ackproof.infra.agent.wire import Refused

T = TypeVar("T")

_SET_CHILD_SUBREAPER = 36
_DEFAULT = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ,
    signal.SIGCHLD,
)  # fmt: skip
"""Signals that a program finds as it expects them, whatever we or our parents do with them."""

_calls: "SimpleQueue[Callable[[], object] | None]" = SimpleQueue()
_living: "dict[int, Child]" = {}


class Child:
    """A process that was started here.

    Attributes:
        code: Its exit status, negative for a signal; None while it lives.
        ended: Set once ``code`` is known.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None
        self.ended = threading.Event()


def run(serve: Callable[[], None]) -> None:
    """The main thread's loop, until SIGTERM; ``serve`` runs in a thread beside it.

    It is started here, after signals are heard: whoever had an answer to its first request could
    send SIGTERM else before there is a handler. We would end at once, and all below us would live.
    """
    _hear_signals()
    threading.Thread(target=serve, daemon=True).start()
    _calls.put(reap)  # what has ended before we heard
    while (call := _calls.get()) is not None:
        call()


def run_while(serve: Callable[[], None]) -> None:
    """The same, until ``serve`` has ended, however it did."""

    def served() -> None:
        try:
            serve()
        finally:
            _calls.put(None)

    run(served)


def adopt_orphans() -> None:
    """Whatever our descendants leave behind comes to us from now on (subreaper)."""
    if ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("this kernel knows no subreapers")


def _hear_signals() -> None:
    # A handler in Python runs once the main thread does something. The kernel may give a signal to
    # another thread, and the main thread then waits on in its queue as if nothing had happened;
    # what is written to the wakeup descriptor is written whichever thread it is.
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the harness's

    def hear() -> None:
        while True:
            ended = signal.SIGTERM in os.read(heard, 4096)
            _calls.put(None if ended else reap)

    threading.Thread(target=hear, daemon=True).start()


def in_main_thread(act: Callable[[], T]) -> T:
    """What ``act`` gives or raises there."""
    done = threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(act())
        except BaseException as error:  # noqa: BLE001 - raised to who has called
            errors.append(error)
        done.set()

    _calls.put(call)
    done.wait()
    if errors:
        raise errors[0]
    return results[0]


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    streams: Sequence[Any],
    *,
    dies_with_us: bool = True,
) -> Child:
    """Start a program, in a session of its own; in the main thread. What cannot be executed ends
    with 127 and a word on standard error. ``streams``: file actions of posix_spawn."""
    command = [*(dying_with(os.getpid()) if dies_with_us else ("env", "--")), *argv]
    pid = os.posix_spawnp(
        command[0],
        command,
        env,
        file_actions=streams,
        setsid=True,
        setsigmask=[],
        setsigdef=_DEFAULT,
    )
    child = _living[pid] = Child(pid)
    return child


def reap() -> None:
    """Take note of every process that has ended, orphans too; in the main thread."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            child = _living.pop(ended[0], None)
            if child is not None:
                child.code = os.waitstatus_to_exitcode(ended[1])
                child.ended.set()


def end_all() -> None:
    """Kill everything below us, until nothing is left; in the main thread. What a process leaves
    behind at its death comes to us then, and its turn is next."""
    with suppress(ChildProcessError):
        while True:
            reap()
            for pid in children(os.getpid()):
                with suppress(PermissionError):  # a program run by sudo; it ends by itself
                    os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


def carry_out(
    argv: Sequence[str], text: str = "", env: Mapping[str, str] | None = None, within: float = 60.0
) -> tuple[int, str, str]:
    """Run a program to its end; its exit status and what it wrote to standard output and standard
    error. Raises Refused when it does not end ``within`` seconds, and is killed then."""
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        os.pwrite(files[0], text.encode(), 0)
        streams = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files)]
        child = in_main_thread(lambda: spawn(argv, os.environ if env is None else env, streams))
        if not child.ended.wait(within):
            in_main_thread(lambda: signal_child(child, signal.SIGKILL))
            raise Refused(f"{argv[0]} did not end within {within:g} s")
        assert child.code is not None
        return child.code, _content(files[1]), _content(files[2])
    finally:
        for file in files:
            os.close(file)


def signal_child(child: Child, number: int) -> None:
    """In the main thread. Raises ProcessLookupError when it has ended. One that is stopped is so
    with all that it has started: of a client that has its library in another process, that one
    would else go on to send what it was handed already."""
    reap()
    if child.code is not None:
        raise ProcessLookupError(f"process {child.pid} has exited")
    os.kill(child.pid, number)
    if number in (signal.SIGSTOP, signal.SIGCONT):
        _signal_below(child.pid, number)


def _signal_below(parent: int, number: int) -> None:
    for pid in tuple(children(parent)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
        _signal_below(pid, number)


def _content(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")
