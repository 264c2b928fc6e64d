"""Log directories of servers with KRaft: made ready where they are all as of a new machine."""

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import Command
from ackproof.infra.systems.kafka.kraft.system import ServerProgram
from ackproof.infra.systems.kafka.programs import logging
from ackproof.infra.systems.kafka.releases import Release

JARS = Artifact(name="kafka-1", title="Apache Kafka", path=Path("/here"), sums={})
METADATA, ONE, OTHER = map(PurePosixPath, ("/node/metadata", "/node/1", "/node/2"))


@dataclass
class FakeNode:
    """A node with so many files in each directory, by which it is told what was done."""

    files: dict[PurePosixPath, int]
    name: str = "broker-1"
    directory: PurePosixPath = METADATA.parent
    software: Any = field(default_factory=lambda: type("S", (), {"java": "java"}))
    written: dict[str, str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    def where(self, _artifact: Artifact) -> PurePosixPath:
        return PurePosixPath("/there")

    def write(self, path: PurePosixPath, content: bytes) -> None:
        self.written[path.name] = content.decode()

    def entries(self, directory: PurePosixPath) -> int:
        return self.files.get(directory, 0)

    def empty(self, directory: PurePosixPath) -> None:
        self.files[directory] = 0

    def start(self, command: Command) -> "FakeNode":
        self.ran.append(command.argv[-4])
        return self

    def wait(self, _timeout: float) -> int:
        return 0


@pytest.mark.parametrize(
    ("data", "votes", "formatted", "left"),
    [
        ((0, 0), False, True, 0),  # a new machine, and one that was replaced
        ((0, 0), True, True, 3),  # with the memory of a voter
        ((0, 1), False, False, 3),
        ((1, 1), True, False, 3),
    ],
)
def test_a_voter_keeps_its_metadata_log(
    data: tuple[int, int], votes: bool, formatted: bool, left: int
) -> None:
    node: Any = FakeNode({ONE: data[0], OTHER: data[1], METADATA: 3})
    program = ServerProgram(release=Release(version="3.9.1"), jars=JARS, cluster_id="c")
    program.format(node, [ONE, OTHER], votes=votes)
    assert bool(node.ran) is formatted
    assert node.files[METADATA] == left


@pytest.mark.parametrize(
    ("version", "file", "option"),
    [
        ("3.9.1", "log4j.properties", "-Dlog4j.configuration=file:/node/log4j.properties"),
        ("4.0.0", "log4j2.properties", "-Dlog4j2.configurationFile=/node/log4j2.properties"),
    ],
)
def test_each_release_logs_by_its_own(version: str, file: str, option: str) -> None:
    node: Any = FakeNode({})
    assert logging(Release(version=version), node) == option
    assert "%throwable" in node.written[file]
