"""**OwnWritesAreKnown**: a leader whose ISR was written would know it by asking again.

The answer to a write may be lost with the connection. The second try is refused by what the first
one has written: taken for another's, the leader waits for the controller to tell it of a state that
is its own, for ever, and commits nothing without whom it wanted to drop. Answers are lost seldom,
so each write is tried once more that was answered, in a world in which nothing happens meanwhile.
"""

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import BadVersionError, NoNodeError

from ackproof.broker.server.zk.isr_write import IsrWriteOutcome, IsrWriteResult
from ackproof.broker.server.zk.znodes import partition_state
from ackproof.broker.types import TopicPartition
from simulation.loop.at_once import at_once
from simulation.violation import Violation

Peek = Callable[[str], tuple[bytes | None, int]]
Write = Callable[..., Coroutine[Any, Any, IsrWriteResult]]


class _Refusing:
    """A session in which everything can be read at once, and each write comes too late."""

    number = 0

    def __init__(self, peek: Peek) -> None:
        self._peek = peek

    async def request(self, submit: Callable[[Any], Any], _number: int) -> Any:
        return submit(self)

    def get_async(self, path: str) -> Any:
        data, version = self._peek(path)
        if data is None:
            raise NoNodeError
        return data, SimpleNamespace(version=version, mzxid=0, czxid=0)

    async def sync(self, _path: str, _number: int) -> None:
        return

    async def set(self, _path: str, _data: bytes, _version: int, _number: int) -> int:
        raise BadVersionError


def check(
    write: Write, tp: TopicPartition, proposed: dict[str, Any], result: IsrWriteResult, peek: Peek
) -> None:
    """The ``result`` of a write is known; raises Violation."""
    if result.outcome is not IsrWriteOutcome.WRITTEN:
        return
    if peek(partition_state(tp))[1] != result.zk_version:
        return  # somebody else has written since
    again = at_once(write(_Refusing(peek), tp, **proposed))
    if again != result:
        what = f"{proposed['leader']} has written the ISR {list(proposed['isr'])} of {tp}"
        raise Violation("OwnWritesAreKnown", f"{what}: asking again it would hear {again.outcome}")
