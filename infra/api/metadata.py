"""Metadata of a cluster: how its changes are reported, and what ZooKeeper's ensemble offers."""

from collections.abc import Mapping
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


# --- ZooKeeper's ensemble ---------------------------------------------------------------------


CONTROLLER_IDS = 100
"""With KRaft, the ``node.id`` of ``controller-1`` is one more: more than any broker's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperCounters:
    """What one ZooKeeper server has counted.

    Attributes:
        server: ``zookeeper-1``.
        zxid: Of the last transaction that it has processed. The upper 32 bits are the epoch of its
            leader, the lower ones count transactions from 0 in each: every write is one, a session
            that begins or ends, and a write that was refused (its version was another), too.
        watches: That clients have set on it, on data and on children.
    """

    server: str
    zxid: int
    watches: int


class Ensemble(Protocol):
    """ZooKeeper, of one server or several. What it does not answer in time raises
    ViewUnavailable."""

    def modes(self) -> Mapping[str, str]:
        """What each server is, by name: ``standalone``, ``leader`` or ``follower``. One that does
        not serve is left out, as all are that have no quorum."""

    def end_session(self, session: int) -> bool:
        """End a session in its client's place: its ephemeral nodes go, and the client is told that
        it has expired. False where ZooKeeper knew it no more. No other session ends of it, and
        none of ours is left."""

    def occupy(self, broker: int) -> bool:
        """Put ``/brokers/ids/N``, as it is, into the hands of a session of ours, until
        :meth:`vacate`: the broker's own session is ended, and its node written again before the
        broker does. False where the broker has no registration of its own, and nothing was done.

        Nothing that is the broker's is deleted, but by the end of its session; nothing that is ours
        outlives our session, which expires as any other when this process dies.
        """

    def vacate(self, broker: int) -> None:
        """Undo :meth:`occupy`: the session of ours ends, and the node goes. Idempotent."""

    @property
    def ours(self) -> frozenset[int]:
        """The sessions by which registrations are, or were, occupied."""
