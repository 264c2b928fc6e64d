"""KRaft's quorum, as far as it may be seen from outside; sessions of ZooKeeper's there are none."""

from collections.abc import Mapping

from ackproof.infra.systems.kraft.log import Address, leader_told
from ackproof.infra.together import on_all

LEADER, FOLLOWER = "leader", "follower"
_WITHIN_S = 1.0


class Quorum:
    """Implements ``infra.ensemble.Ensemble``.

    Args:
        controllers: ``node.id`` and address of each, by its name.
    """

    def __init__(self, controllers: Mapping[str, tuple[int, Address]]) -> None:
        self._controllers = controllers

    @property
    def ours(self) -> frozenset[int]:
        return frozenset()

    def modes(self) -> Mapping[str, str]:
        """``leader`` or ``follower``. One that follows nobody is left out."""
        told = on_all(_told, list(self._controllers.values()))
        return {
            name: LEADER if leader == number else FOLLOWER
            for (name, (number, _)), leader in zip(self._controllers.items(), told, strict=True)
            if leader is not None and leader >= 0
        }

    def end_session(self, session: int) -> bool:  # noqa: ARG002
        return False

    def occupy(self, broker: int) -> bool:  # noqa: ARG002
        return False

    def vacate(self, broker: int) -> None: ...


def _told(controller: tuple[int, Address]) -> int | None:
    return leader_told(controller[1], _WITHIN_S)
