"""The nodes of a backend and the links between them, with the capabilities that were found."""

import itertools
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ackproof.infra.agent.impairments import Impairment
from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import Capability, InfraError, Node, PacketCounts
from ackproof.infra.node.agent_client import AgentClient
from ackproof.infra.node.node import AgentNode

Tell = Callable[[str], object]
Obstacles = Mapping[str, str | None]
"""The reason why a place lacks a capability of links, by capability; None if it has it."""

OF_LINKS = (
    Capability.CUT_LINKS,
    Capability.LOSSY_LINKS,
    Capability.RESET_LINKS,
    Capability.NARROW_LINKS,
    Capability.SLOW_LINKS,
)


def _nobody(_line: str) -> None: ...


_NAME = re.compile(r"[a-z][a-z0-9-]*")
_SLACK_S = 15.0
_NOTHING: Mapping[Capability, Iterable[str | None]] = {}


LIMITS: Mapping[Capability, LimitedResource] = {
    Capability.LIMIT_CPU: LimitedResource.CPU,
    Capability.LIMIT_MEMORY: LimitedResource.MEMORY,
}


def capabilities(
    links: Iterable[Obstacles],
    limits: Iterable[Collection[Capability]] = ((),),
    tried: Mapping[Capability, Iterable[str | None]] = _NOTHING,
    *,
    further: bool = True,
) -> frozenset[Capability]:
    """Return the capabilities of a backend.

    Args:
        links: The obstacles of each place.
        limits: For each place, which of :data:`LIMITS` it has.
        tried: For each other capability, why each place lacks it; None if the place has it.
        further: Whether there is a place for another node.
    """
    missing = {name for place in links for name, obstacle in place.items() if obstacle}
    # Without a place to try it, a capability is not proven. Containers cannot slow a disk, and
    # would seem to before the first of them is made.
    able = {one for one, reasons in tried.items() if {*reasons} == {None}}
    if Capability.LOSE_UNSYNCED_WRITES in able:
        able.add(Capability.FILL_DISKS)
    limited = frozenset(LIMITS).intersection(*limits)
    able |= {Capability.FURTHER_NODES} if further else set()
    return limited | able | {Capability.SIGNALS, *(one for one in OF_LINKS if one not in missing)}


def limits(
    unlimited: Callable[[LimitedResource], str | None], tell: Tell = _nobody
) -> frozenset[Capability]:
    """Return which of :data:`LIMITS` a place has.

    ``unlimited`` returns why it lacks one, and ``tell`` gets that text.
    """
    found = {capability: unlimited(what) for capability, what in LIMITS.items()}
    for capability, obstacle in found.items():
        if obstacle is not None:
            tell(f"no {capability}: {obstacle}")
    return frozenset(capability for capability, obstacle in found.items() if obstacle is None)


def lacking(place: Obstacles) -> Iterator[str]:
    """Yield a line for each reason why a place lacks capabilities."""
    for reason in dict.fromkeys(reason for reason in place.values() if reason):
        names = ", ".join(name for name, why in place.items() if why == reason)
        yield f"no {names}: {reason}"


class Nodes:
    """The nodes of a backend, each made once at its first request.

    Threads that request different nodes do not wait for each other.

    Args:
        make: Makes the node of a name. Its error is raised to the caller, and a later request tries
            again.
    """

    def __init__(self, make: Callable[[str], AgentNode]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._made: dict[str, AgentNode] = {}
        self._closed = False

    def get(self, name: str) -> AgentNode:
        """Return the node of a name. Raises ValueError for an invalid name, InfraError when
        closed."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"node name {name!r}: must match {_NAME.pattern}")
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            if self._closed:
                raise InfraError(f"the backend is closed: no node {name}")
            if name not in self._made:
                self._made[name] = self._make(name)
            return self._made[name]

    def remove(self, name: str) -> None:
        """Close the node of that name, if it exists, and forget it. A later request makes a new
        one.

        Raises InfraError if it cannot be closed; what its backend has made for it may still exist
        then.
        """
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            if name in self._made:
                self._made[name].close()
                del self._made[name]

    def ours(self, node: Node) -> AgentNode:
        """Return a node of this backend with its own type."""
        return self._made[node.name]

    def reaches(self, source: Node, target: Node, port: int, timeout: float) -> bool:
        """Return whether a connection succeeds, see ``infra.api.interface.Backend``."""
        arguments = {"address": target.address, "port": port, "within": timeout}
        reached: bool = self.ours(source).agent.ask(
            "reaches", timeout=timeout + _SLACK_S, **arguments
        )
        return reached

    def made(self) -> Sequence[AgentNode]:
        """Return the nodes that exist, closed or not."""
        return list(self._made.values())

    def close(self) -> bool:
        """Make no more nodes, and wait until none is being made.

        Return whether this was the first call. The caller must close the nodes themselves.
        """
        with self._lock:
            first, self._closed = not self._closed, True
            under_way = list(self._making.values())
        for making in under_way:
            with making:
                pass
        return first


# --- links between nodes ----------------------------------------------------------------------


_CONNECTS_WITHIN_S = 5.0
_HOLDS_WITHIN_S = 1.0
_QUEUED = ("narrow", "slow")


class AgentLinks:
    """An ``infra.api.interface.Links`` by the agents of the nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._numbers = itertools.count()

    def impair(self, source: Node, target: Node, impairment: Impairment) -> None:
        self._ask("impair", source, target, impairment)

    def mend(self, source: Node, target: Node, impairment: Impairment) -> None:
        self._ask("mend", source, target, impairment)

    def counted(self, source: Node, target: Node, impairment: Impairment) -> PacketCounts:
        return PacketCounts(**self._ask("packets", source, target, impairment))

    def tries(self, source: Node, target: Node, port: int, count: int, within: float) -> int:
        succeeded: int = self._agent(source).ask(
            "tries",
            timeout=count * within + _SLACK_S,
            address=target.address,
            port=port,
            count=count,
            within=within,
        )
        return succeeded

    def connecting_ms(self, source: Node, target: Node, port: int, count: int) -> list[float]:
        taken: list[float] = self._agent(source).ask(
            "connecting_ms",
            timeout=count * _CONNECTS_WITHIN_S + _SLACK_S,
            address=target.address,
            port=port,
            count=count,
            within=_CONNECTS_WITHIN_S,
        )
        return taken

    def hold(self, name: str, source: Node, target: Node, port: int) -> bool:
        opened: bool = self._agent(source).ask(
            "hold", name=name, address=target.address, port=port, within=_HOLDS_WITHIN_S
        )
        return opened

    def held(self, name: str, source: Node) -> str:
        state: str = self._agent(source).ask("held", name=name)
        return state

    def let_go(self, name: str, source: Node) -> None:
        self._agent(source).ask("let_go", name=name)

    def throughput_kbit(self, source: Node, target: Node, lasting: float) -> float:
        name = f"throughput-{next(self._numbers)}"
        sink = self._agent(target)
        port = sink.ask("sink", name=name, address=target.address)
        try:
            self._agent(source).ask(
                "pour",
                timeout=2 * lasting + _CONNECTS_WITHIN_S + _SLACK_S,
                address=target.address,
                port=port,
                seconds=lasting,
                within=_CONNECTS_WITHIN_S,
            )
        finally:
            taken, seconds = sink.ask("poured", name=name)
        return float(taken * 8 / 1000 / seconds) if seconds else 0.0

    def _agent(self, node: Node) -> AgentClient:
        return self._nodes.ours(node).agent

    def _ask(self, verb: str, source: Node, target: Node, impairment: Impairment) -> dict[str, int]:
        """Ask the agent of the right end: packets are lost where they come in, and wait where they
        go out. On the way to a node whose links are left alone, they are lost where they go out."""
        ends = (source, target) if impairment.kind in _QUEUED else (target, source)
        near, far = (self._nodes.ours(end) for end in ends)
        if not near.impairs:
            if impairment.kind != "loss" or not far.impairs:
                raise InfraError(
                    f"{source.name} -> {target.name}: only cuts and losses are possible, because "
                    f"the links of {near.name} are left alone"
                )
            near, far, impairment = far, near, impairment._replace(kind="loss-out")
        # Each of two hosts may have a bridge for containers, of the same address.
        addresses = [address for address in far.addresses if address not in near.addresses]
        if not addresses:
            raise InfraError(
                f"{near.name} and {far.name} have the same addresses: no link to treat"
            )
        answer: dict[str, int] = near.agent.ask(
            verb, addresses=addresses, impairment=impairment._asdict()
        )
        return answer
