"""The fence against stale orders: which controller this broker obeys, on which connection, and for
which of its registrations.

Three kinds of orders must not be obeyed: those of a deposed controller that has not noticed, those
for this broker's previous registration (KIP-380 for broker epochs), and those that its controller
has given up and sent again.
"""

from typing import Protocol

from kio.schema.errors import ErrorCode

from ackproof.broker.server.network.connections import CloseConnection
from ackproof.broker.server.replication.roles import Origin
from ackproof.broker.types import NO_BROKER_EPOCH, BrokerId, ControllerEpoch


class ControlRequest(Protocol):
    """A LeaderAndIsr, StopReplica or UpdateMetadata request."""

    @property
    def controller_id(self) -> BrokerId: ...

    @property
    def controller_epoch(self) -> ControllerEpoch: ...

    @property
    def broker_epoch(self) -> int: ...


def origin(change: str, request: ControlRequest) -> Origin:
    """Return the sender of the request."""
    by = {"controller": request.controller_id, "controller_epoch": request.controller_epoch}
    return Origin(change=change, by=by)


class ControlFence:
    """The highest controller epoch seen with its newest connection, and the epoch of our own
    registration in ZooKeeper."""

    def __init__(self) -> None:
        self.controller_epoch = ControllerEpoch(-1)
        self.broker_epoch = NO_BROKER_EPOCH
        self._connection = 0

    def admit(self, request: ControlRequest, connection: int) -> ErrorCode:
        """Return NONE, STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH for a request.

        Remember a newer controller, and its ``connection``. Connections are numbered as they were
        accepted.

        - A request of an old controller may arrive after its successor's. A StopReplica of a topic
          that was created again would delete the log that has just been written to.
        - A request may be meant for this broker's previous registration: a leadership that was
          taken from it when it died.
        - A broker epoch above ours is ours as well. The controller has read our registration before
          we have heard that it succeeded.
        - A controller sends one request at a time, and repeats one that it has given up on another
          connection. The slow first copy may arrive after the second and all later ones were
          answered. An UpdateMetadata would bring back former leaders and dead brokers, for good. A
          StopReplica of a deleted topic would delete the log of the next one of that name. Neither
          has a leader epoch that shows its age.

        Raises:
            CloseConnection: the connection is older than the newest. Another client may have sent
                an order in the controller's name. An answer would then lock out the controller for
                good. With its connection closed, it comes back on another.
        """
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.stale_controller_epoch
        if request.controller_epoch == self.controller_epoch and connection < self._connection:
            raise CloseConnection("an order of the controller, which has a newer connection")
        if NO_BROKER_EPOCH != request.broker_epoch < self.broker_epoch:
            return ErrorCode.stale_broker_epoch
        self.controller_epoch, self._connection = request.controller_epoch, connection
        return ErrorCode.none
