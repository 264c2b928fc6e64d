"""The processes below this one. A process has one such set, so it is the state of this module.

Everything that starts, reaps or signals happens in the main thread, one thing after the other
(:func:`in_main_thread`; :func:`run` is its loop):

- No process is reaped between the look at it and the signal to it, so its id cannot come to mean
  another process.
- A process that ends before its starter has noted its id would be taken for an orphan, and its
  status would be lost.
- The parent-death signal comes with the end of the *thread* that forked. A broker that the thread
  of a connection started would be killed when that connection is closed.
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
from ackproof.infra.agent.wire import RefusedByNode

T = TypeVar("T")

_SET_CHILD_SUBREAPER = 36
_DEFAULT = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ,
    signal.SIGCHLD,
)  # fmt: skip
"""The signals that a program gets with their default action, whatever the agent or its parents
do."""

_calls: "SimpleQueue[Callable[[], object] | None]" = SimpleQueue()
_living: "dict[int, Child]" = {}


class Child:
    """A process that was started here.

    Attributes:
        code: The exit status, negative for a signal; None while the process lives.
        ended: An event that is set once ``code`` is known.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None
        self.ended = threading.Event()


def run(serve: Callable[[], None]) -> None:
    """Run the main thread's loop until SIGTERM, with ``serve`` in a thread beside it.

    That thread is started here, after the signal handlers are installed. Otherwise a client with an
    answer to its first request could send SIGTERM before there is a handler. The agent would end at
    once, and all processes below it would live on.
    """
    _hear_signals()
    threading.Thread(target=serve, daemon=True).start()
    _calls.put(reap)  # processes that ended before the handlers were there
    while (call := _calls.get()) is not None:
        call()


def run_while(serve: Callable[[], None]) -> None:
    """Run the loop of :func:`run` until ``serve`` has returned or raised."""

    def served() -> None:
        try:
            serve()
        finally:
            _calls.put(None)

    run(served)


def adopt_orphans() -> None:
    """Become the parent of every orphan among the descendants from now on (subreaper)."""
    if ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("this kernel does not support subreapers")


def _hear_signals() -> None:
    # A handler in Python runs once the main thread does something. The kernel may give a signal to
    # another thread, and the main thread then waits on in its queue. The wakeup descriptor is
    # written to whichever thread gets the signal.
    heard, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the harness's

    def hear() -> None:
        while True:
            ended = signal.SIGTERM in os.read(heard, 4096)
            _calls.put(None if ended else reap)

    threading.Thread(target=hear, daemon=True).start()


def in_main_thread(act: Callable[[], T]) -> T:
    """Return or raise what ``act`` returns or raises in the main thread."""
    done = threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(act())
        except BaseException as error:  # noqa: BLE001 - raised to the caller
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
    """Start a program in a session of its own; call it in the main thread.

    A program that cannot be executed ends with 127 and a message on standard error. ``streams`` are
    file actions of posix_spawn.
    """
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
    """Note every process that has ended, orphans too; call it in the main thread."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            child = _living.pop(ended[0], None)
            if child is not None:
                child.code = os.waitstatus_to_exitcode(ended[1])
                child.ended.set()


def end_all() -> None:
    """Kill everything below this process until nothing is left; call it in the main thread.

    Children of a killed process become children of this one, and are killed next.
    """
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
    """Run a program to its end, and return its exit status, standard output and standard error.

    Raises Refused if it does not end ``within`` seconds; it is killed then.
    """
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        os.pwrite(files[0], text.encode(), 0)
        streams = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files)]
        child = in_main_thread(lambda: spawn(argv, os.environ if env is None else env, streams))
        if not child.ended.wait(within):
            in_main_thread(lambda: signal_child(child, signal.SIGKILL))
            raise RefusedByNode(f"{argv[0]} did not end within {within:g} s")
        assert child.code is not None
        return child.code, _content(files[1]), _content(files[2])
    finally:
        for file in files:
            os.close(file)


def signal_child(child: Child, number: int) -> None:
    """Send a signal to a child; call it in the main thread.

    A child is stopped together with all processes below it. A client may have its library in
    another process, which would otherwise go on to send the records that it already has. Raises
    ProcessLookupError if the child has ended.
    """
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
