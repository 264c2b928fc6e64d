"""Commands of the user's own that inject faults: run on this machine, journalled, undone.

A command is a list of words, and no shell reads it. Before a command injects a fault, the command
that undoes it is written to a file in the run's results and synced. The run, its outer process,
``ackproof clean`` or the next run can therefore undo what a killed harness has left.
"""

import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ackproof.config.sensitive import HIDDEN, holds_secret, is_sensitive
from ackproof.infra.agent.parents import dying_with
from ackproof.infra.api.interface import InfraError


def append_entry(path: Path, entry: Mapping[str, object]) -> None:
    """Append one line and sync it to disk. The file is made if it does not exist."""
    with path.open("ab+") as file:
        # A line that was being written when the harness was killed must not swallow this one.
        file.seek(max(file.tell() - 1, 0))
        torn = file.read() not in (b"", b"\n")
        file.write((b"\n" if torn else b"") + json.dumps(entry).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def journal_entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines that were written to their end. What a torn line announces was not done."""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


# --- commands ---------------------------------------------------------------------------------


logger = logging.getLogger(__name__)

FILE = "commands.jsonl"
"""The name of the journal in the directory of a run."""

_LOGGED_BYTES = 64 << 10
_LAST_LINES = 5
_LAST_CHARACTERS = 600
_SECRET_CHARACTERS_MIN = 4
"""The length of the shortest hidden secret. A shorter one would hide syllables of all that is
printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCommand:
    """A command to run.

    Attributes:
        argv: The words of the command.
        directory: The working directory; empty for the caller's.
        variables: Variables that are added to its environment. They must hold no secrets, since
            they are written down.
        within_ms: The time limit in milliseconds.
    """

    argv: tuple[str, ...]
    directory: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    within_ms: int = 60_000

    def __str__(self) -> str:
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """The end of a command.

    Attributes:
        status: The exit status, negative for a signal; None after the time limit.
        said: The end of its output, without secrets.
    """

    status: int | None
    said: str

    def __str__(self) -> str:
        how = (
            "did not end within its time limit"
            if self.status is None
            else f"ended with {self.status}"
        )
        return f"{how}: {self.said}" if self.said else how


class OwnCommands:
    """A runner of the commands of one run. Thread-safe.

    Args:
        journal: The file that is written before a fault is injected; None for commands that end
            with this process.
        run: The number of the run.
        secrets: Values that no log and no report may show, beside those of the environment.
    """

    def __init__(
        self, journal: Path | None = None, run: int = 0, secrets: Collection[str] = ()
    ) -> None:
        self.run = run
        self._journal = journal
        self._secrets = _secrets(secrets)
        self._lock = threading.Lock()
        self._healed: set[int] = set()
        self._last: dict[tuple[tuple[str, ...], str], CommandEnd] = {}

    def inject(self, number: int, inject: OwnCommand, heal: OwnCommand) -> None:
        """Write down how to undo fault ``number``, then inject it.

        Raises OSError if the command cannot be started, which has changed nothing, and InfraError
        if it fails.
        """
        self._write({"inject": number, "heal": asdict(heal)})
        try:
            ended = self._run(inject, f"fault {number}: inject", dies_with_us=True)
        except OSError:
            self._write({"healed": number})
            raise
        _require(inject, ended)

    def heal(self, number: int, heal: OwnCommand) -> None:
        """Undo fault ``number``. Raises InfraError if the command fails."""
        try:
            _require(heal, self._run(heal, f"fault {number}: heal"))
        except OSError as error:
            raise InfraError(f"{heal}: {error.strerror or error}") from None
        self._write({"healed": number})
        with self._lock:
            self._healed.add(number)

    def is_healed(self, number: int) -> bool:
        """Return whether the command that undoes fault ``number`` has ended with 0."""
        with self._lock:
            return number in self._healed

    def ask(self, command: OwnCommand) -> CommandEnd:
        """Run a command that only observes, and return how it ended."""
        try:
            return self._run(command, "look", dies_with_us=True)
        except OSError as error:
            return CommandEnd(status=127, said=f"{command.argv[0]}: {error.strerror or error}")

    def _run(self, command: OwnCommand, what: str, *, dies_with_us: bool = False) -> CommandEnd:
        ended = run(command, self._secrets, dies_with_us=dies_with_us)
        key = (command.argv, what)
        with self._lock:
            repeated = self._last.get(key) == ended
            self._last[key] = ended
        if not repeated:  # an observation is made ten times a second
            logger.info("%s: %s %s", what, command, ended)
        return ended

    def _write(self, entry: Mapping[str, object]) -> None:
        if self._journal is not None:
            with self._lock:
                append_entry(self._journal, entry)


def run(
    command: OwnCommand, secrets: Collection[str] = (), *, dies_with_us: bool = False
) -> CommandEnd:
    """Run a command to its end, or kill it and all that it started at its time limit.

    Args:
        secrets: Values to hide in its output.
        dies_with_us: Whether it is killed when this process is: no process would undo what it does
            later.

    Raises OSError if it cannot be started.
    """
    environment = {**os.environ, **command.variables}
    directory = command.directory or None
    argv = list(command.argv)
    require_program(argv[0], command.directory)
    if dies_with_us:
        argv = [*dying_with(os.getpid()), *argv]
    # The output goes to a file and not to a pipe: children of the command would keep a pipe open
    # for as long as they live.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            argv,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # it must not get this terminal's Ctrl-C
        )
        status: int | None
        try:
            status = process.wait(command.within_ms / 1000)
        except subprocess.TimeoutExpired:
            status = None
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        length = output.seek(0, os.SEEK_END)
        output.seek(max(0, length - _LOGGED_BYTES))
        text = output.read().decode(errors="replace")
    return CommandEnd(status=status, said=_last(masked(text, secrets)))


def require_program(program: str, directory: str = "") -> None:
    """Raise OSError, with the reason, if a program does not exist or is not executable."""
    if "/" in program:
        path = Path(directory or ".") / program
        if not path.exists():
            raise FileNotFoundError(2, "No such file or directory", str(path))
        if path.is_dir() or not os.access(path, os.X_OK):
            raise PermissionError(13, "it is not executable", str(path))
        return
    if shutil.which(program) is None:
        raise FileNotFoundError(2, "it is not on the PATH", program)


def masked(text: str, secrets: Collection[str]) -> str:
    """Return ``text`` without these values, and without the lines that hold another secret."""
    for value in secrets:
        text = text.replace(value, HIDDEN)
    return "\n".join(HIDDEN if holds_secret(line) else line for line in text.splitlines())


def restore(results: Path, tell: Callable[[str], None]) -> None:
    """Undo what the commands of a campaign have left in its results, the last first.

    Raises InfraError with what could not be undone. Called again, it continues with the rest.
    """
    failures = []
    for path in sorted(results.glob(f"runs/*/{FILE}")):
        for number, heal in reversed(_left(path).items()):
            try:
                _require(heal, run(heal, _secrets(())))
            except (InfraError, OSError) as error:
                failures.append(f"fault {number} is not healed: {error}")
            else:
                append_entry(path, {"healed": number})
                tell(f"healed fault {number}: {heal}")
    if failures:
        raise InfraError("; ".join(failures))


def require_nothing_left(results: Path) -> None:
    """Raise InfraError if the commands of a campaign have left a fault that is not healed."""
    left = [str(n) for path in sorted(results.glob(f"runs/*/{FILE}")) for n in _left(path)]
    if left:
        raise InfraError(f"not healed: fault {', '.join(left)}; `ackproof clean` heals it")


def _left(path: Path) -> dict[int, OwnCommand]:
    """Return how to undo each fault that was injected and is not healed, in that order."""
    left: dict[int, OwnCommand] = {}
    try:
        for entry in journal_entries(path):
            if "inject" in entry:
                left[int(entry["inject"])] = _command(entry["heal"])
            else:
                left.pop(int(entry["healed"]), None)
    except OSError as error:
        raise InfraError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise InfraError(
            f"{path} is damaged: the effects that commands left are unknown"
        ) from error
    return left


def _command(written: Mapping[str, Any]) -> OwnCommand:
    # Up to version 0.2 the journal had the variables as ``told``.
    values = {"variables" if key == "told" else key: value for key, value in written.items()}
    return OwnCommand(**{**values, "argv": tuple(written["argv"])})


def _require(command: OwnCommand, ended: CommandEnd) -> None:
    if ended.status != 0:
        raise InfraError(f"{command} {ended}")


def _secrets(given: Collection[str]) -> tuple[str, ...]:
    """Return the secrets, the longest first: one may contain another."""
    ours = (value for name, value in os.environ.items() if is_sensitive(name))
    found = {one for one in (*given, *ours) if len(one) >= _SECRET_CHARACTERS_MIN}
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-_LAST_LINES:])[-_LAST_CHARACTERS:]
