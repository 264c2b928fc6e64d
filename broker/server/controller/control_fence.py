"""Which controller this broker obeys, and as which incarnation of itself.

A controller that was deposed without noticing, or a request meant for this broker's previous
registration, must not be obeyed (KIP-380 for broker epochs).
"""

from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.server.replication.roles import Origin
from broker.types import BrokerId, ControllerEpoch

NO_BROKER_EPOCH = -1


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
    """The highest controller epoch seen, and the epoch of our own registration in ZooKeeper."""

    def __init__(self) -> None:
        self.controller_epoch = ControllerEpoch(-1)
        self.broker_epoch = NO_BROKER_EPOCH

    def admit(self, request: ControlRequest) -> ErrorCode:
        """NONE, STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH; remembers a newer controller.

        What an old controller sent may arrive after its successor's requests: a StopReplica of a
        topic that is there again would delete the log that has just been written to. And what was
        sent to this broker's former life: a leadership that was taken from it when it died.

        A broker epoch above ours is ours as well: the controller has seen our registration before
        we have heard that it succeeded.
        """
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.stale_controller_epoch
        if NO_BROKER_EPOCH != request.broker_epoch < self.broker_epoch:
            return ErrorCode.stale_broker_epoch
        self.controller_epoch = request.controller_epoch
        return ErrorCode.none
