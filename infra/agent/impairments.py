"""Impairments of the packets of a link: one type from the effect of a fault to a rule of nftables.

The module belongs to the agent, since a node has nothing else.
"""

from typing import Literal, NamedTuple

Kind = Literal["loss", "loss-out", "reset", "reset-open", "narrow", "slow"]


class Impairment(NamedTuple):
    """An impairment of the packets of a link.

    Attributes:
        kind: The effect. ``loss``: ``amount`` per cent of the packets are dropped silently; the
            kernel draws each. ``loss-out``: the same at the end that sends them. ``reset``: each
            packet is answered with a TCP reset, and goes no further. ``reset-open``: the same, only
            for connections that are open when it begins.
            ``narrow``: packets pass at ``amount`` kilobits a second. ``slow``: each packet waits at
            least ``amount`` milliseconds. If the kernel lacks netem, it waits in a queue, which
            makes the link narrow, too.
        amount: The size of the effect, in the unit of the kind.
        ports: TCP ports. A packet that has none of them at either end passes. Empty: all packets.
            Always empty for ``narrow`` and ``slow``.
    """

    kind: Kind
    amount: int = 0
    ports: tuple[int, ...] = ()


CUT = Impairment(kind="loss", amount=100)


class Active(NamedTuple):
    """An impairment that is in force.

    Attributes:
        addresses: The peer's addresses. ``loss`` and ``reset`` affect packets from there,
            ``loss-out``, ``narrow`` and ``slow`` packets to there. Empty, for losses only: every
            peer but the node itself.
        number: The number in the names of the counters.
        connections: For ``reset-open``, the peer's address, the peer's port and the own port of
            each TCP connection that was open when it began.
    """

    addresses: tuple[str, ...]
    impairment: Impairment
    number: int
    connections: tuple[tuple[str, int, int], ...] = ()

    @property
    def seen(self) -> str:
        """Return the name of the counter of the packets that the impairment may have affected."""
        return f"seen_{self.number}"

    @property
    def hit(self) -> str:
        """Return the name of the counter of the packets that the impairment affected."""
        return f"hit_{self.number}"
