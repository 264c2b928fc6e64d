"""Which controller this broker obeys, on which connection, and as which incarnation of itself.

A controller that was deposed without noticing, a request meant for this broker's previous
registration (KIP-380 for broker epochs), or one that its controller has given up and sent again
must not be obeyed.
"""

from typing import Protocol

from kio.schema.errors import ErrorCode

from ackproof.broker.server.network.connections import CloseConnection
from ackproof.broker.server.replication.roles import Origin
from ackproof.broker.types import NO_BROKER_EPOCH, BrokerId, ControllerEpoch


class ControlRequest(Protocol):
    """LeaderAndIsr, StopReplica, UpdateMetadata."""

    @property
    def controller_id(self) -> BrokerId: ...

    @property
    def controller_epoch(self) -> ControllerEpoch: ...

    @property
    def broker_epoch(self) -> int: ...


def origin(change: str, request: ControlRequest) -> Origin:
    """Who sends the request."""
    by = {"controller": request.controller_id, "controller_epoch": request.controller_epoch}
    return Origin(change=change, by=by)


class ControlFence:
    """The highest controller epoch seen and its newest connection, and the epoch of our own
    registration in ZooKeeper."""

    def __init__(self) -> None:
        self.controller_epoch = ControllerEpoch(-1)
        self.broker_epoch = NO_BROKER_EPOCH
        self._connection = 0

    def admit(self, request: ControlRequest, connection: int) -> ErrorCode:
        """NONE, STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH; remembers a newer controller, and on
        which ``connection`` it was heard: they are numbered as they were accepted.

        What an old controller sent may arrive after its successor's requests: a StopReplica of a
        topic that is there again would delete the log that has just been written to. And what was
        sent to this broker's former life: a leadership that was taken from it when it died.

        A broker epoch above ours is ours as well: the controller has seen our registration before
        we have heard that it succeeded.

        A controller sends one request at a time, and what it has given up again on another
        connection. The slow first copy may come when the second was answered, and all that followed
        it: an UpdateMetadata would bring back former leaders and dead brokers, for good; a
        StopReplica of a deleted topic would delete the log of the next one of that name. Neither
        has an epoch of a leader that says so.

        Raises:
            CloseConnection: the connection is older than the newest. An answer would lock out the
                controller for good when somebody else had sent an order in its name: closed, it
                comes back on another.
        """
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.stale_controller_epoch
        if request.controller_epoch == self.controller_epoch and connection < self._connection:
            raise CloseConnection("an order of the controller, which has a newer connection")
        if NO_BROKER_EPOCH != request.broker_epoch < self.broker_epoch:
            return ErrorCode.stale_broker_epoch
        self.controller_epoch, self._connection = request.controller_epoch, connection
        return ErrorCode.none
