"""What the classes in :mod:`broker.wire.messages` have in common.

As in Kafka (``org.apache.kafka.common.message``) there is one class for all versions of a message
that are served. A field that a version lacks has its default when it is read, and is left out when
it is written, silently: handlers name everything they know.
"""

from typing import ClassVar, Protocol, Self, TypeVar, dataclass_transform

from ackproof.broker.types import value
from ackproof.broker.wire.reader import Reader
from ackproof.broker.wire.writer import Writer

T = TypeVar("T")

NEVER = 2**15
"""Above all versions."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
def message(cls: type[T]) -> type[T]:
    """A :func:`~broker.types.value` with named arguments alone: a fetch has one for each partition.
    Keys of stored records need its hash."""
    return value(kw_only=True)(cls)


class Response(Protocol):
    """A response, which does not know in which version it is going to be written."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int]
    """First version whose header has tagged fields."""
    FLEXIBLE_SINCE: ClassVar[int]
    """First version whose lengths are varints, with tagged fields in each struct (KIP-482)."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Raises what :mod:`broker.wire.reader` raises."""
        ...

    def write(self, writer: Writer, version: int) -> None:
        """Appends all fields of that version."""
        ...


R_co = TypeVar("R_co", bound=Response, covariant=True)


class Request(Protocol[R_co]):
    """A request in one version, by which the response is read and written, too."""

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[range]
    """Those that the class knows; what a broker serves is a narrower matter and its own."""
    HEADER_FLEXIBLE_SINCE: ClassVar[int]
    FLEXIBLE_SINCE: ClassVar[int]

    @property
    def version(self) -> int:
        """In which it came, or is to be sent."""
        ...

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Raises what :mod:`broker.wire.reader` raises."""
        ...

    def write(self, writer: Writer, version: int) -> None:
        """Appends all fields of that version."""
        ...

    @staticmethod
    def response() -> type[R_co]:
        """The class of what is answered."""
        ...
