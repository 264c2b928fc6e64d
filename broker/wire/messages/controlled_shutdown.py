"""ControlledShutdown (api 7), version 3.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_H = struct.Struct(">h")
_FORM_I = struct.Struct(">i")
_FORM_IQ = struct.Struct(">iq")


@message
class ControlledShutdownRequest:
    """A request of a broker to the controller to move its leaderships away before it stops."""

    API_KEY: ClassVar[int] = 7
    VERSIONS: ClassVar[range] = range(3, 4)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 3

    version: int = 3
    broker_id: BrokerId
    broker_epoch: int = -1

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (broker_id, broker_epoch) = reader.unpack(_FORM_IQ)
        reader.skip_tags()
        return cls(
            version=version,
            broker_id=broker_id,
            broker_epoch=broker_epoch,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IQ.pack(self.broker_id, self.broker_epoch))
        writer.no_tags()

    @staticmethod
    def response() -> type["ControlledShutdownResponse"]:
        """The class of what is answered."""
        return ControlledShutdownResponse


@message
class RemainingPartition:
    """A partition that the broker still leads."""

    topic_name: str
    partition_index: int

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topic_name = reader.string()
        (partition_index,) = reader.unpack(_FORM_I)
        reader.skip_tags()
        return cls(
            topic_name=topic_name,
            partition_index=partition_index,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.topic_name)
        writer.put(_FORM_I.pack(self.partition_index))
        writer.no_tags()


@message
class ControlledShutdownResponse:
    """The partitions that could not be moved. If there are none, the broker may stop."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 3

    error_code: ErrorCode
    remaining_partitions: tuple[RemainingPartition, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code,) = reader.unpack(_FORM_H)
        remaining_partitions = reader.structs(RemainingPartition.read, version)
        reader.skip_tags()
        return cls(
            error_code=error(error_code),
            remaining_partitions=remaining_partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_H.pack(self.error_code))
        writer.structs(self.remaining_partitions, version)
        writer.no_tags()
