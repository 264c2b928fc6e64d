"""**NewestConnectionIsObeyed**: a controller is not obeyed on an older connection than that on
which it was obeyed last.

What a controller has given up and sent again may come behind what followed it, with former leaders
and dead brokers in it, for good. That an order takes so long is rare, so each broker is asked what
it would do as soon as it obeys.
"""

import copy
from collections.abc import Callable

from kio.schema.errors import ErrorCode

from ackproof.broker.server.controller.control_fence import ControlFence, ControlRequest
from ackproof.broker.server.network.connections import CloseConnection
from simulation.violation import Violation

Admit = Callable[[ControlFence, ControlRequest, int], ErrorCode]


def obeyed(fence: ControlFence, request: ControlRequest, connection: int, admit: Admit) -> None:
    """The ``request`` was let in; raises Violation."""
    try:
        admit(copy.copy(fence), request, connection - 1)
    except CloseConnection:
        return
    name = type(request).__name__
    what = f"a {name} of controller epoch {request.controller_epoch}"
    raise Violation("NewestConnectionIsObeyed", f"{what} would be obeyed on a former connection")
