"""Apache Kafka's broker on ZooKeeper: releases before 4.0."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ackproof.infra.artifacts import Artifact
from ackproof.infra.interface import Node
from ackproof.infra.systems.kafka.jars import jars_of
from ackproof.infra.systems.kafka.java import MAIN, java, knock
from ackproof.infra.systems.kafka.log4j import logging
from ackproof.infra.systems.kafka.releases import Release
from ackproof.infra.systems.on_zookeeper import Program

_PROPERTIES = {
    # Kafka's defaults since 2.5: what waits are derived from is the same for all releases.
    "zookeeper.session.timeout.ms": "18000",
    "replica.lag.time.max.ms": "30000",
    # As in the server.properties that it ships. The default is the session timeout: a broker that
    # is started while ZooKeeper is paused would end before ZooKeeper is back.
    "zookeeper.connection.timeout.ms": "18000",
    # It makes index files of 10 MB, two for each replica, which collect would fetch whole.
    "log.index.size.max.bytes": "1048576",
    # The default is a third of the heap, and campaigns compact nothing of their own.
    "log.cleaner.dedupe.buffer.size": "8388608",
}


@dataclass(frozen=True, slots=True)
class _Broker:
    """Its command line, with these jars of a release."""

    release: Release
    jars: Artifact

    def __call__(self, node: Node, config: PurePosixPath) -> Sequence[str]:
        option = logging(self.release, node)
        start = java(node, heap_mb=384, logging=option, jars=self.jars)
        return [*start, MAIN, str(config)]


def kafka_program(release: Release) -> Program:
    """What its brokers run, on nodes that were given its jars (``infra.systems.artifacts``). Raises
    InfraError when these are not here, or are not what was released."""
    return Program(
        command=_Broker(release, jars_of(release)),
        knock=knock,
        properties=_PROPERTIES,
        # It ends when its id is taken in ZooKeeper, by whichever session.
        starts_beside_itself=False,
    )
