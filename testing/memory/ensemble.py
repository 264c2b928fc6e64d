"""ZooKeeper's servers and sessions, of the cluster in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ackproof.infra.api.interface import ProcessState, Server


@dataclass
class MemoryEnsemble:
    """Sessions begin anew, and registrations are others', when they are told to.

    Args:
        servers: ZooKeeper's.
        has_quorum: Whether it answers at all.
        registered: The brokers that are, by id, with the sessions of their own.
    """

    servers: Sequence[Server]
    has_quorum: Callable[[], bool]
    registered: Callable[[], Mapping[int, int]]
    ended: dict[int, int] = field(default_factory=dict)
    """How many of its sessions were, by broker."""
    occupying: dict[int, int] = field(default_factory=dict)
    """The session of ours that holds a broker's registration."""
    ours: frozenset[int] = frozenset()
    deaf: bool = False
    """Does nothing, and says it did, as a fault that does not bite."""

    def modes(self) -> Mapping[str, str]:
        if not self.has_quorum():
            return {}
        serving = [s for s in self.servers if s.process.state() is ProcessState.RUNNING]
        return {s.name: "follower" if s is not serving[0] else "leader" for s in serving}

    def end_session(self, session: int) -> bool:
        if session in self.occupying.values():
            self.occupying = {b: held for b, held in self.occupying.items() if held != session}
            return True
        holder = next((b for b, held in self.registered().items() if held == session), None)
        if holder is None:
            return False
        if not self.deaf:
            self.ended[holder] = self.ended.get(holder, 0) + 1
        return True

    def occupy(self, broker: int) -> bool:
        if broker not in self.registered() or broker in self.occupying:
            return False
        if not self.deaf:
            self.end_session(self.registered()[broker])
            self.occupying[broker] = -1 - len(self.ours)
            self.ours |= {self.occupying[broker]}
        return True

    def vacate(self, broker: int) -> None:
        self.occupying.pop(broker, None)
