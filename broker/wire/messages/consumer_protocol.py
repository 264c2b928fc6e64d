"""The metadata of a consumer as a member of its group.

Made by ``python -m protocol``; do not edit.
"""

from typing import Self

from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader
from ackproof.broker.wire.writer import Writer


@message
class ConsumerProtocolSubscription:
    """A part that messages carry as bytes."""

    topics: tuple[str, ...] = ()
    """The topics that the member wants to consume."""
    user_data: bytes | None = None
    """User data that will be passed back to the consumer."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topics = reader.strings()
        user_data = reader.nullable_blob()
        return cls(
            topics=topics,
            user_data=user_data,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.strings(self.topics)
        writer.blob(self.user_data)
