"""The bundled broker on ZooKeeper."""

import struct
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import PurePosixPath

from ackproof.infra.disks import DiskPlan
from ackproof.infra.interface import Backend, Node
from ackproof.infra.systems.on_zookeeper import BrokerCommand, Program, SystemOnZooKeeper

_sizes = count(1)


def bundled_broker(node: Node, config: PurePosixPath) -> Sequence[str]:
    """The bundled broker's command line on its node, given its ``server.properties``."""
    return [node.software.python, "-P", "-m", "ackproof.broker", "--config", str(config)]


class BundledSystem(SystemOnZooKeeper):
    """Implements ``infra.interface.System``; see :class:`SystemOnZooKeeper`.

    Args:
        broker_command: Given the node and the path of ``server.properties`` there, the command
            line.
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
            name="bundled",
            program=Program(command=broker_command, knock=_knock),
            brokers=brokers,
            zookeepers=zookeepers,
            properties=properties,
            disks=disks,
            clocks=clocks,
        )


def _knock() -> tuple[bytes, str]:
    """A request that cannot be. The broker logs it with the size that it claims to have
    (``broker.wire.framing``): one that no other has claimed, and no client does."""
    size = -next(_sizes)
    return struct.pack(">i", size), f": frame of {size} bytes"
