"""**HandsOver**: who is asked to stop in order leads nothing any more that another could lead.

"The server will migrate any partitions the server is the leader for to other replicas prior to
shutting down" (Kafka's documentation, "Graceful shutdown"): clients need not wait for the end of a
session. Judged when the controller answers, by what it knows then. And whoever hears that he still
leads something asks again, as long as he has retries left: that somebody else can lead it comes a
moment later. He is asked what he would do if he heard that.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from kio.schema.errors import ErrorCode

from broker.controller.context import Context
from broker.controller.events import AnswerShutdown
from broker.server.controller import hand_over
from broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from simulation.loop.at_once import at_once
from simulation.observer.leadership import decided
from simulation.violation import Violation


def check(context: Context, answer: AnswerShutdown) -> None:
    """Of an answer to whoever leads what remains; raises Violation."""
    for tp in answer.remaining:
        state = context.states[tp]
        asked = state.leader
        others = context.live.keys() - context.stopping - {asked}
        able = others & decided.trusted(context, tp, state)
        if able:
            raise Violation(
                "HandsOver",
                f"broker {asked} keeps leading {tp} when it stops, though {sorted(able)} could",
            )


class _StillLeading:
    """A connection to a controller that has nobody else for one partition."""

    def __init__(self, *_: object) -> None: ...

    async def call(self, _: ControlledShutdownRequest, __: float) -> ControlledShutdownResponse:
        remaining = RemainingPartition(topic_name="t", partition_index=0)
        return ControlledShutdownResponse(
            error_code=ErrorCode.none, remaining_partitions=(remaining,)
        )

    async def close(self) -> None: ...


def asks_again(broker: int, ask: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """It is about to stop, since it leads nothing; raises Violation."""
    names = vars(hand_over)
    connection, names["BrokerConnection"] = names["BrokerConnection"], _StillLeading
    try:
        stops = at_once(ask())
    finally:
        names["BrokerConnection"] = connection
    if stops:
        what = f"broker {broker} would stop as if it led nothing"
        raise Violation("HandsOver", f"{what}, were it told that it does")
