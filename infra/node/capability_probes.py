"""Probes of what disks and clocks can do on this machine.

``python -m ackproof.infra.node.capability_probes <capability>`` exits with 0 if it works, else with
1 and the reason on standard error. On nodes the agent does the same.
"""

import sys
from collections.abc import Mapping

from ackproof.infra.agent import children
from ackproof.infra.agent.verbs import VERBS
from ackproof.infra.api.interface import Capability

TRIALS: Mapping[Capability, str] = {
    Capability.LOSE_UNSYNCED_WRITES: "can_lose_writes",
    Capability.SLOW_DISKS: "can_slow_disks",
    Capability.FAKE_CLOCKS: "can_fake_clocks",
}
"""The verb that tries each capability. It answers None if it works, else the reason."""

OF_ROOT = frozenset({Capability.LOSE_UNSYNCED_WRITES, Capability.SLOW_DISKS})
AS_ROOT = "only root can create disks"


def main(capability: str) -> str | None:
    """Return why a capability does not work, or None if it works."""
    found: list[str | None] = []

    def look() -> None:
        try:
            found.append(VERBS[TRIALS[Capability(capability)]]())
        except Exception as error:  # noqa: BLE001 - whatever it is, it does not work
            found.append(f"{type(error).__name__}: {error}")

    children.run_while(look)
    return found[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
