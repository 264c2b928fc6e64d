"""The common interface of the classes in :mod:`broker.wire.messages`.

As in Kafka (``org.apache.kafka.common.message``) there is one class for all served versions of a
message. A field that a version lacks has its default when it is read. It is left out silently when
it is written, so that handlers can fill in everything they know.
"""

from typing import ClassVar, Protocol, Self, TypeVar, dataclass_transform

from ackproof.broker.types import value
from ackproof.broker.wire.reader import Reader
from ackproof.broker.wire.writer import Writer

T = TypeVar("T")

NEVER = 2**15
"""A number above all versions."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
def message(cls: type[T]) -> type[T]:
    """Return a :func:`~broker.types.value` with named arguments only: a fetch has one for each
    partition. Keys of stored records need its hash."""
    return value(kw_only=True)(cls)


class Response(Protocol):
    """A response, which does not know the version in which it will be written."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int]
    """The first version whose header has tagged fields."""
    FLEXIBLE_SINCE: ClassVar[int]
    """The first version whose lengths are varints, with tagged fields in each struct (KIP-482)."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        ...

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        ...


R_co = TypeVar("R_co", bound=Response, covariant=True)


class Request(Protocol[R_co]):
    """A request in one version, which the response uses, too."""

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[range]
    """The versions that the class knows. A broker may serve fewer."""
    HEADER_FLEXIBLE_SINCE: ClassVar[int]
    FLEXIBLE_SINCE: ClassVar[int]

    @property
    def version(self) -> int:
        """The version in which it came, or will be sent."""
        ...

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        ...

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        ...

    @staticmethod
    def response() -> type[R_co]:
        """Return the class of the response."""
        ...
