"""**NobodyWaits**: when all is quiet, no broker keeps anybody waiting.

A request that is waited for by nobody any more, and answered never, is memory for good; and its
client has waited for its own timeout.
"""

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from simulation.model.observer import Observer
from simulation.verdict.led import Hosted
from simulation.violation import Violation


def check(observer: Observer, hosted: Hosted) -> None:
    """Raises Violation. Coordinators write on: a group whose last member left just now."""
    for tp, partition in observer.partitions():
        if tp.topic == OFFSETS_TOPIC:
            continue
        for broker in partition.isr:
            replica = hosted(broker, tp)
            if replica is not None and replica.waiting_producers:
                what = f"{replica.waiting_producers} produce requests wait at broker {broker}"
                raise Violation("NobodyWaits", f"{tp}: {what}, and all is replicated")
