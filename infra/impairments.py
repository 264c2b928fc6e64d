"""The links between nodes, as the rest of the harness may ask for them: what can befall them, and
what can be measured on them. Part of :mod:`infra.interface`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from ackproof.infra.interface import Node


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Impairment:
    """What befalls the packets of a link.

    Attributes:
        kind: ``loss``: ``amount`` per cent of them are dropped, silently, each drawn by the kernel.
            ``reset``: each is answered with a TCP reset, and goes no further. ``reset-open``: the
            same for connections that are open when it begins, and no others. ``narrow``: they pass
            at ``amount`` kilobits a second. ``slow``: each waits ``amount`` milliseconds at least;
            where the kernel lacks netem, in a queue, which makes the link narrow, too.
        ports: TCP ports, at either end: what has none of them is let through. Empty: all packets.
            Of ``narrow`` and ``slow`` always empty.
    """

    kind: Literal["loss", "reset", "reset-open", "narrow", "slow"]
    amount: int = 0
    ports: tuple[int, ...] = ()


CUT = Impairment(kind="loss", amount=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Packets, as the kernel counts them.

    Attributes:
        seen: That an impairment might have befallen; counted for losses alone.
        hit: That it befell.
    """

    seen: int
    hit: int


class Links(Protocol):
    """What can be done to the links between nodes, each in its direction, and measured on them. The
    harness's own way to a node is no link. What is measured is tried for real, from inside of
    ``source``; times are in seconds unless said otherwise."""

    def impair(self, source: "Node", target: "Node", impairment: Impairment) -> None:
        """Begin with it, for open connections too. Idempotent. Several may be on at once."""

    def mend(self, source: "Node", target: "Node", impairment: Impairment) -> None:
        """Undo :meth:`impair`. Idempotent."""

    def counted(self, source: "Node", target: "Node", impairment: Impairment) -> Counted:
        """Since it last began."""

    def tries(self, source: "Node", target: "Node", port: int, count: int, within: float) -> int:
        """How many of ``count`` new TCP connections succeed, ``within`` a time each. Below a
        second, what decides is one packet in each direction."""

    def connecting_ms(
        self, source: "Node", target: "Node", port: int, count: int
    ) -> Sequence[float]:
        """How long each of ``count`` new TCP connections takes, in milliseconds; those that fail
        are left out."""

    def hold(self, name: str, source: "Node", target: "Node", port: int) -> bool:
        """Open a TCP connection that nobody uses, and keep it; whether that succeeded. ``name``:
        one of the source's."""

    def held(self, name: str, source: "Node") -> str:
        """What has become of it: ``open``, ``reset``, ``closed``, ``none``, or an error's text."""

    def let_go(self, name: str, source: "Node") -> None:
        """Close it. Idempotent."""

    def throughput_kbit(self, source: "Node", target: "Node", lasting: float) -> float:
        """Kilobits a second that a TCP connection of that length carries."""
