"""What an idempotent producer has under way: batches that have a number and no answer."""

from collections import deque
from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.batch import RecordBatch
from simulation.model.history import Sent

Flight = tuple[Sent, RecordBatch]


class Window:
    """Of one partition, the oldest first."""

    def __init__(self) -> None:
        self._flights: deque[tuple[int, Flight]] = deque()
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._flights)

    @property
    def flights(self) -> Sequence[Flight]:
        return [flight for _, flight in self._flights]

    def has_room(self, ahead: int) -> bool:
        """Whether one more is at most ``ahead`` from the oldest, itself included.

        Not counted are those without an answer alone: 1 has none, 2 to 5 have been acked. With 6 to
        9 in the log, it would have forgotten 1, and refuse its repetition.
        """
        return not self._flights or self._next - self._flights[0][0] < ahead

    def add(self, flight: Flight) -> None:
        """It has the next number."""
        self._flights.append((self._next, flight))
        self._next += 1

    def answered(self, errors: Sequence[ErrorCode | None]) -> None:
        """One for each, in their order: those that are acked leave."""
        pairs = zip(self._flights, errors, strict=True)
        self._flights = deque(known for known, error in pairs if error is not ErrorCode.none)
