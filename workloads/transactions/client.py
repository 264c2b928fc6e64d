"""What a session asks of a client library, of whatever kind: Kafka's calls of a transactional
producer, and how one of them fails."""

from collections.abc import Callable
from typing import Protocol

from ackproof.history.schema import SendType
from ackproof.workloads.foreign.protocol import Remedy

Report = Callable[[int, SendType, int | None, str | None], None]
"""Told what became of a record: its sequence number, outcome, offset and error."""


class CallFailed(Exception):
    """A call failed. ``name``: of the error, as the library has it."""

    def __init__(self, name: str, remedy: Remedy, reason: str = "") -> None:
        super().__init__(f"{name} ({remedy}): {reason}" if reason else f"{name} ({remedy})")
        self.name = name
        self.remedy = remedy


class TransactionalClient(Protocol):
    """A transactional producer. Calls raise CallFailed; ``seconds`` is how long one waits for its
    answer. What becomes of records is told to the Report that it was made with, while any call is
    under way."""

    @property
    def ready(self) -> bool:
        """Whether calls may be made. Until then it is to be served."""

    @property
    def waiting(self) -> int:
        """Records that nothing was told of yet."""

    def init(self, seconds: float) -> None: ...

    def begin(self) -> None: ...

    def send(self, sequence: int, partition: int, value: bytes) -> None:
        """Hand a record over. That it was refused is told of the record, and not raised."""

    def commit(self, seconds: float) -> None: ...

    def abort(self, seconds: float) -> None: ...

    def serve(self, seconds: float) -> None:
        """Listen to the library for at most so long."""

    def close(self) -> None:
        """Give up what is under way; what is open stays so. Records of which nothing is told by
        then never will be. Raises nothing."""
