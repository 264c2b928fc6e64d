"""What a client tries on purpose, which no good client would do by itself."""

import asyncio
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from simulation.clients.producers import ACKS_ALL, LOST_PRODUCER, Producer, new_producer_id
from simulation.clients.window import Flight
from simulation.violation import Violation

REMEMBERED: Final = 5
"""Batches of a producer that a log tells again from new ones (KIP-98)."""

EPOCHS: Final = "ProducerEpochsCount"


class Probing(Producer):
    """Asks a partition that takes records."""

    async def numbers_count(self, tp: TopicPartition) -> None:
        """**RepetitionsKnown**: the oldest of the batches that are remembered, sent again, is
        answered with the offset that it has; one that begins with its number and is longer is none
        of it. **GapsRefused**: one that is further ahead than the next number is not taken. Raises
        Violation."""
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
        longer = self._flight(tp, ACKS_ALL, 2, (*self._producer, 0))
        if await self._send(longer) is ErrorCode.none:
            what = f"{tp}: numbers 0 and 1 in a batch were taken for what number 0 alone was"
            raise Violation("RepetitionsKnown", what)
        ahead = self._numbered(tp, REMEMBERED + 1)
        if await self._send(ahead) is ErrorCode.none:
            what = f"{tp}: number {REMEMBERED + 1} was taken after {REMEMBERED - 1}"
            raise Violation("GapsRefused", what)

    async def epochs_count(self, tp: TopicPartition) -> None:
        """**ProducerEpochsCount**: a producer that has another epoch begins at 0 again, as a new
        one: nothing that it sends is taken for what it sent before; and who is still in the former
        one is shut out (KIP-98). Raises Violation."""
        if not await self._begin_anew():
            return
        own = self._producer
        first, former = [await self._acked(tp, own, number) for number in (0, 1)]
        if -1 in (first, former):
            return
        later = (own[0], own[1] + 1)
        await self._refused(tp, later, 1, ErrorCode.out_of_order_sequence_number)
        _, offset = [await self._acked(tp, later, number) for number in (0, 1)]
        if -1 != offset <= former:
            what = (
                f"{tp}: number 1 of epoch {later[1]} is at {offset}, that of {own[1]} at {former}"
            )
            raise Violation(EPOCHS, what)
        await self._refused(tp, own, 2, ErrorCode.invalid_producer_epoch)

    async def _acked(self, tp: TopicPartition, producer: tuple[int, int], number: int) -> int:
        """Where; -1: nobody knows."""
        sent, batch = self._flight(tp, ACKS_ALL, 1, (*producer, number))
        error = await self._send((sent, batch))
        if error in LOST_PRODUCER:
            raise Violation(EPOCHS, f"{tp}: {error} to number {number} of producer {producer}")
        return -1 if sent.offset is None else sent.offset

    async def _refused(
        self, tp: TopicPartition, producer: tuple[int, int], number: int, expected: ErrorCode
    ) -> None:
        error = await self._send(self._flight(tp, ACKS_ALL, 1, (*producer, number)))
        if error is ErrorCode.none or (error in LOST_PRODUCER and error is not expected):
            what = f"{tp}: {error} to number {number} of producer {producer}"
            raise Violation(EPOCHS, f"{what}, which calls for {expected.name}")

    async def ids_are_new(self) -> None:
        """Asks all brokers for one at once: those that have none left take a block of ids each,
        which another one may be taking."""
        request = new_producer_id()
        asked = (self.ask(broker, request) for broker in self.brokers)
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if not isinstance(answer, BaseException) and answer.error_code is ErrorCode.none:
                self._consumed.given(answer.producer_id)

    def _numbered(self, tp: TopicPartition, number: int) -> Flight:
        """One record."""
        return self._flight(tp, ACKS_ALL, 1, (*self._producer, number))
