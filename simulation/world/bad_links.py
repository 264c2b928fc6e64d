"""The links that a plan has cut or made slow, and how they become whole again."""

from collections.abc import Iterable
from typing import Final

from simulation.loop.loop import SimulatedLoop
from simulation.loop.ownership import NOBODY
from simulation.model.observer import Observer
from simulation.network.network import BASE_S, JITTER_S, Network

OneWay = tuple[str, str]
"""From this host to that one."""

CUT_WAYS: Final = {
    "out": "no longer reaches",
    "in": "is no longer reached by",
    "both": "is cut from",
}
"""What is said of a host, by the direction of a cut."""


def ways(host: str, others: Iterable[str], direction: str) -> list[OneWay]:
    """The links between ``host`` and the others that a cut in that direction takes."""
    out = [(host, other) for other in others if other != host]
    into = [(other, host) for host, other in out]
    return {"out": out, "in": into, "both": out + into}[direction]


def both_ways(one: str, other: str) -> list[OneWay]:
    """All that there is between two hosts."""
    return [(one, other), (other, one)]


class BadLinks:
    """A link is whole when the last of its cuts is over, and as slow as was said last."""

    def __init__(self, loop: SimulatedLoop, network: Network, observer: Observer) -> None:
        self._loop = loop
        self._network = network
        self._observer = observer
        self._cut: dict[OneWay, float] = {}
        """Until when; the same below."""
        self._slow: dict[OneWay, float] = {}

    def cut(self, links: Iterable[OneWay], for_ms: float) -> None:
        """Nothing arrives for a while."""
        links = tuple(links)
        until = self._loop.time() + for_ms / 1000
        for link in links:
            self._cut[link] = max(until, self._cut.get(link, until))
            self._network.cut(*link)
        self._loop.call_later(for_ms / 1000, self._mend, links, until, context=NOBODY)

    def _mend(self, links: tuple[OneWay, ...], until: float) -> None:
        for source, target in links:
            if self._cut.get((source, target)) == until:
                del self._cut[source, target]
                self._observer.note(f"{source} reaches {target} again")
                self._network.heal(source, target)

    def slow(self, links: Iterable[OneWay], delay_ms: float, for_ms: float) -> None:
        """What is sent in the next ``for_ms`` takes ``delay_ms``."""
        links = tuple(links)
        until = self._loop.time() + for_ms / 1000
        for link in links:
            self._slow[link] = until
            self._network.set_latency(*link, delay_ms / 1000, JITTER_S)
        self._loop.call_later(for_ms / 1000, self._quicken, links, until, context=NOBODY)

    def _quicken(self, links: tuple[OneWay, ...], until: float) -> None:
        for link in links:
            if self._slow.get(link) == until:
                del self._slow[link]
                self._network.set_latency(*link, BASE_S, JITTER_S)

    def heal(self) -> None:
        """Everything, at once."""
        self._cut.clear()
        self._network.heal_all()
        for link in self._slow:
            self._network.set_latency(*link, BASE_S, JITTER_S)
        self._slow.clear()
