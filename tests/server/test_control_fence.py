"""Control requests that a broker accepts, and the incarnation to which they must be addressed."""

from dataclasses import dataclass

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.network.connections import CloseConnection
from ackproof.broker.types import NO_BROKER_EPOCH

NONE = ErrorCode.none
STALE_CONTROLLER = ErrorCode.stale_controller_epoch
STALE_BROKER = ErrorCode.stale_broker_epoch


@dataclass(frozen=True)
class Order:
    """The fields of a control request that the fence reads."""

    controller_epoch: int
    broker_epoch: int
    controller_id: int = 1


@pytest.mark.parametrize(
    ("order", "outcome"),
    [
        (Order(5, 100), NONE),
        (Order(6, 100), NONE),
        (Order(4, 100), STALE_CONTROLLER),
        (Order(5, 99), STALE_BROKER),
        # The controller has seen our registration before we have heard that it succeeded.
        (Order(5, 101), NONE),
        # A controller that does not say (Kafka before KIP-380).
        (Order(5, NO_BROKER_EPOCH), NONE),
        (Order(4, 99), STALE_CONTROLLER),
    ],
)
def test_order_is_admitted_by_epoch_and_incarnation(order: Order, outcome: ErrorCode) -> None:
    fence = ControlFence()
    assert fence.admit(Order(5, 0), 1) is NONE
    fence.broker_epoch = 100
    assert fence.admit(order, 1) is outcome
    assert fence.controller_epoch == (6 if order.controller_epoch == 6 else 5)


def test_order_for_another_incarnation_does_not_raise_the_controller_epoch() -> None:
    fence = ControlFence()
    fence.broker_epoch = 100
    assert fence.admit(Order(9, 99), 1) is STALE_BROKER
    assert fence.admit(Order(5, 100), 1) is NONE


def test_before_it_is_registered_everything_is_for_this_broker() -> None:
    fence = ControlFence()
    assert fence.admit(Order(0, 0), 1) is NONE
    assert fence.admit(Order(1, 7), 1) is NONE


def test_order_repeated_on_a_newer_connection_is_late_on_the_older() -> None:
    fence = ControlFence()
    assert fence.admit(Order(5, 0), 3) is NONE
    assert fence.admit(Order(5, 0), 4) is NONE
    assert fence.admit(Order(5, 0), 4) is NONE
    with pytest.raises(CloseConnection):
        fence.admit(Order(5, 0), 3)
    assert fence.admit(Order(6, 0), 2) is NONE, "of another controller"
    with pytest.raises(CloseConnection):
        fence.admit(Order(6, 0), 1)
    assert fence.admit(Order(5, 0), 9) is STALE_CONTROLLER
