"""**HandsOver**: who is asked to stop in order leads nothing any more that another could lead.

"The server will migrate any partitions the server is the leader for to other replicas prior to
shutting down" (Kafka's documentation, "Graceful shutdown"): clients need not wait for the end of a
session. Judged when the controller answers, by what it knows then. And whoever hears that he still
leads something asks again, as long as he has retries left: that somebody else can lead it comes a
moment later. So does who hears nothing, from a controller that is deposed. He is asked what he
would do if he heard that.
"""

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import AnswerShutdown
from ackproof.broker.server.controller import hand_over
from ackproof.broker.wire.messages.controlled_shutdown import (
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


REFUSALS: Final = (
    ControlledShutdownResponse(
        error_code=ErrorCode.none,
        remaining_partitions=(RemainingPartition(topic_name="t", partition_index=0),),
    ),
    ControlledShutdownResponse(error_code=ErrorCode.not_controller, remaining_partitions=()),
)
"""The controller has nobody else for a partition; or it is none any more, and knows of nothing."""


def _told(response: ControlledShutdownResponse) -> Callable[..., object]:
    """Makes connections to a controller that says so."""

    async def call(_: ControlledShutdownRequest, __: float) -> ControlledShutdownResponse:
        return response

    async def close() -> None: ...

    return lambda *_: SimpleNamespace(call=call, close=close)


def asks_again(broker: int, ask: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """It is about to stop, since it leads nothing; raises Violation."""
    names = vars(hand_over)
    connection = names["BrokerConnection"]
    for response in REFUSALS:
        names["BrokerConnection"] = _told(response)
        try:
            stops = at_once(ask())
        finally:
            names["BrokerConnection"] = connection
        if stops:
            what = f"broker {broker} would stop as if it led nothing"
            said = f"error {response.error_code.name}, {len(response.remaining_partitions)} led"
            raise Violation("HandsOver", f"{what}, were it told {said}")
