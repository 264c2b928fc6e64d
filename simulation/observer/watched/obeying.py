"""Whom brokers obey, and what they make of ZooKeeper's answers."""

import contextlib
from typing import Any

from kio.schema.errors import ErrorCode

from ackproof.broker.server.controller.control_fence import ControlFence, ControlRequest
from ackproof.broker.server.zk import isr_write
from ackproof.broker.server.zk.isr_write import IsrWriteResult
from ackproof.broker.types import TopicPartition
from simulation.observer.moments import newest_connection
from simulation.observer.observer import Observer
from simulation.observer.watched.wrapping import replace
from simulation.observer.writing import written_again


def fences(undo: contextlib.ExitStack, observer: Observer) -> None:
    admit = ControlFence.admit

    def admitted(self: ControlFence, request: ControlRequest, connection: int) -> ErrorCode:
        error = admit(self, request, connection)
        if error is ErrorCode.none:
            with observer.failing():
                newest_connection.obeyed(self, request, connection, admit)
        return error

    replace(undo, ControlFence, "admit", admitted)


def isr_writes(undo: contextlib.ExitStack, observer: Observer) -> None:
    write = isr_write.write_isr

    async def written(session: Any, tp: TopicPartition, **proposed: Any) -> IsrWriteResult:
        result = await write(session, tp, **proposed)
        with observer.failing():
            written_again.check(write, tp, proposed, result, observer.peek)
        return result

    replace(undo, isr_write, "write_isr", written)
