"""The links of the cluster in memory, with all impairments and measurements."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackproof.infra.agent.impairments import CUT, Impairment
from ackproof.infra.api.interface import Node, PacketCounts

if TYPE_CHECKING:
    from ackproof.testing.memory.servers import MemoryBackend

QUICK_MS = 0.1
WIDE_KBIT = 100_000.0
On = tuple[str, str, Impairment]


@dataclass
class MemoryLinks:
    """The links of the cluster, as ``infra.api.interface.Links``. Losses are exact here: the
    expected number of connections fails. A complete cut is the backend's ``cut``."""

    backend: "MemoryBackend"
    on: set[On] = field(default_factory=set)
    hits: Counter[On] = field(default_factory=Counter)
    seen: Counter[On] = field(default_factory=Counter)
    connections: dict[tuple[str, str], str] = field(default_factory=dict)
    """The held connections by source and name: their state, or the target while they are open."""
    busy_ms: float = 0.0
    """The time that the machine itself takes for a connection."""

    def impair(self, source: Node, target: Node, impairment: Impairment) -> None:
        if impairment == CUT:
            self.backend.cut(source, target)
        else:
            self.backend.calls.append(("impair", source.name, target.name))
            if not self.backend.leaky:
                self.on.add((source.name, target.name, impairment))
        if not self.backend.leaky:
            self.hits[source.name, target.name, impairment] = 0
            self.seen[source.name, target.name, impairment] = 0

    def mend(self, source: Node, target: Node, impairment: Impairment) -> None:
        if impairment == CUT:
            self.backend.heal(source, target)
        else:
            self.backend.calls.append(("mend", source.name, target.name))
            self.on.discard((source.name, target.name, impairment))

    def counted(self, source: Node, target: Node, impairment: Impairment) -> PacketCounts:
        what = (source.name, target.name, impairment)
        return PacketCounts(seen=self.seen[what], hit=self.hits[what])

    def tries(self, source: Node, target: Node, port: int, count: int, within: float) -> int:
        if not self.backend.reaches(source, target, port, within):
            return 0
        kept = 1.0
        for one in self._between(source, target, port, "loss"):
            kept *= 1 - one[2].amount / 100
            self.seen[one] += count
            self.hits[one] += round(count * one[2].amount / 100)
        return round(count * kept)

    def connecting_ms(self, source: Node, target: Node, port: int, count: int) -> Sequence[float]:
        if not self.backend.reaches(source, target, port):
            return []
        slow = self._between(source, target, port, "slow")
        self.hits.update(dict.fromkeys(slow, count))
        return [QUICK_MS + self.busy_ms + sum(one[2].amount for one in slow)] * count

    def hold(self, name: str, source: Node, target: Node, port: int) -> bool:
        reached = self.backend.reaches(source, target, port)
        self.connections[source.name, name] = target.name if reached else "none"
        return reached

    def held(self, name: str, source: Node) -> str:
        there = self.connections.get((source.name, name), "none")
        ends = {source.name, there}
        for one in sorted(self.on):
            if set(one[:2]) == ends and one[2].kind.startswith("reset"):
                self.hits[one] += 1
                self.connections[source.name, name] = there = "reset"
        return there if there in ("none", "reset") else "open"

    def let_go(self, name: str, source: Node) -> None:
        self.connections.pop((source.name, name), None)

    def throughput_kbit(self, source: Node, target: Node, lasting: float) -> float:
        one_way = [o for o in self.on if o[:2] == (source.name, target.name)]
        narrow = [one for one in one_way if one[2].kind == "narrow"]
        self.hits.update(dict.fromkeys(narrow, round(100 * lasting)))
        return min([WIDE_KBIT, *(float(one[2].amount) for one in narrow)])

    def lets_through(self, source: Node, target: Node, port: int) -> bool:
        """Return whether a new connection succeeds. A link that blocks it counts a packet: the
        first packet on its way, and the answer only if the first packet arrived."""
        stopping = [
            one
            for kind in ("loss", "reset")
            for one in self._between(source, target, port, kind)
            if kind == "reset" or one[2].amount == CUT.amount
        ]
        for way in ((source.name, target.name), (target.name, source.name)):
            if way in self.backend.links_cut:
                stopping.append((*way, CUT))
        there = [one for one in stopping if one[0] == source.name]
        self.hits.update(there or stopping)
        return not stopping

    def _between(self, source: Node, target: Node, port: int, kind: str) -> list[On]:
        ends = {source.name, target.name}
        return [
            one
            for one in sorted(self.on)
            if set(one[:2]) == ends
            and one[2].kind == kind
            and (not one[2].ports or port in one[2].ports)
        ]
