"""What brokers go by where a topic says nothing: their properties, and what is laid on top of them
while they run (KIP-226), computed from what stands in ZooKeeper."""

import json
from collections.abc import Mapping
from typing import Final

from ackproof.broker.config import BrokerConfig, TopicConfig

PATH: Final = "/config/brokers/"
ALL: Final = "<default>"


class BrokerSettings:
    """Of all brokers."""

    def __init__(self) -> None:
        self.properties: dict[int, BrokerConfig] = {}
        self.dynamic: dict[str, Mapping[str, str]] = {}
        """By broker, or of all."""

    def written(self, path: str, data: bytes | None) -> None:
        """To a node of ZooKeeper."""
        if path.startswith(PATH):
            self.dynamic[path.removeprefix(PATH)] = json.loads(data)["config"] if data else {}

    def defaults(self, broker: int) -> TopicConfig:
        """Its own come before those of all."""
        laid = {**self.dynamic.get(ALL, {}), **self.dynamic.get(str(broker), {})}
        return self.properties[broker].overridden(laid).topic_defaults()
