"""What changes in a cluster, and who tells."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class ChangeKind(StrEnum):
    """What changed; the words of the history's table ``cluster``."""

    PARTITION = "partition"
    CONTROLLER = "controller"
    BROKER_UP = "broker-up"
    BROKER_DOWN = "broker-down"
    ZOOKEEPER_LOST = "zookeeper-lost"
    """The observer's own connection to ZooKeeper broke."""
    ZOOKEEPER_BACK = "zookeeper-back"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChange:
    """A change, when it was seen (nanoseconds of the Unix epoch), and what holds since.

    ``topic``, ``partition``, ``leader``, ``leader_epoch``, ``isr`` and ``version`` are of a
    partition; ``controller_epoch`` is of a partition or a controller; ``broker`` is the broker that
    went up or down, or the controller, None while there is none.
    """

    time_ns: int
    kind: ChangeKind
    topic: str | None = None
    partition: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    controller_epoch: int | None = None
    version: int | None = None
    broker: int | None = None


class Observer(Protocol):
    """Watches the cluster's metadata and reports every change, from ``start`` to ``close``."""

    @property
    def watches(self) -> int:
        """How many watches of its own ZooKeeper keeps while nothing changes."""

    def start(self) -> None: ...

    def close(self) -> None:
        """Idempotent; also when it never started. Raises what made it fail, if it did."""
