"""Link faults: the links that a plan has cut or slowed down, and their recovery."""

from collections.abc import Iterable
from typing import Final

from simulation.loop.loop import SimulatedLoop
from simulation.loop.ownership import NO_PROCESS
from simulation.model.observer import ClusterObserver
from simulation.network.network import BASE_S, JITTER_S, SimulatedNetwork

Direction = tuple[str, str]
"""A link, from the first host to the second."""

CUT_WORDS: Final = {
    "out": "no longer reaches",
    "in": "is no longer reached by",
    "both": "is cut from",
}
"""The words of a note about a host, by the direction of a cut."""


def links_between(host: str, others: Iterable[str], direction: str) -> list[Direction]:
    """Return the links that a cut of ``host`` from the others affects."""
    out = [(host, other) for other in others if other != host]
    into = [(other, host) for host, other in out]
    return {"out": out, "in": into, "both": out + into}[direction]


def both_directions(one: str, other: str) -> list[Direction]:
    """Return the links of both directions between two hosts."""
    return [(one, other), (other, one)]


class LinkFaults:
    """The faulty links of one world.

    A link is healed when the last of its cuts is over. Its delay is the one that was set last.
    """

    def __init__(
        self, loop: SimulatedLoop, network: SimulatedNetwork, observer: ClusterObserver
    ) -> None:
        self._loop = loop
        self._network = network
        self._observer = observer
        self._cut: dict[Direction, float] = {}
        """The times at which the cuts end. The attribute below has the ends of delays."""
        self._slow: dict[Direction, float] = {}

    def cut(self, links: Iterable[Direction], for_ms: float) -> None:
        """Cut links for a while."""
        links = tuple(links)
        until = self._loop.time() + for_ms / 1000
        for link in links:
            self._cut[link] = max(until, self._cut.get(link, until))
            self._network.cut(*link)
        self._loop.call_later(for_ms / 1000, self._heal_cuts, links, until, context=NO_PROCESS)

    def _heal_cuts(self, links: tuple[Direction, ...], until: float) -> None:
        for source, target in links:
            if self._cut.get((source, target)) == until:
                del self._cut[source, target]
                self._observer.note(f"{source} reaches {target} again")
                self._network.heal(source, target)

    def slow(self, links: Iterable[Direction], delay_ms: float, for_ms: float) -> None:
        """Delay everything that is sent in the next ``for_ms`` by ``delay_ms``."""
        links = tuple(links)
        until = self._loop.time() + for_ms / 1000
        for link in links:
            self._slow[link] = until
            self._network.set_latency(*link, delay_ms / 1000, JITTER_S)
        self._loop.call_later(for_ms / 1000, self._end_delays, links, until, context=NO_PROCESS)

    def _end_delays(self, links: tuple[Direction, ...], until: float) -> None:
        for link in links:
            if self._slow.get(link) == until:
                del self._slow[link]
                self._network.set_latency(*link, BASE_S, JITTER_S)

    def heal(self) -> None:
        """Heal all links at once."""
        self._cut.clear()
        self._network.heal_all()
        for link in self._slow:
            self._network.set_latency(*link, BASE_S, JITTER_S)
        self._slow.clear()
