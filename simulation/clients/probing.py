"""What a client tries on purpose, which no good client would do by itself."""

from typing import Final

from kio.schema.errors import ErrorCode

from broker.types import TopicPartition
from simulation.clients.producers import ACKS_ALL, LOST_PRODUCER, Producer
from simulation.clients.window import Flight
from simulation.violation import Violation

REMEMBERED: Final = 5
"""Batches of a producer that a log tells again from new ones (KIP-98)."""


class Probing(Producer):
    """Asks a partition that takes records."""

    async def numbers_count(self, tp: TopicPartition) -> None:
        """**RepetitionsKnown**: the oldest of the batches that are remembered, sent again, is
        answered with the offset that it has. **GapsRefused**: one that is further ahead than the
        next number is not taken. Raises Violation."""
        if not await self._begin_anew():
            return
        flights = [self._numbered(tp, number) for number in range(REMEMBERED)]
        for flight in flights:
            if await self._send(flight) is not ErrorCode.none:
                return
        oldest, batch = flights[0]
        offset = oldest.offset
        error = await self._send((oldest, batch))
        if error in LOST_PRODUCER or oldest.offset != offset:
            what = f"{tp}: {error}, offset {oldest.offset}, for what was acked at {offset}"
            raise Violation("RepetitionsKnown", what)
        ahead = self._numbered(tp, REMEMBERED + 1)
        if await self._send(ahead) is ErrorCode.none:
            what = f"{tp}: number {REMEMBERED + 1} was taken after {REMEMBERED - 1}"
            raise Violation("GapsRefused", what)

    def _numbered(self, tp: TopicPartition, number: int) -> Flight:
        """One record."""
        return self._flight(tp, ACKS_ALL, 1, (*self._producer, number))
