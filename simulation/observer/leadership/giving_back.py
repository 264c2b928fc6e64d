"""**GivesBack**: without a controller, who leads in the place of the preferred replica, which is in
the ISR, gives the leadership back, or knows when it will (``auto.leader.rebalance.enable``).

The preferred replica has not claimed in time what it was given back, so it is not offered again at
once. Later it is only if somebody looks, and nothing else happens to a partition that is idle. That
it does not claim in time is rare: each leader is asked what it would do if it had offered just now.
"""

import copy

from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.hosting.partition import HostedPartition
from ackproof.broker.types import Millis
from simulation.violation import Violation


def check(coordinator: Coordinator) -> None:
    """Raises Violation."""
    for hosted in coordinator._hosted.values():
        judge(hosted)


def judge(hosted: HostedPartition) -> None:
    """Raises Violation."""
    leading = hosted.leading
    if leading is None or not leading.serves or hosted.busy or not leading.assigned:
        return
    preferred = leading.assigned[0]
    _looks_again(hosted)
    owed = preferred != hosted.context.me and preferred in leading.isr
    if owed and hosted.context.settings.load_balancing and hosted.next_tick is None:
        what = f"broker {hosted.context.me} leads {hosted.tp}, and {preferred} is to"
        raise Violation("GivesBack", f"{what}: it will not look again by itself")


def _looks_again(hosted: HostedPartition) -> None:
    """Whoever has given back, and leads again, knows when he may offer it once more."""
    offered, later = copy.copy(hosted), Millis(hosted.context.now + 1)
    offered.give_back_after, offered.retry_at = later, Millis(0)
    offered.leading = copy.copy(hosted.leading)
    assert offered.leading is not None
    offered.leading.partition = offered
    if offered.leading.next_tick != later:
        what = f"broker {hosted.context.me}, which leads {hosted.tp} and has offered it in vain"
        raise Violation("GivesBack", f"{what}, would not offer it again by itself")
