"""**IdsAreNew**, where ids come from: a block of producer ids begins behind the last one, a broker
takes for its own what ZooKeeper says is its, and gives each id of it once.

Clients come to see the first few ids of a block (:mod:`simulation.observer.consumed`): of two that
have one in common they would after a thousand.
"""

import json
from typing import Final

from simulation.violation import Violation

INVARIANT: Final = "IdsAreNew"
PATH: Final = "/latest_producer_id_block"


class ProducerIdBlocks:
    """All that were ever taken."""

    def __init__(self) -> None:
        self._owners: dict[range, int] = {}
        self._taken: set[range] = set()
        self._given: set[int] = set()
        self._end = 0

    def written(self, path: str, data: bytes | None) -> None:
        """To a node of ZooKeeper; raises Violation."""
        if path != PATH or not data:
            return
        said = json.loads(data)
        block = range(int(said["block_start"]), int(said["block_end"]) + 1)
        if block.start != self._end or len(block) == 0:
            raise Violation(INVARIANT, f"{block} is taken, and {self._end} is the next id")
        self._end, self._owners[block] = block.stop, int(said["broker"])

    def taken(self, broker: int, block: range | None) -> None:
        """By a broker that is to give out what is in it; raises Violation."""
        if block is None:
            return
        if self._owners.get(block) != broker or block in self._taken:
            owner = self._owners.get(block)
            raise Violation(INVARIANT, f"broker {broker} takes {block}, which {owner} has taken")
        self._taken.add(block)

    def given(self, broker: int, producer: int) -> None:
        """By a broker; raises Violation."""
        own = any(producer in block and self._owners[block] == broker for block in self._taken)
        if not own or producer in self._given:
            raise Violation(INVARIANT, f"broker {broker} gives producer id {producer}, not its own")
        self._given.add(producer)
