"""**GivesBack**: without a controller, who leads in the place of the preferred replica, which is in
the ISR, gives the leadership back, or knows when it will (``auto.leader.rebalance.enable``).

The preferred replica has not claimed in time what it was given back, so it is not offered again at
once. Later it is only if somebody looks, and nothing else happens to a partition that is idle.
"""

from broker.coordination.coordinator import Coordinator
from broker.coordination.hosting.partition import HostedPartition
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
    owed = preferred != hosted.context.me and preferred in leading.isr
    if owed and hosted.context.settings.load_balancing and hosted.next_tick is None:
        what = f"broker {hosted.context.me} leads {hosted.tp}, and {preferred} is to"
        raise Violation("GivesBack", f"{what}: it will not look again by itself")
