"""Client processes on a client node: their start, their progress and their end."""

import contextlib
import json
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.processes import exit_status, in_words
from ackproof.infra.api.interface import Command, InfraError, Node, Process, ProcessState
from ackproof.infra.clients import programs
from ackproof.infra.machine.secrets import Handed
from ackproof.workloads.configuration import CONNECTION
from ackproof.workloads.interface import Client, ClientRole

_READY_BY: Mapping[ClientRole, str] = {
    ClientRole.PRODUCER: "acked",
    ClientRole.CONSUMER: "assigned",
}
"""The figure of its progress file that shows that a client has begun its work."""

_GONE_WITHIN_S = 5.0
"""The time that a killed client may take to end, in seconds."""


@dataclass(frozen=True, slots=True)
class ClientProcess:
    """A client that was started. ``progress`` is the file in which it reports its progress."""

    client: Client
    process: Process
    progress: Path

    def counts(self) -> Mapping[str, int]:
        """Return the figures of its progress file; empty before it has written one."""
        return {name: value for name, value in self._said().items() if isinstance(value, int)}

    def fatal(self) -> str:
        """Return the fatal error that ended its latest ended session, as it reports it."""
        return str(self._said().get("fatal", ""))

    def _said(self) -> Mapping[str, object]:
        try:
            said: Mapping[str, object] = json.loads(self.progress.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return said

    def ended(self) -> bool:
        """Return whether it is known to have ended. A host that does not answer leaves that
        unknown."""
        try:
            return self.process.state() is ProcessState.EXITED
        except InfraError:
            return False


def start(
    client: Client, node: Node, progress: Path, connection: Mapping[str, Handed] | None = None
) -> ClientProcess:
    """Start ``client`` on ``node``, with its specification in a file of the node's own.

    ``progress`` is the local directory of all progress files. ``connection`` holds the properties
    for its connection. It is passed in the environment, because secrets are in no file that is
    kept.
    """
    specification = node.directory / f"{client.name}.json"
    content = dict(client.specification)
    if client.library is not None:
        content["program"] = programs.command(client.library, node)
    node.write(specification, json.dumps(content, indent=1).encode())
    env = {CONNECTION: json.dumps(dict(connection))} if connection else {}
    command = Command(name=client.name, argv=_argv(client, node, specification), env=env)
    return ClientProcess(client, node.start(command), progress / f"{client.name}.json")


def of_role(role: ClientRole, running: Iterable[ClientProcess]) -> list[ClientProcess]:
    """Return the clients among ``running`` with this role."""
    return [one for one in running if one.client.role is role]


def done(started: Iterable[ClientProcess]) -> tuple[int, int]:
    """Return the number of records acknowledged to producers so far, and read by consumers."""
    counts = [one.counts() for one in started]
    return sum(c.get("acked", 0) for c in counts), sum(c.get("shown", 0) for c in counts)


def ready(running: ClientProcess) -> bool:
    """Return whether it has begun its work; see :class:`workloads.interface.ClientRole`."""
    return running.counts().get(_READY_BY[running.client.role], 0) > 0


def ask_to_stop(running: ClientProcess) -> None:
    """Ask it to finish what is under way, close its history and end."""
    _signal(running, signal.SIGTERM)


def kill(running: ClientProcess) -> None:
    """Kill it. The history that it has flushed stays readable."""
    _signal(running, signal.SIGKILL)


def wait(running: ClientProcess, deadline: Deadline) -> str | None:
    """Wait for its end. Return None if all went well, or else how it ended.

    A client that does not end in time is killed.
    """
    if not deadline.until(running.ended):
        try:
            kill(running)
        except InfraError as silence:
            return f"did not end in time, and cannot be killed: {silence}"
        # A client that ended concerns only its cell, and one that did not concerns all. The kernel
        # may need a moment to end it.
        Deadline.after(deadline.clock, _GONE_WITHIN_S).until(running.ended)
        return "did not end in time and was killed"
    status = exit_status(running.process)
    return f"ended with {in_words(status)}" if status != 0 else None


def _argv(client: Client, node: Node, specification: PurePosixPath) -> tuple[str, ...]:
    return (node.software.python, "-P", "-m", client.module, str(specification))


def _signal(running: ClientProcess, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        running.process.signal(number)
