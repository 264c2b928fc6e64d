"""InitProducerId (api 22), versions 0 to 4.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import ProducerId
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_I = struct.Struct(">i")
_FORM_IHQH = struct.Struct(">ihqh")
_FORM_IQH = struct.Struct(">iqh")


@message
class InitProducerIdRequest:
    """A request."""

    API_KEY: ClassVar[int] = 22
    VERSIONS: ClassVar[range] = range(5)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    version: int
    transactional_id: str | None
    """The transactional id, or null if the producer is not transactional."""
    transaction_timeout_ms: int
    """The time in ms to wait before aborting idle transactions sent by this producer. This is
    only relevant if a TransactionalId has been defined."""
    producer_id: ProducerId = ProducerId(-1)
    """The producer id. This is used to disambiguate requests if a transactional id is reused
    following its expiration."""
    producer_epoch: int = -1
    """The producer's current epoch. This will be checked against the producer epoch on the
    broker, and the request will return an error if they do not match."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        transactional_id = reader.nullable_string()
        if version >= 3:
            (transaction_timeout_ms, producer_id, producer_epoch) = reader.unpack(_FORM_IQH)
        else:
            (transaction_timeout_ms,) = reader.unpack(_FORM_I)
            producer_id = ProducerId(-1)
            producer_epoch = -1
        if version >= 2:
            reader.skip_tags()
        return cls(
            version=version,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.transactional_id)
        if version >= 3:
            writer.put(
                _FORM_IQH.pack(self.transaction_timeout_ms, self.producer_id, self.producer_epoch)
            )
        else:
            writer.put(_FORM_I.pack(self.transaction_timeout_ms))
        if version >= 2:
            writer.no_tags()

    @staticmethod
    def response() -> type["InitProducerIdResponse"]:
        """The class of what is answered."""
        return InitProducerIdResponse


@message
class InitProducerIdResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""
    producer_id: ProducerId = ProducerId(-1)
    """The current producer id."""
    producer_epoch: int
    """The current epoch associated with the producer id."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms, error_code, producer_id, producer_epoch) = reader.unpack(_FORM_IHQH)
        if version >= 2:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(
            _FORM_IHQH.pack(
                self.throttle_time_ms, self.error_code, self.producer_id, self.producer_epoch
            )
        )
        if version >= 2:
            writer.no_tags()
