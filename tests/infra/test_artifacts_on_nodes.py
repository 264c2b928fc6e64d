"""Paths at which a node's Java finds the jars of the system under test."""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import Command, InfraError
from ackproof.infra.node.node import AgentNode, NodeParts
from ackproof.infra.systems.kafka.kraft.system import ServerProgram
from ackproof.infra.systems.kafka.product import KafkaBuild, kafka_build, kafka_program

UNUSED: Any = None
JARS, OTHERS = (
    Artifact(name=name, title=f"Apache {name}", path=Path("/here") / name, sums={})
    for name in ("kafka-1", "kafka-2")
)


def node(artifacts: Mapping[Artifact, PurePosixPath] | None) -> AgentNode:
    return AgentNode(
        NodeParts(
            name="broker-1",
            addresses=["192.0.2.1"],
            directory=PurePosixPath("/node"),
            agent=UNUSED,
            software=UNUSED,
            shares=UNUSED,
            artifacts=artifacts,
            remove=UNUSED,
        )
    )


def test_a_node_that_sees_this_machine_s_files_takes_them_from_where_they_lie() -> None:
    assert node(None).where(JARS) == PurePosixPath("/here/kafka-1")


def test_any_other_takes_them_from_where_they_were_brought() -> None:
    given = node({JARS: PurePosixPath("/there/kafka-1")})
    assert given.where(JARS) == PurePosixPath("/there/kafka-1")
    with pytest.raises(InfraError, match=r"^broker-1 did not receive Apache kafka-2 \(kafka-2\)$"):
        given.where(OTHERS)


class Recorded:
    """A node that takes down what is started and written there."""

    name = "broker-1"
    directory = log_directory = PurePosixPath("/node")

    def __init__(self) -> None:
        self.software = type("Software", (), {"java": "/there/java"})
        self.started: list[Command] = []
        self.written: dict[PurePosixPath, bytes] = {}

    def where(self, artifact: Artifact) -> PurePosixPath:
        return PurePosixPath("/there") / artifact.name

    def write(self, path: PurePosixPath, content: bytes) -> None:
        self.written[path] = content

    def entries(self, _directory: PurePosixPath) -> int:
        return 0

    def empty(self, _directory: PurePosixPath) -> None: ...

    def start(self, command: Command) -> Any:
        self.started.append(command)
        return self

    def wait(self, _timeout: float) -> int:
        return 0


def paths_of(argv: tuple[str, ...], main: str) -> tuple[str, str, list[str]]:
    """The Java and the class path of a command line, and what of the node's files it names."""
    where = argv.index("-cp")
    assert argv[where + 2] == main
    files = [word.rpartition("=")[2].removeprefix("file:") for word in argv if "/node/" in word]
    return argv[0], argv[where + 1], files


def test_every_program_of_kafka_goes_by_the_node_s_paths(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-3.9.1.jar").touch()
    release = kafka_build(str(tmp_path)).release
    broker: Any = Recorded()
    argv = tuple(kafka_program(release).command(broker, PurePosixPath("/node/server.properties")))
    java, class_path, files = paths_of(argv, "kafka.Kafka")
    assert (java, class_path.startswith("/there/kafka-3.9.1-")) == ("/there/java", True)
    assert set(map(PurePosixPath, files)) == {*broker.written, PurePosixPath(argv[-1])}

    server: Any = Recorded()
    program = ServerProgram(release=release, jars=JARS, cluster_id="c")
    started = program.configure(server, {"node.id": "1"})
    program.format(server, [PurePosixPath("/node/data")], votes=False)
    (formatted,) = server.started
    mains = {"kafka.Kafka": started, "kafka.tools.StorageTool": formatted}
    for main, command in mains.items():
        java, class_path, files = paths_of(tuple(command.argv), main)
        assert (java, class_path) == ("/there/java", "/there/kafka-1/*")
        assert set(map(PurePosixPath, files)) == server.written.keys()
    assert str(tmp_path) not in str([argv, started, formatted])


def test_server_loads_agent_of_its_system_from_the_node(tmp_path: Path) -> None:
    libs, agent = tmp_path / "libs", tmp_path / "agent"
    libs.mkdir()
    agent.mkdir()
    (libs / "kafka_2.13-4.1.1.jar").touch()
    (agent / "tracer.jar").touch()
    named = f"{tmp_path}+agent:{agent}"
    build = kafka_build(named)
    assert isinstance(build, KafkaBuild)
    assert build.text == f"kafka:{named}", "results say that the brokers were changed"
    before = build.artifacts()[1]
    (agent / "options").write_text("script:{}/rules.btm\n")
    jars, brought = build.artifacts()
    assert brought.name != before.name, "other options are another agent"
    assert set(brought.sums) == {"tracer.jar", "options"}

    server: Any = Recorded()
    program = ServerProgram(release=build.release, jars=jars, cluster_id="c")
    program.format(server, [PurePosixPath("/node/data")], votes=False)
    commands = {
        "broker": kafka_program(build.release).command(server, PurePosixPath("/node/c")),
        "server": program.configure(server, {"node.id": "1"}).argv,
        "tool": server.started[0].argv,
    }
    there = f"/there/{brought.name}"
    option = f"-javaagent:{there}/tracer.jar=script:{there}/rules.btm"
    assert {name: option in argv for name, argv in commands.items()} == {
        "broker": True,
        "server": True,
        "tool": False,
    }
