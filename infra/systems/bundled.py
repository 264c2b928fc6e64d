"""The bundled broker on ZooKeeper."""

import json
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path, PurePosixPath

from ackproof.infra.api.capabilities import DiskPlan
from ackproof.infra.api.interface import Backend, Node
from ackproof.infra.systems.on_zookeeper import (
    BrokerCommand,
    BuildOnZooKeeper,
    Program,
    SystemOnZooKeeper,
)
from ackproof.infra.systems.product import BUNDLED, Product
from ackproof.infra.systems.properties import KnownProperties

_sizes = count(1)


def bundled_broker(node: Node, config: PurePosixPath) -> Sequence[str]:
    """Return the bundled broker's command line on its node, given its ``server.properties``."""
    return [node.software.python, "-P", "-m", "ackproof.broker", "--config", str(config)]


def knock() -> tuple[bytes, str]:
    """Return an invalid request, and the end of the line that the broker logs about it.

    The line has the size that the request claims (``broker.wire.framing``). No other request has
    claimed that size, and no client does.
    """
    size = -next(_sizes)
    return struct.pack(">i", size), f": frame of {size} bytes"


@cache
def bundled_properties() -> KnownProperties:
    """Return the properties of the bundled broker and of its topics."""
    page = Path(__file__).with_name(f"{BUNDLED}.json")
    found = json.loads(page.read_text(encoding="utf-8"))
    return KnownProperties(
        system=BUNDLED,
        kraft=False,
        page="those that there are: docs/broker-properties.md",
        broker=found["broker"],
        topic=found["topic"],
        generations=found["generations"],
    )


def _build(version: str | None) -> BuildOnZooKeeper:
    del version  # it has none
    return BuildOnZooKeeper(
        text=BUNDLED,
        program=Program(command=bundled_broker, knock=knock),
        properties=bundled_properties(),
        without_transactions=(
            "the bundled broker does not support transactions (InitProducerId refuses)"
        ),
    )


BUNDLED_BROKER = Product(
    name=BUNDLED,
    summary="the bundled broker, which runs on ZooKeeper and in a process of Python",
    build=_build,
    forms=(BUNDLED,),
)


class BundledSystem(SystemOnZooKeeper):
    """An ``infra.api.interface.System`` of the bundled broker; see :class:`SystemOnZooKeeper`.

    Args:
        broker_command: Returns the command line for the node and the path of ``server.properties``
            there.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        brokers: int,
        zookeepers: int = 1,
        properties: Mapping[str, str],
        disks: DiskPlan | None = None,
        clocks: bool = False,
        broker_command: BrokerCommand = bundled_broker,
    ) -> None:
        super().__init__(
            backend,
            name=BUNDLED,
            program=Program(command=broker_command, knock=knock),
            brokers=brokers,
            zookeepers=zookeepers,
            properties=properties,
            disks=disks,
            clocks=clocks,
            known=bundled_properties(),
        )
