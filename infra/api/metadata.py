"""Metadata of a cluster: reports of its changes, and the operations of ZooKeeper's ensemble."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class ChangeKind(StrEnum):
    """The kind of a change, in the words of the history's table ``cluster``."""

    PARTITION = "partition"
    CONTROLLER = "controller"
    BROKER_UP = "broker-up"
    BROKER_DOWN = "broker-down"
    ZOOKEEPER_LOST = "zookeeper-lost"
    """The observer's own connection to ZooKeeper broke."""
    ZOOKEEPER_BACK = "zookeeper-back"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChange:
    """A change, the time at which it was seen (nanoseconds of the Unix epoch), and the new values.

    A partition has ``topic``, ``partition``, ``leader``, ``leader_epoch``, ``isr``, ``elr`` (the
    eligible leader replicas) and ``version``. A partition or a controller has ``controller_epoch``.
    ``broker`` is the broker that went up or down, or the controller; None while there is none.
    """

    time_ns: int
    kind: ChangeKind
    topic: str | None = None
    partition: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    controller_epoch: int | None = None
    version: int | None = None
    broker: int | None = None


class Observer(Protocol):
    """An observer of the cluster's metadata that reports every change from ``start`` to
    ``close``."""

    @property
    def watches(self) -> int:
        """Return the number of watches that ZooKeeper keeps for it while nothing changes."""

    def start(self) -> None: ...

    def close(self) -> None:
        """Stop, even if it never started. Idempotent. Raises the error that made it fail, if one
        did."""


# --- ZooKeeper's ensemble ---------------------------------------------------------------------


CONTROLLER_IDS = 100
"""The ``node.id`` of ``controller-1`` with KRaft, minus one. It is above every broker's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperCounters:
    """The counters of one ZooKeeper server.

    Attributes:
        server: The name, such as ``zookeeper-1``.
        zxid: The id of the last transaction that it has processed. The upper 32 bits are the epoch
            of its leader; the lower ones count transactions from 0 in each epoch. Every write
            counts, every session that begins or ends, and every write that was refused for its
            version.
        watches: The watches that clients have set on it, on data and on children.
    """

    server: str
    zxid: int
    watches: int


class Ensemble(Protocol):
    """ZooKeeper, of one server or several. Requests without a timely answer raise
    ViewUnavailable."""

    def modes(self) -> Mapping[str, str]:
        """Return the mode of each server by name: ``standalone``, ``leader`` or ``follower``.

        Servers that do not serve are left out. Without a quorum none serves.
        """

    def end_session(self, session: int) -> bool:
        """End a session in place of its client. Return whether ZooKeeper still knew it.

        Its ephemeral nodes go, and the client is told that it has expired. No other session ends,
        and no session of the harness is left.
        """

    def occupy(self, broker: int) -> bool:
        """Give ``/brokers/ids/N``, unchanged, to a session of the harness until :meth:`vacate`.

        The broker's own session is ended, and its node is written again before the broker does.
        Return False, with nothing done, if the broker has no registration of its own. Only the end
        of its session deletes anything of the broker. Nothing of the harness outlives its session,
        which expires as any other when this process dies.
        """

    def vacate(self, broker: int) -> None:
        """Undo :meth:`occupy`: the session of the harness ends, and the node goes. Idempotent."""

    @property
    def ours(self) -> frozenset[int]:
        """Return the sessions by which registrations are, or were, occupied."""
