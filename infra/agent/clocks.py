"""Clocks that show another time to the programs that are started under them, by libfaketime.

Namespaces have no realtime clock of their own, so a library that is loaded before the C library
tells a program another time. The library reads a file of the agent each time that the program asks
(FAKETIME_NO_CACHE), so the clock of a running program can be changed. The file holds one of two
values:

- An offset from the true time, in seconds.
- For a clock that runs fast or slowly, the time itself, as seconds since 1970. It stands still
  until the next is written, a hundred times a second. The rate of libfaketime (``x2``) would also
  change how long a program sleeps and waits, and another offset would not undo it.

Only CLOCK_REALTIME is changed. A faked CLOCK_MONOTONIC hangs a JVM that waits on a condition
(libfaketime's README: FAKETIME_DONT_FAKE_MONOTONIC). The times of files in ``stat`` are true as
well.

The agent loads a copy of the library, in which one function has a name that is never called. In
0.9.10, a program that sleeps until a moment of CLOCK_MONOTONIC (as Python does) sleeps until a
wrong one.
"""

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from ackproof.infra.agent import children
from ackproof.infra.agent.wire import RefusedByNode

_PLACES = ("/usr/lib/*/faketime", "/usr/lib*/faketime", "/usr/local/lib*/faketime")
_LIBRARY = "libfaketimeMT.so.1"
"""The library for programs with threads. The other one parses into variables that threads would
share."""
_UNFAKED = (b"clock_nanosleep", b"xlock_nanosleep")
_SETTINGS = (
    "FAKETIME_NO_CACHE=1", "FAKETIME_FMT=%s", "NO_FAKE_STAT=1", "FAKE_UTIME=0",
    "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
    # Without it, 0.9.10 takes the end of a wait on a condition, which is a true time of
    # CLOCK_MONOTONIC, for a time of its own, which is long past. A JVM that waits so spins.
    "FAKETIME_FORCE_MONOTONIC_FIX=0",
    # It reads numbers in the format of the locale. Times in logs are UTC, so that they can be
    # compared.
    "LC_ALL=C.UTF-8", "TZ=UTC",
)  # fmt: skip
_FILE = "clock"
_TRUE = "+0"
_STEP_S = 0.01
_MS = 1_000
_NS_PER_MS = 1_000_000

_SHARED = "/dev/shm/"
_BEGINS_WITHIN_S = 30.0
_TRIAL_S = 100_000
_TRIAL_PROGRAM = """\
import threading, time
began = time.monotonic()
time.sleep(0.02)
threading.Event().wait(0.02)
print(int(time.time()), time.monotonic() - began)
"""
_TRIAL_TAKES_S = 0.04

_ANSWERS_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.002
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d),(\d{3})")

_changing = threading.Lock()
_running: dict[str, "_Running"] = {}
"""The clocks that run at another rate, by directory."""


def obstacle(places: Sequence[str] = _PLACES) -> str | None:
    """Return why a program cannot be told another time here, or None if it can.

    A program is run with a clock that is set and with one that runs slowly. It must sleep and wait
    for as long as without them.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as directory:
        try:
            under = make(directory, places)
            for rate in (1.0, 0.5):
                run(directory, _TRIAL_S * _MS, rate)
                if why := _tried(under):
                    return why
        except RefusedByNode as refused:
            return str(refused)
        finally:
            _stop(directory)
    return None


def _tried(under: Sequence[str]) -> str | None:
    command = [*under, sys.executable, "-I", "-S", "-c", _TRIAL_PROGRAM]
    status, output, complaint = children.carry_out(command)
    if status != 0:
        return f"libfaketime does not work here: {complaint.strip() or output.strip()}"
    reported_time, took = map(float, output.split())
    if abs(reported_time - time.time() - _TRIAL_S) > _TRIAL_S / 2:
        return "libfaketime has no effect on this machine"
    return (
        None if took >= _TRIAL_TAKES_S else "with libfaketime, Python does not wait on this machine"
    )


def make(directory: str, places: Sequence[str] = _PLACES) -> list[str]:
    """Make a clock that shows the true time, in a file in the new ``directory``.

    Return what must stand before the command line of a program that uses this clock. Raises Refused
    without libfaketime, which is looked for in ``places`` (patterns of directories).
    """
    if {" ", ":"} & set(directory):
        raise RefusedByNode(
            f"LD_PRELOAD cannot name a file in {directory!r}: the path must have no "
            "blanks and no colons"
        )
    os.makedirs(directory, exist_ok=True)
    library = os.path.join(directory, _LIBRARY)
    with open(_installed(places), "rb") as original, open(library, "wb") as copy:
        copy.write(original.read().replace(*_UNFAKED))
    run(directory, 0, 1.0)
    file = os.path.join(directory, _FILE)
    # By env, and not in the environment of the child: otherwise the program that starts the child
    # would be told another time, too, and would leave its shared memory behind.
    return ["env", f"LD_PRELOAD={library}", f"FAKETIME_TIMESTAMP_FILE={file}", *_SETTINGS]


def run(directory: str, offset_ms: int, rate: float) -> None:
    """Set the clock ``offset_ms`` off the true time, and let it run ``rate`` times as fast from now
    on."""
    with _changing:
        _stop(directory)
        if rate == 1.0:
            _write(directory, _TRUE if offset_ms == 0 else f"{offset_ms / _MS:+.3f}")
        else:
            _running[directory] = _Running(directory, offset_ms, rate)


def _stop(directory: str) -> None:
    if (before := _running.pop(directory, None)) is not None:
        before.stop()


def reported_time(
    address: str, port: int, say: str, line: str, log: str, within: float = _ANSWERS_WITHIN_S
) -> dict[str, float]:
    """Return the time by a server that writes it into its log when ``say`` (in hex) is sent to it.

    See ``infra.api.capabilities``. Raises Refused if the server does not write it ``within``
    seconds.
    """
    try:
        size = os.path.getsize(log)
        with socket.create_connection((address, port), within) as connection:
            own, own_port = connection.getsockname()[:2]
            wanted = line.format(address=own, port=own_port).encode()
            before_ns = time.time_ns()
            connection.sendall(bytes.fromhex(say))
            stamp_ms = _await_stamp(log, size, wanted, within)
            after_ns = time.time_ns()
    except OSError as error:
        raise RefusedByNode(f"its time could not be read: {error}") from error
    # The server wrote the time between the two readings, and cut it off at whole milliseconds.
    earliest, latest = before_ns / _NS_PER_MS, after_ns / _NS_PER_MS
    return {
        "offset_ms": stamp_ms + 0.5 - (earliest + latest) / 2,
        "bound_ms": (latest - earliest) / 2 + 0.5,
        "at_ms": time.monotonic_ns() / _NS_PER_MS - (latest - earliest) / 2,
    }


def forget_shared(pid: int) -> None:
    """Remove the semaphore and the shared memory of a process, in a thread of their own.

    libfaketime makes them for each process, and they stay when it is killed. They can be removed as
    soon as the process has opened them. The caller does not wait for it.
    """
    threading.Thread(target=_forget, args=(pid,), daemon=True).start()


def _forget(pid: int) -> None:
    memory = f"{_SHARED}faketime_shm_{pid}"
    deadline = time.monotonic() + _BEGINS_WITHIN_S
    while time.monotonic() < deadline and not _has_mapped(pid, memory):
        time.sleep(_STEP_S)
    # In this order: a program that finds no memory does without both, and one that finds the memory
    # but no semaphore gives up.
    for path in (memory, f"{_SHARED}sem.faketime_sem_{pid}"):
        with suppress(OSError):
            os.unlink(path)


def _has_mapped(pid: int, path: str) -> bool:
    """Return whether a process has mapped a file, or has ended."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            return path in maps.read()
    except OSError:
        return True


def _await_stamp(log: str, size: int, wanted: bytes, within: float) -> int:
    """Return the time before ``wanted`` in what is written to ``log`` beyond ``size`` bytes.

    The unit is milliseconds since 1970.
    """
    from calendar import timegm

    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        with open(log, "rb") as file:
            file.seek(size)
            for written in file.read().splitlines():
                found = _STAMP.search(written)
                if wanted in written and found is not None:
                    day, second, ms = (group.decode() for group in found.groups())
                    moment = time.strptime(f"{day} {second}", "%Y-%m-%d %H:%M:%S")
                    return timegm(moment) * _MS + int(ms)
        time.sleep(_LOOK_EVERY_S)
    raise RefusedByNode(f"{log} does not say {wanted.decode()!r}")


class _Running:
    """A writer of the time of one clock, again and again until it is stopped."""

    def __init__(self, directory: str, offset_ms: int, rate: float) -> None:
        self._directory = directory
        self._rate = rate
        self._began = time.monotonic()
        self._from = time.time() + offset_ms / _MS
        self._over = threading.Event()
        self._tell()
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_STEP_S):
            with suppress(OSError):  # for example on a full disk; the next write may succeed
                self._tell()

    def _tell(self) -> None:
        now = self._from + self._rate * (time.monotonic() - self._began)
        _write(self._directory, f"{now:.6f}")


def _write(directory: str, text: str) -> None:
    """Write the file as a whole: a program that reads half a time ends."""
    path = os.path.join(directory, _FILE)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
    os.replace(f"{path}.new", path)


def _installed(places: Sequence[str]) -> str:
    from glob import glob

    for pattern in places:
        if found := sorted(glob(os.path.join(pattern, _LIBRARY))):
            return found[0]
    raise RefusedByNode(
        "libfaketime is not installed (Debian, Ubuntu: apt-get install libfaketime)"
    )
