"""The sessions of one client, one after the other, and what it draws."""

import random
import time
from collections.abc import Callable
from enum import Enum, auto

from ackproof.history.transactional import producer_number
from ackproof.workloads.producing.sending import Keep
from ackproof.workloads.transactions.recording import TransactionRecorder
from ackproof.workloads.transactions.session import PAUSE_S, Session
from ackproof.workloads.transactions.spec import TransactionalSpec, TransformerSpec


class End(Enum):
    """What becomes of a transaction, as it was drawn."""

    COMMIT = auto()
    ABORT = auto()
    FENCE = auto()


class Draws:
    """Everything that a client leaves to chance: the same for the same seed and client."""

    def __init__(self, spec: TransactionalSpec) -> None:
        self._random = random.Random(f"{spec.seed}/{spec.client}")
        self._spec = spec

    def end(self) -> End:
        """What becomes of the next transaction."""
        drawn = self._random.random()
        if drawn < self._spec.fences:
            return End.FENCE
        return End.ABORT if drawn < self._spec.fences + self._spec.aborts else End.COMMIT

    def records(self) -> int:
        """How many records it has: half as many as on average, up to half as many again."""
        return self._random.randint(
            (self._spec.transaction_records + 1) // 2, 3 * self._spec.transaction_records // 2
        )

    def partition(self) -> int:
        """Where a record goes."""
        return self._random.randrange(self._spec.partitions)


class Lives:
    """The client's sessions. ``stopping``: whether it was asked to stop."""

    def __init__(
        self,
        spec: TransactionalSpec,
        recorder: TransactionRecorder,
        keep: Keep,
        stopping: Callable[[], bool],
    ) -> None:
        self._spec = spec
        self._recorder = recorder
        self._keep = keep
        self._stopping = stopping
        self._begun = 0

    def next(self) -> Session | None:
        """A session that has taken over the ``transactional.id``, from whoever had it; None when
        the client was asked to stop before one had."""
        while not self._stopping():
            session = self._new()
            while not session.ready and not self._stopping():
                session.serve(PAUSE_S)
            if session.ready and session.init():
                return session
            session.close()
            self._keep(time.monotonic())
        return None

    def fence(self, zombie: Session, partition: int) -> Session | None:
        """Another session takes over while ``zombie`` has a transaction open. That goes on as if
        it had not: it sends one more record, and asks for the commit."""
        successor = self.next()
        if successor is not None:
            zombie.send(partition)
            zombie.commit()
        zombie.close()
        return successor

    def _new(self) -> Session:
        transformer = isinstance(self._spec, TransformerSpec)
        number = producer_number(self._spec.producer, self._begun, transformer=transformer)
        self._begun += 1
        return Session(self._spec, number, self._recorder, self._keep)
