"""The record of what a transactional client did, as rows.

A row that says that something was asked is in its file before it is asked. So is everything that
the question is about: the records of a transaction before its commit, its ``begin`` before its
records. If a client is killed at any moment, what is not recorded did not happen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from ackproof.history.names import SendType
from ackproof.history.payload import Identity
from ackproof.history.transactional import TransactionEvent
from ackproof.history.writer import PartitionedWriter, TableWriter
from ackproof.workloads.process import ProgressFile
from ackproof.workloads.producing.recorder import Keep, SendRecorder
from ackproof.workloads.transactions.spec import TransactionalSpec, TransformerSpec


class ShownRecord(NamedTuple):
    """A record as a transformer was shown it.

    ``time`` is when the poll returned. ``identity`` is None where the payload is none of ours, or
    damaged.
    """

    time: int
    partition: int
    offset: int
    identity: Identity | None


class TransactionRecorder:
    """A recorder of the sessions of one client.

    Args:
        clock: Returns nanoseconds of the Unix epoch.
    """

    def __init__(self, spec: TransactionalSpec, clock: Callable[[], int]) -> None:
        self._spec = spec
        self._clock = clock
        self._sends = PartitionedWriter(spec.history, "sends", spec.client)
        self._transactions = TableWriter(spec.history, "transactions", spec.client)
        self._inputs, self._offsets = (
            TableWriter(spec.history, table, spec.client)
            if isinstance(spec, TransformerSpec)
            else None
            for table in ("inputs", "transaction_offsets")
        )
        self._recorders: list[SendRecorder] = []
        self._counts = dict.fromkeys(("committed", "aborted", "undecided"), 0)

    def sends_of(self, producer: int) -> SendRecorder:
        """Return the recorder of a session's sends, by its producer number."""
        mine = self._spec.model_copy(update={"producer": producer})
        self._recorders.append(SendRecorder(mine, self._sends, self._clock))
        return self._recorders[-1]

    def began(self, producer: int, transaction: int, sequence: int) -> None:
        """Record that a transaction has begun, whose first record will have that sequence
        number."""
        begin = TransactionEvent.BEGIN
        self._event(producer, transaction, begin, SendType.OK, sequence=sequence)

    def asks(self, producer: int, transaction: int, event: TransactionEvent) -> None:
        """Record that the coordinator is about to be asked."""
        self._sends.flush()
        for table in (self._inputs, self._offsets):
            if table is not None:
                table.flush()
        self._event(producer, transaction, event, SendType.INVOKE)

    def answered(
        self,
        producer: int,
        transaction: int,
        event: TransactionEvent,
        outcome: SendType,
        error: str | None,
    ) -> None:
        """Record the outcome of what was asked."""
        if event is not TransactionEvent.INIT:
            self._counts[_counted_as(event, outcome)] += 1
        self._event(producer, transaction, event, outcome, error=error)

    def read(
        self, producer: int, transaction: int, made: Sequence[tuple[ShownRecord, int | None]]
    ) -> None:
        """Record what a transaction read, each with the sequence number of what is made of it."""
        assert self._inputs is not None, "a producer reads nothing"
        topic, client = self._spec.topic, self._spec.client
        for read, sequence in made:
            where = (topic, read.partition, read.offset)
            identity = read.identity or (None, None, None)
            row = (read.time, client, producer, transaction, *where, *identity, sequence)
            self._inputs.append(row)

    def offsets(
        self,
        producer: int,
        transaction: int,
        kind: str,
        positions: Mapping[int, int],
        error: str | None = None,
    ) -> None:
        """Record offsets that are about to be sent, their outcome, or what was fetched."""
        assert self._offsets is not None, "a producer commits no offsets"
        assert isinstance(self._spec, TransformerSpec)
        who = (self._clock(), self._spec.client, self._spec.group, producer, transaction)
        for partition, offset in sorted(positions.items()):
            self._offsets.append((*who, kind, self._spec.topic, partition, offset, error))

    def keep(self, now: float) -> None:
        """Flush as :data:`workloads.producing.recorder.Keep` does, without the progress file."""
        self._sends.flush_due(now)

    def close(self) -> None:
        """Close all tables, even when one fails, then raise the first failure."""
        tables = (self._sends, self._transactions, self._inputs, self._offsets)
        with ExitStack() as closing:
            for table in tables:
                if table is not None:
                    closing.callback(table.close)

    def figures(self) -> Mapping[str, int]:
        """Return the figures for the progress file.

        They are those of all sessions' sends, and how many transactions were ``committed``,
        ``aborted`` and ``undecided``.
        """
        figures = [recorder.figures() for recorder in self._recorders]
        sends = ("sent", "acked", "failed", "indeterminate")
        summed = {name: sum(one[name] for one in figures) for name in sends}
        return {**summed, **self._counts, "time": self._clock()}

    def _event(
        self,
        producer: int,
        transaction: int,
        event: TransactionEvent,
        kind: SendType,
        *,
        sequence: int | None = None,
        error: str | None = None,
    ) -> None:
        self._transactions.write(
            time=self._clock(),
            client=self._spec.client,
            cell=self._spec.cell,
            transactional_id=self._spec.transactional_id,
            producer=producer,
            transaction=transaction,
            event=event,
            type=kind,
            sequence=sequence,
            error=error,
        )


def _counted_as(event: TransactionEvent, outcome: SendType) -> str:
    if outcome is not SendType.OK:
        return "undecided"
    return "committed" if event is TransactionEvent.COMMIT else "aborted"


@contextmanager
def recording(
    spec: TransactionalSpec, clock: Callable[[], int]
) -> Iterator[tuple[TransactionRecorder, Keep]]:
    """Yield the recorder of a client's sessions, and close its history at the end."""
    recorder = TransactionRecorder(spec, clock)
    progress = ProgressFile(spec.progress)

    def keep(now: float) -> None:
        recorder.keep(now)
        if progress.due(now):
            progress.write(recorder.figures())

    try:
        yield recorder, keep
    finally:
        recorder.close()
        progress.write(recorder.figures())
