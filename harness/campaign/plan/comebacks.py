"""Clients that come in the place of others, as far as a plan tells: how often that may be."""

from collections import Counter
from collections.abc import Iterable, Mapping

from ackproof.harness.campaign.plan.faults import ScheduledFault
from ackproof.nemesis.process.clients import Crashed
from ackproof.workloads.interface import Role


def comebacks(faults: Iterable[ScheduledFault]) -> Mapping[Role, int]:
    """How often somebody may have to come in the place of a client, by its role. Whom a fault will
    crash is drawn when it strikes, so that it may be anybody."""
    found: Counter[Role] = Counter()
    for fault in faults:
        if isinstance(parameters := fault.parameters, Crashed) and parameters.comes_back:
            found.update(role for role in Role if parameters.role in ("any", role))
    return found
