"""A server of Apache Kafka with KRaft on its node: its files, its command line, its log directory
made ready (``kafka-storage format``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ackproof.infra.artifacts import Artifact
from ackproof.infra.interface import Command, DeploymentError, Node
from ackproof.infra.systems.deployment import server_properties
from ackproof.infra.systems.kafka.java import MAIN, java
from ackproof.infra.systems.kafka.log4j import logging
from ackproof.infra.systems.kafka.releases import Release

_FORMAT = "kafka.tools.StorageTool"
_FORMAT_WITHIN_S = 60.0
_HEAP_MB = 384
_TOOL_HEAP_MB = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What all servers run.

    Attributes:
        jars: Of the ``release``.
        cluster_id: Of the cluster; 22 characters (``Uuid.randomUuid``).
    """

    release: Release
    jars: Artifact
    cluster_id: str

    def configure(self, node: Node, settings: Mapping[str, str]) -> Command:
        """Write the configuration of the server on ``node``; what starts it."""
        node.write(_config(node), server_properties(settings))
        return Command(name=node.name, argv=[*self._java(node, _HEAP_MB), MAIN, str(_config(node))])

    def format(self, node: Node, directories: Sequence[PurePosixPath], *, votes: bool) -> None:
        """Make the log ``directories`` ready, and the metadata log's, where they are all as of a
        new machine: before the first start, and when a broker was replaced. One alone that is
        emptied the server makes ready itself. Raises DeploymentError.

        ``votes``: whether the server is of the quorum. Then its metadata log is kept: it is beside
        the directories that were replaced, and a voter that has forgotten it would elect one who
        lacks what it had confirmed.
        """
        if any(map(node.entries, directories)):
            return
        if not votes:
            node.empty(metadata(node))
        arguments = ["format", f"--cluster-id={self.cluster_id}", f"--config={_config(node)}"]
        process = node.start(
            Command(
                name="kafka-storage",
                argv=[*self._java(node, _TOOL_HEAP_MB), _FORMAT, *arguments, "--ignore-formatted"],
            )
        )
        status = process.wait(_FORMAT_WITHIN_S)
        if status != 0:
            log = node.read(node.log_directory / "kafka-storage.log").decode(errors="replace")
            raise DeploymentError(f"kafka-storage format on {node.name}: status {status}\n{log}")

    def _java(self, node: Node, heap_mb: int) -> list[str]:
        option = logging(self.release, node)
        return [*java(node, heap_mb=heap_mb, logging=option, jars=self.jars)]


def metadata(node: Node) -> PurePosixPath:
    """Where the metadata log is (``metadata.log.dir``): beside the log directories, which hold
    replicas alone, and are collected whole; its index files have 10 MB each, whatever is set."""
    return node.directory / "metadata"


def _config(node: Node) -> PurePosixPath:
    return node.directory / "server.properties"
