"""Too little of CPU or memory for a container, by the engine's own hand.

Everything in the container shares it, the agent too. What the kernel has counted, the agent reads
in there: it sees the container's own control groups, and may not write to them.
"""

from collections.abc import Mapping
from typing import Any

from docker.errors import DockerException
from docker.models.containers import Container

from ackproof.infra.agent_client import AgentClient
from ackproof.infra.interface import InfraError
from ackproof.infra.scarcity import Scarce

_PERIOD_US = 100_000
_ALL_US = -1
_SWAP = 1 << 20
"""More than the kernel charges at once, 64 pages."""


class ContainerLimits:
    """Implements ``infra.scarcity.Scarcity``."""

    def __init__(self, container: Container, agent: AgentClient) -> None:
        self._container = container
        self._agent = agent
        self._before: dict[Scarce, Mapping[str, int]] = {}

    def limit(self, what: Scarce, amount: int) -> None:
        self._before.setdefault(what, self._counters(what))
        if what is Scarce.CPU:
            self._update(cpu_period=_PERIOD_US, cpu_quota=amount * _PERIOD_US // 1000)
        else:
            self._give(self._held() + amount)

    def lift(self, what: Scarce) -> None:
        if what is Scarce.CPU:
            self._update(cpu_period=_PERIOD_US, cpu_quota=_ALL_US)
        elif what in self._before:
            self._give(self._machine())
        self._before.pop(what, None)

    def counted(self, what: Scarce) -> Mapping[str, int]:
        before = self._before.get(what)
        if before is None:
            return {}
        return {name: now - before[name] for name, now in self._counters(what).items()}

    def _counters(self, what: Scarce) -> Mapping[str, int]:
        found: dict[str, int] = self._agent.ask("counted", what=what, here=True)
        return found

    def _held(self) -> int:
        """Bytes that the kernel cannot take back by writing files out."""
        stats: Any = self._container.stats(stream=False)
        told = stats["memory_stats"]
        files = told["stats"].get("file", told["stats"].get("total_cache", 0))
        return int(told["usage"]) - int(files)

    def _machine(self) -> int:
        """All there is: the engine sets limits and takes none away."""
        client = self._container.client
        assert client is not None
        return int(client.info()["MemTotal"])

    def _give(self, size: int) -> None:
        # Of memory and swap together a little more: in version 1 of control groups that limit is
        # looked at first, and how often it is met nobody counts (seen with Linux 6.18).
        self._update(mem_limit=size, memswap_limit=size + _SWAP)

    def _update(self, **settings: Any) -> None:
        try:
            self._container.update(**settings)
        except DockerException as error:
            raise InfraError(f"{self._container.name} cannot be limited: {error}") from error
