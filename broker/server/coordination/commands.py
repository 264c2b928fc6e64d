"""The execution of the document's admin commands.

Any broker runs any command (:mod:`broker.coordination.admin`). A command continues when its client
has disconnected. An interrupted command would leave its clean-up to the next one.
"""

import asyncio
import contextlib
from collections.abc import Generator, Iterator, Mapping
from typing import Any, TypeVar

from ackproof.broker.coordination import admin_steps as steps
from ackproof.broker.coordination.events import Lifecycle, Refused
from ackproof.broker.coordination.nodes import Kind, Node
from ackproof.broker.server.coordination import nodes
from ackproof.broker.server.coordination.effect_executor import record, refuse
from ackproof.broker.server.coordination.zk_reader import Reader
from ackproof.broker.server.coordination.zk_writer import Settings, Writer

R = TypeVar("R")
Command = Generator[steps.Step, Any, R]

CHECK_INTERVAL_S = 1.0
"""The interval at which a waiting command checks for a change that it may have missed."""


class Commands:
    """Runs commands, several at once if necessary."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: dict[asyncio.Event, None] = {}

    @property
    def waiting(self) -> int:
        """The number of running commands."""
        return len(self._waiting)

    async def run(
        self, command: Command[R], timeout_s: float, settings: Settings | None = None
    ) -> R:
        """Run a command to its end, and return its result.

        If it waits, and has written nothing for ``timeout_s``, it is told that its time is up.
        ``settings`` are those of the topics that it creates. Raise what the command raises.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        with self._listening() as changed, contextlib.closing(command):
            answer: object = None
            while True:
                try:
                    step = command.send(answer)
                except StopIteration as done:
                    result: R = done.value
                    return result
                answer = await self._answer(step, changed, deadline, settings or {})
                if isinstance(step, steps.AdminWrite):
                    deadline = loop.time() + timeout_s

    @contextlib.contextmanager
    def _listening(self) -> Iterator[asyncio.Event]:
        changed = asyncio.Event()
        self._waiting[changed] = None
        try:
            yield changed
        finally:
            self._waiting.pop(changed)

    def _changed(self) -> None:
        for waiting in self._waiting:
            waiting.set()

    async def _answer(
        self, step: steps.Step, changed: asyncio.Event, deadline: float, settings: Settings
    ) -> object:
        match step:
            case steps.ReadTopic():
                return await self._reader.topic(step.topic)
            case steps.ReadQueues():
                return await self._queues(step, changed)
            case steps.ReadNodes():
                return await self._reader.partition(step.partition)
            case steps.ReadReassigned():
                return await self._reader.reassigned_topics()
            case steps.AdminWrite():
                outcome = await self._writer.write(step.ops, None, settings)
                return steps.AdminWritten(result=outcome.result, queued=outcome.queued)
            case steps.AwaitChange():
                return await self._await_change(step, changed, deadline)
            case Lifecycle():
                record(step)
            case Refused():
                refuse(step)
        return None

    async def _queues(self, step: steps.ReadQueues, changed: asyncio.Event) -> Mapping[Any, Any]:
        """Read queues. Changes after this count, because the watch is set with the read."""
        changed.clear()
        read = (self._reader.queue(broker, self._changed) for broker in step.brokers)
        return dict(zip(step.brokers, await asyncio.gather(*read), strict=True))

    async def _await_change(
        self, step: steps.AwaitChange, changed: asyncio.Event, deadline: float
    ) -> steps.Waited:
        """Wait for a change. The queues are watched since they were read, and the partition's node
        from now on."""
        loop = asyncio.get_running_loop()
        left = deadline - loop.time()
        if left <= 0:
            return steps.Waited.TIME_IS_UP
        where = nodes.path(Node(Kind.REASSIGNED, step.partition))
        await self._reader.exists(where, self._changed)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left, CHECK_INTERVAL_S)):
                await changed.wait()
        return steps.Waited.CHANGED if changed.is_set() else steps.Waited.NOTHING_SEEN
