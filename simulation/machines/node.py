"""Brokers as programs on machines: started, killed, paused, and deprived of power.

A :class:`BrokerNode` is a machine with a disk. Each start of the broker on it is a
:class:`~simulation.loop.SimulatedProcess`. The program is
:class:`broker.server.app.App` itself, in an :class:`~broker.server.environment.Environment` made of
the simulated parts. A process that ended, from any cause, no longer reaches the disk or the
network, though Python may still run the rest of its coroutines (:mod:`simulation.loop`).
"""

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, cast

from ackproof.broker.config import BrokerConfig, Listener
from ackproof.broker.log.disk import FileSystem
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.server.app import App
from ackproof.broker.server.environment import Environment
from ackproof.broker.server.schedule import Clock
from ackproof.broker.types import Millis
from simulation.loop import NO_PROCESS, Killed, SimulatedLoop, SimulatedProcess
from simulation.network import SimulatedNetwork
from simulation.zookeeper.client import client_factory
from simulation.zookeeper.ensemble import SimulatedZooKeeper

PORT = 9092
LOG_DIR = "/data"

REPLACED_AFTER_SESSIONS = 2
"""The absence, in session timeouts, after which a broker returns as another machine."""

BEGINNING_WALL_MS = 1_700_000_000_000
"""The wall clock at the beginning of a world, in milliseconds."""


class MachineDisk(FileSystem, Protocol):
    """A file system that survives processes. A power failure keeps what was synced and, at random,
    some of what was not."""

    failures: int
    """The number of times that the disk has failed to store data."""

    def kill(self) -> None:
        """End the process that used the disk."""

    def lose_power(self) -> None:
        """Lose unsynced data, in part or all of it."""


@dataclass(frozen=True, slots=True)
class SharedParts:
    """The parts of a world that all machines share."""

    loop: SimulatedLoop
    network: SimulatedNetwork
    zookeeper: SimulatedZooKeeper
    random: Random
    probe: "Callable[[BrokerNode, SimulatedProcess], Probe]" = lambda _node, _process: NO_PROBE
    """A function that returns the probe for a new process of a broker."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """The end of a process that was not killed: it was asked to stop, or it failed."""

    at: float
    incarnation: int
    was_requested: bool
    error: BaseException | None

    @property
    def errors(self) -> tuple[BaseException, ...]:
        """Return the single errors of ``error``, which may be a group."""
        return () if self.error is None else tuple(_leaves(self.error))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


class SimulatedClock(Clock):
    """The loop's time. ``clock_offset_ms`` is the lead of this machine's wall clock over others."""

    def __init__(self, loop: SimulatedLoop, clock_offset_ms: int = 0) -> None:
        self.clock_offset_ms = clock_offset_ms
        self._loop = loop

    def now(self) -> Millis:
        return Millis(int(self._loop.time() * 1000))

    def wall_ms(self) -> int:
        return BEGINNING_WALL_MS + int(self._loop.time() * 1000) + self.clock_offset_ms


def broker_name(broker_id: int) -> str:
    """Return the name of a broker's host."""
    return f"broker-{broker_id}"


class BrokerNode:
    """A machine with one broker.

    Args:
        properties: The settings of ``server.properties``, besides id, addresses and directory.
    """

    def __init__(
        self, shared: SharedParts, broker_id: int, disk: MachineDisk, properties: Mapping[str, str]
    ) -> None:
        self.id = broker_id
        self.host = broker_name(broker_id)
        self.disk = disk
        self.clock = SimulatedClock(shared.loop)
        self.config = BrokerConfig.model_validate(
            {
                "broker.id": str(broker_id),
                "listeners": f"PLAINTEXT://{self.host}:{PORT}",
                "log.dirs": LOG_DIR,
                "zookeeper.connect": f"{shared.zookeeper.host}:2181",
                **properties,
            }
        )
        """The configuration of the current process. Later processes have the same, but perhaps
        another advertised address."""
        self.has_power = True
        self.process: SimulatedProcess | None = None
        """The current process, or the last one."""
        self.app: App | None = None
        """The application that the process runs or ran; None until it has begun."""
        self.exits: list[ProcessExit] = []
        """The ends of processes that were not caused by ``kill`` or ``lose_power``."""
        self.after_operation: Callable[[str], None] | None = None
        """A function called with the name of each successful operation on the disk, before the
        broker's code continues. It may kill the process."""
        self._shared = shared
        self._incarnations = 0
        self._machines = 0
        self._down_since = shared.loop.time()
        self._stop: asyncio.Event | None = None
        shared.network.add_host(self.host)

    @property
    def is_alive(self) -> bool:
        """Return whether there is a process, which may be paused."""
        return self.process is not None and not self.process.is_dead

    @property
    def listens(self) -> bool:
        """Return whether clients and other brokers can connect."""
        return self._shared.network.listens(self.host, PORT)

    # --- events of the machine --------------------------------------------------------------

    def start(self) -> None:
        """Start the broker, and the machine if it is off."""
        if self.is_alive:
            raise ValueError(f"{self.process} runs already")
        if not self.has_power:
            self.has_power = True
            self._shared.network.power_restored(self.host)
        self._incarnations += 1
        self._replace_machine()
        process = self.process = SimulatedProcess(self.host, self._incarnations)
        self.app = None
        self._stop = stop = asyncio.Event()
        task = self._shared.loop.create_task(
            self._run_broker(process, stop), context=process.context.copy()
        )
        task.add_done_callback(
            functools.partial(self._process_ended, process, stop), context=NO_PROCESS
        )

    def _replace_machine(self) -> None:
        """Give the machine a new name if it was absent for long. Called at every start.

        The broker then registers its id under another address, with its old disk. Components that
        still use the former address find no server there. Clients use a name that always leads to
        this machine. The name changes only after the session is over, because a broker that finds
        its id registered under another address stops, as Kafka's does.
        """
        absence_s = self._shared.loop.time() - self._down_since
        if absence_s > REPLACED_AFTER_SESSIONS * self.config.zookeeper_session_timeout_ms / 1000:
            self._machines += 1
        name = f"{self.host}-{self._machines}"
        self._shared.network.rename(self.host, name)
        self.config = self.config.model_copy(update={"advertised_listeners": Listener(name, PORT)})

    async def _run_broker(self, process: SimulatedProcess, stop: asyncio.Event) -> None:
        self.app = App(self.config, self._environment(process))
        await self.app.run(stop)

    def stop(self) -> None:
        """Ask the broker to stop (SIGTERM). It ends after it has handed over its leaderships; see
        ``exits``."""
        if self.is_alive and self._stop is not None:
            self._stop.set()

    def kill(self) -> None:
        """Kill the broker (SIGKILL). What was written stays, synced or not."""
        if self.is_alive:
            self._end_process(self._current)

    def lose_power(self) -> None:
        """Switch the machine off until the next start."""
        if self.is_alive:
            self._shared.loop.kill(self._current)
            self._down_since = self._shared.loop.time()
        self.has_power = False
        self._shared.network.power_lost(self.host)
        self.disk.lose_power()

    def pause(self) -> None:
        """Pause the broker (SIGSTOP)."""
        if self.is_alive:
            self._shared.loop.pause(self._current)

    def resume(self) -> None:
        """Resume the broker (SIGCONT)."""
        if self.is_alive:
            self._shared.loop.resume(self._current)

    @property
    def _current(self) -> SimulatedProcess:
        assert self.process is not None
        return self.process

    def _process_ended(
        self, process: SimulatedProcess, stop: asyncio.Event, task: asyncio.Task[None]
    ) -> None:
        error = None if task.cancelled() else task.exception()
        if process.is_dead:  # the process was killed in the middle of its last step
            return
        now = self._shared.loop.time()
        self.exits.append(ProcessExit(now, process.incarnation, stop.is_set(), error))
        self._end_process(process)

    def _end_process(self, process: SimulatedProcess) -> None:
        self._down_since = self._shared.loop.time()
        self._shared.loop.kill(process)
        self._shared.network.process_died(process)
        self.disk.kill()

    def _operation_done(self, operation: str) -> None:
        if self.after_operation is not None:
            self.after_operation(operation)

    def _environment(self, process: SimulatedProcess) -> Environment:
        shared = self._shared

        def listen(listener: Listener, backlog: int) -> Any:
            return shared.network.listen(listener.host, listener.port, backlog)

        return Environment(
            clock=self.clock,
            files=process_files(self.disk, process, self._operation_done),
            random=Random(shared.random.getrandbits(64)),
            zookeeper=client_factory(shared.zookeeper, self.host, shared.loop),
            listen=listen,
            probe=shared.probe(self, process),
        )


def process_files(
    files: FileSystem, process: SimulatedProcess, after: Callable[[str], None]
) -> FileSystem:
    """Return ``files`` for one process, usable only while that process lives.

    After its death each operation raises Killed, including the operation in which it died.
    ``after`` is called with the name of each successful operation.
    """
    return cast(FileSystem, _ProcessFiles(files, process, after))


class _ProcessFiles:
    def __init__(
        self, files: FileSystem, process: SimulatedProcess, after: Callable[[str], None]
    ) -> None:
        for name in vars(FileSystem):
            if not name.startswith("_"):
                operation = getattr(files, name)
                setattr(self, name, _until_killed(name, operation, process, after))


def _until_killed(
    name: str,
    operation: Callable[..., Any],
    process: SimulatedProcess,
    after: Callable[[str], None],
) -> Callable[..., Any]:
    def guarded(*args: Any) -> Any:
        if process.is_dead:
            raise Killed
        result = operation(*args)
        after(name)
        if process.is_dead:
            raise Killed
        return result

    return guarded
