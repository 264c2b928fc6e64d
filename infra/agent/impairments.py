"""What befalls the packets of a link: one type from the effect of a fault to a rule of nftables.

It is here, since a node has the agent alone.
"""

from typing import Literal, NamedTuple

Kind = Literal["loss", "reset", "reset-open", "narrow", "slow"]


class Impairment(NamedTuple):
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

    kind: Kind
    amount: int = 0
    ports: tuple[int, ...] = ()


CUT = Impairment(kind="loss", amount=100)


class Active(NamedTuple):
    """An impairment that is on.

    Attributes:
        addresses: The peer's. ``loss`` and ``reset`` befall what comes from there, ``narrow`` and
            ``slow`` what goes there.
        number: Names its counters.
        connections: With ``reset-open``: the peer's address and port and our port of each TCP
            connection that was open when it began.
    """

    addresses: tuple[str, ...]
    impairment: Impairment
    number: int
    connections: tuple[tuple[str, int, int], ...] = ()

    @property
    def seen(self) -> str:
        """The counter of the packets that it might have befallen."""
        return f"seen_{self.number}"

    @property
    def hit(self) -> str:
        """The counter of those that it befell."""
        return f"hit_{self.number}"
