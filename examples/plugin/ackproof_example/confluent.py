"""A client library of one's own: confluent-kafka, by its Python API."""

from collections.abc import Sequence
from pathlib import Path

from ackproof.infra.api import artifacts
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import Node
from ackproof.infra.clients.programs import Client

_PROGRAM = Path(__file__).with_name("confluent_program.py")


def _artifact() -> Artifact:
    return artifacts.program(_PROGRAM, "confluent.py", "the program of confluent")


def _command(node: Node) -> Sequence[str]:
    return [node.software.python, str(node.where(_artifact()))]


CONFLUENT = Client(
    name="confluent",
    summary="confluent-kafka, librdkafka by its Python API",
    command=_command,
    artifact=_artifact,
    lacks={"transaction.timeout.ms": "its program knows no transactions"},
)
