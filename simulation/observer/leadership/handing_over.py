"""**HandsOver**: who is asked to stop in order leads nothing any more that another could lead.

"The server will migrate any partitions the server is the leader for to other replicas prior to
shutting down" (Kafka's documentation, "Graceful shutdown"): clients need not wait for the end of a
session. Judged when the controller answers, by what it knows then.
"""

from broker.controller.context import Context
from broker.controller.events import AnswerShutdown
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
