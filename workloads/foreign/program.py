"""A program under test, as a child with a pipe each way: docs/client-protocol.md.

Neither pipe can make us wait. What the program does not take yet stays here, and what it says is
read whenever we look. What it writes to standard error is in our own log.

It ends with us. Its input ends when we do, and Linux kills it when our main thread is gone
(PR_SET_PDEATHSIG), because a client that a fault has crashed must not go on to send. A program that
starts others is killed with them when it does not end. A script should ``exec`` what it starts.
"""

import ctypes
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ackproof.history.cell import LIBRARIES
from ackproof.workloads.configuration import CONNECTION, connection_of_environment
from ackproof.workloads.foreign.protocol import (
    LINE_BYTES_MAX,
    VERSION,
    Command,
    ConsumerProperty,
    MalformedLine,
    Open,
    Property,
    Protocol,
    Ready,
    Saying,
    Subscribe,
    Topic,
    decode_saying,
    encode_command,
)
from ackproof.workloads.foreign.security import program_security
from ackproof.workloads.process import ClientFailed
from ackproof.workloads.spec import SpecificationError

READY_S = 60.0
"""How long the program may take until it is ready, in seconds."""
END_S = 10.0
"""How long the program may take to end when it has said all, in seconds."""

_READ_BYTES = 1 << 18
_PR_SET_PDEATHSIG = 1
_SIGNALLED = 128
"""The number that a shell adds to a signal's: 128."""
_OPEN = Open()
_NEEDED = (
    "records with keys or tombstones need a program that speaks version 2 of the client protocol, "
    "which it confirms by `ready 2`"
)


class ProgramFailed(ClientFailed):
    """The error of a program that has ended, has said that it cannot go on, or says something
    impossible."""


def greeting(
    topics: Sequence[str],
    properties: Mapping[str, str],
    client: str = "",
    last: Open | Subscribe = _OPEN,
    consumer: Mapping[str, str] | None = None,
    version: int = VERSION,
) -> bytes:
    """Return the first lines for a program: where its records are, its properties, and those of its
    connection, which the environment of this process holds for ``client``.

    ``last`` says whether it is a producer or a member of a group. ``consumer`` has the properties
    of a transformer's consumer; None stands for any other program. ``version`` is that of the
    protocol that the program must speak.

    Raise SpecificationError for what the protocol cannot say, or the program cannot be given, and
    OSError for a file that cannot be read.
    """
    try:
        secured = program_security(client, connection_of_environment())
        reads = {} if consumer is None else {**consumer, **secured}
        commands: Sequence[Command] = (
            Protocol(version),
            *map(Topic, topics),
            *(Property(name, value) for name, value in {**properties, **secured}.items()),
            *(ConsumerProperty(name, value) for name, value in reads.items()),
            last,
        )
        return b"".join(encode_command(command) for command in commands)
    except ValueError as error:
        raise SpecificationError(str(error)) from None


@contextmanager
def greeted(library: str, version: int) -> Iterator[None]:
    """Add what ``version`` of the protocol is needed for to the error of a program that fails
    before it is ready. A program of Ackproof's own knows all versions."""
    try:
        yield
    except ProgramFailed as error:
        if version == VERSION or library in LIBRARIES:
            raise
        raise ProgramFailed(f"{error}; {_NEEDED}", error.status) from error


def check_version(ready: Ready, version: int) -> None:
    """Raise ProgramFailed for a program that speaks another version of the protocol than it was
    told."""
    if ready.version != version:
        raise ProgramFailed(
            f"the program was told protocol {version}, and answered in version {ready.version}"
        )


class RunningProgram:
    """A running program with the arguments ``argv``.

    The constructor raises ProgramFailed where it cannot be started.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        libc = ctypes.CDLL(None)

        def die_with_us() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env={name: value for name, value in os.environ.items() if name != CONNECTION},
                # An interrupt, by a terminal's Ctrl-C, is meant for us, and we ask the program to
                # end.
                start_new_session=True,
                preexec_fn=die_with_us,  # noqa: PLW1509  # there is one thread, which holds no lock
            )
        except OSError as error:
            raise ProgramFailed(f"cannot start {argv[0]}: {_why(argv[0], error)}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._selector = selectors.DefaultSelector()
        for end in (self._stdin, self._stdout):
            os.set_blocking(end, False)
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._unwritten = bytearray()
        self._unread = bytearray()
        self._over = False

    @property
    def busy(self) -> bool:
        """Whether the program has not yet taken everything that it was told."""
        return bool(self._unwritten)

    def tell(self, lines: bytes) -> None:
        """Hand lines over, with their ends; the program gets the rest when it takes it."""
        was_busy = self.busy
        self._unwritten += lines
        if not was_busy:
            self._write()

    def hear(self, seconds: float) -> Iterator[Saying]:
        """Yield what the program says, waiting so long for the first of it.

        Raise ProgramFailed for what is no line of the protocol, after everything it said before.
        Raise it also when the program has ended, with its exit status.
        """
        for key, _ in self._selector.select(max(0.0, seconds)):
            if key.fd == self._stdin:
                self._write()
            else:
                yield from self._read()
        if self._over:
            raise self._ended()

    def end(self) -> None:
        """Tell the program that there is no more; it has :data:`END_S` to end.

        Raise ProgramFailed when it does not end, or ends with another status than 0.
        """
        self._close_input()
        if self._wait(END_S) is None:
            self.kill()
            raise ProgramFailed(f"the program did not end within {END_S:g} s, and was killed")
        if self._process.returncode != 0:
            raise self._ended()

    def kill(self) -> None:
        """End the program at once, and everything it started; this is idempotent."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close_input()
        self._selector.close()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _write(self) -> None:
        with suppress(BlockingIOError):
            try:
                while self._unwritten:
                    del self._unwritten[: os.write(self._stdin, self._unwritten)]
            except BrokenPipeError:  # its end shows why it does not listen any more
                self._unwritten.clear()
        registered = self._stdin in self._selector.get_map()
        if self._unwritten and not registered:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        elif registered and not self._unwritten:
            self._selector.unregister(self._stdin)

    def _read(self) -> Iterator[Saying]:
        with suppress(BlockingIOError):
            chunk = os.read(self._stdout, _READ_BYTES)
            self._over = not chunk
            self._unread += chunk
        *lines, rest = bytes(self._unread).split(b"\n")
        self._unread = bytearray(rest)
        if len(rest) > LINE_BYTES_MAX or (rest and self._over):
            lines.append(rest)
        for line in lines:
            try:
                yield decode_saying(line)
            except MalformedLine as error:
                raise ProgramFailed(f"the program said what is no line: {error}") from None

    def _ended(self) -> ProgramFailed:
        """Return how the program ended; one that only closed its output is killed."""
        status = self._wait(END_S)
        if status is None:
            self.kill()
            return ProgramFailed("the program closed its output, and was killed")
        if status < 0:
            name = signal.Signals(-status).name
            return ProgramFailed(f"the program was ended by {name}", _SIGNALLED - status)
        return ProgramFailed(f"the program ended with status {status}", status or 1)

    def _wait(self, seconds: float) -> int | None:
        """Return the exit status, if the program ended within so many seconds.

        What it still says is read and dropped, because a full pipe would keep it from ending.
        """
        deadline = time.monotonic() + seconds
        while self._process.poll() is None and (left := deadline - time.monotonic()) > 0:
            self._drop(min(left, 0.05))
        return self._process.returncode

    def _drop(self, seconds: float) -> None:
        if self._over:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        elif any(key.fd == self._stdout for key, _ in self._selector.select(seconds)):
            with suppress(BlockingIOError):
                self._over = not os.read(self._stdout, _READ_BYTES)

    def _close_input(self) -> None:
        self._unwritten.clear()
        with suppress(KeyError, ValueError):
            self._selector.unregister(self._stdin)
        assert self._process.stdin is not None
        self._process.stdin.close()


def _why(program: str, error: OSError) -> str | None:
    """Return why a program could not be started.

    Linux says that a program is missing if only its interpreter or loader is.
    """
    if isinstance(error, FileNotFoundError) and Path(program).is_file():
        return "what runs it is not here: its interpreter (#!) or its dynamic loader"
    return error.strerror
