"""Clients that are programs: which cells have them, what they are started with, and what keeps a
campaign from being run that names one."""

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from click.testing import CliRunner

from ackproof.config.documents import DocumentRefused
from ackproof.harness.campaign.backends import BackendContext
from ackproof.harness.campaign.clients import message_timeout_ms
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.harness.campaign.plan.runs import runs_of
from ackproof.harness.campaign.problems.places import missing_programs
from ackproof.harness.campaign.validation import check
from ackproof.harness.cli import cli
from ackproof.harness.running import clients
from ackproof.history.cell import LIBRARIES, Cell
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import InfraError
from ackproof.infra.clients import builds, programs
from ackproof.infra.clients.programs import CLIENTS
from ackproof.infra.machine.software import cached
from ackproof.testing.memory.servers import MemoryNode
from ackproof.workloads.foreign.properties import DEFAULTS
from ackproof.workloads.interface import Client, ClientNode, Delivery, Group, Load
from ackproof.workloads.produce import Produce
from ackproof.workloads.spec import ForeignMemberSpec

COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
HERE = MemoryNode("client-1", "client-1")
"""It sees this machine's files."""
BACKENDS = pytest.mark.parametrize("backend", ["local", "docker", "ssh"])


class Given(MemoryNode):
    """A node that sees what it was given, and nothing else."""

    def where(self, artifact: Artifact) -> PurePosixPath:
        return PurePosixPath("/there") / artifact.name


@pytest.fixture
def nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with no program in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def own_program(tmp_path: Path) -> Path:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def problems(campaign_file) -> Callable[..., list[str]]:
    """Return a function that lists the problems of a campaign with these clients."""

    def told(*named: str, allowed: tuple[Path, ...] = (), backend: str = "local") -> list[str]:
        cells = {"cells.acks": "all", "cells.min~insync~replicas": 1, "cells.client": list(named)}
        file = check(campaign_file({**cells, "faults": []}))
        campaign = file.campaign.resolved(seed=1, backend=backend)
        found = list(missing_programs(campaign, allowed))
        assert {problem.field for problem in found} <= {"cells.client"}
        return [problem.reason for problem in found]

    return told


def producer(cell: Cell) -> Client:
    load = Load(rate=10, record_bytes=100)
    (client,) = Produce().clients(
        cell,
        load,
        bootstrap_servers="b:1",
        places=[ClientNode(node="client-1", history="history", progress="progress")],
    )
    return client


def cell_of(client: str) -> Cell:
    return Cell(name="a", topic="a", settings={"acks": "all", "client": client})


def test_each_library_has_a_cell_of_its_own(campaign_file) -> None:
    swept = {"cells.acks": "all", "cells.min~insync~replicas": 1, "cells.client": list(LIBRARIES)}
    cells = expand(check(campaign_file({**swept, "faults": []})).campaign.cells)
    named = ["", *(f".client-{one}" for one in LIBRARIES[1:])]
    assert [cell.name for cell in cells] == [f"acks-all.minisr-1{part}" for part in named]
    assert [cell.max_in_flight for cell in cells] == [1_000_000, 5, 1, 1]
    modules = {cell.client: producer(cell).module for cell in cells}
    assert modules.pop("librdkafka") == "ackproof.workloads.producing.producer"
    assert set(modules.values()) == {"ackproof.workloads.foreign.producer"}
    assert {message_timeout_ms(cell) for cell in cells} == {DEFAULTS["delivery.timeout.ms"]}


def test_a_cell_of_ones_own_program_has_a_topic_that_can_be(campaign_file) -> None:
    swept = {"cells.acks": "all", "cells.min~insync~replicas": 1, "cells.client": ["java", "./a b"]}
    _, own = expand(check(campaign_file({**swept, "faults": []})).campaign.cells)
    assert own.client == "./a b"
    assert own.topic == "acks-all-minisr-1-client--a-b"


def test_a_program_is_started_by_our_producer(own_program: Path, tmp_path: Path) -> None:
    written: dict[PurePosixPath, bytes] = {}

    class Node(MemoryNode):
        def write(self, path: PurePosixPath, content: bytes) -> None:
            written[path] = content

    started = clients.start(producer(cell_of(str(own_program))), Node("c", "c"), tmp_path)
    (content,) = written.values()
    assert f'"program": [\n  "{own_program}"\n ]'.encode() in content
    assert f'"library": "{own_program}"'.encode() in content
    assert started.client.library == str(own_program)


@pytest.mark.usefixtures("nothing_built")
def test_librdkafka_needs_no_program(problems) -> None:
    assert problems("librdkafka") == []
    assert problems("librdkafka", backend="docker") == []
    assert producer(cell_of("librdkafka")).library is None


@BACKENDS
@pytest.mark.usefixtures("nothing_built")
@pytest.mark.parametrize("library", ["java", "franz-go"])
def test_unbuilt_client_program_is_refused(problems, library: str, backend: str) -> None:
    reason = f"the program of {library} is not built: make clients"
    assert problems(library, backend=backend) == [reason]
    for ask in (programs.artifact, lambda client: programs.command(client, HERE)):
        with pytest.raises(InfraError, match=f"^{reason}$"):
            ask(library)


@pytest.mark.usefixtures("nothing_built")
def test_java_client_of_another_release_is_a_client_of_its_own(problems, campaign_file) -> None:
    how = f"{Path(sys.executable).name} -m ackproof.infra.clients.builds java:3.9.1"
    reason = f"the program of java:3.9.1 is not built: {how}"
    assert problems("java", "java:3.9.1") == [
        "the program of java is not built: make clients",
        reason,
    ]
    started = producer(cell_of("java:3.9.1"))
    assert (started.library, started.specification["library"]) == ("java:3.9.1", "java")
    assert cell_of("java:3.9.1").max_in_flight == cell_of("java").max_in_flight
    swept = {"cells.acks": "all", "cells.min~insync~replicas": 1, "cells.client": ["java:3.9.1"]}
    check(campaign_file({**swept, "faults": [], "cells.producer": {"send.buffer.bytes": 8192}}))


@pytest.mark.parametrize("client", ["franz-go:1.21.0", "librdkafka:2.3", "java:", "java:4.x"])
def test_release_of_another_client_is_refused(campaign_file, client: str) -> None:
    with pytest.raises(DocumentRefused, match=r"java"):
        check(campaign_file({"cells.client": [client]}))


def test_changed_jar_of_a_release_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest of the first jar of a release is kept, for a fake Maven that makes two."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text('#!/bin/sh\necho "$RANDOM_JAR" > "${5#*=}/kafka-clients-3.9.1.jar"\n')
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:{os.environ['PATH']}")
    cached("clients").mkdir(parents=True)
    for jar in ("first", "first", "second"):
        monkeypatch.setenv("RANDOM_JAR", jar)
        refused = (
            pytest.raises(InfraError, match="has changed") if jar == "second" else nullcontext()
        )
        with refused:
            builds._fetch(tmp_path, "3.9.1")


@BACKENDS
def test_a_campaign_file_alone_starts_no_program(problems, own_program: Path, backend: str) -> None:
    (reason,) = problems(str(own_program), backend=backend)
    assert reason.endswith(f"To allow this: --program {own_program}")
    assert problems(str(own_program), allowed=(own_program,), backend=backend) == []


@BACKENDS
def test_a_program_that_cannot_be_started_is_refused(
    problems, own_program: Path, backend: str
) -> None:
    own_program.chmod(0o644)
    reason = f"{own_program} is not executable: chmod +x"
    assert problems(str(own_program), backend=backend) == [reason]
    own_program.unlink()
    assert problems(str(own_program), backend=backend) == [
        f"the program {own_program} does not exist"
    ]


def test_ones_own_program_is_started_from_where_it_lies_on_the_node(own_program: Path) -> None:
    assert programs.command(str(own_program), HERE) == (str(own_program),)
    (there,) = programs.command(str(own_program), Given("c", "c"))
    assert there.startswith("/there/mine-")
    own_program.write_text("#!/bin/sh\nexit\n")
    assert programs.command(str(own_program), Given("c", "c")) != (there,)


def test_aiokafka_runs_in_the_python_of_any_node() -> None:
    command = programs.command("aiokafka", Given("c", "c"))
    assert command == ("python", "-P", "-m", "ackproof.workloads.foreign.aiokafka_program")
    assert programs.artifact("aiokafka") is None
    assert programs.missing("aiokafka") is None


def test_nodes_are_given_the_programs_of_the_cells_that_are_to_be_run(own_program: Path) -> None:
    clients_of = (str(own_program), "librdkafka", "aiokafka")
    site = BackendContext(cluster=ClusterSpec(), tell=pytest.fail, clients=clients_of)
    assert site.artifacts == [programs.artifact(str(own_program))]
    assert BackendContext(cluster=ClusterSpec(), tell=pytest.fail).artifacts == []


def test_client_programs_are_named_after_their_sources(nothing_built: Path) -> None:
    """Test that an existing build is not repeated; without a compiler a repetition would fail."""
    with pytest.raises(InfraError, match="not built"):
        builds.built("java")
    directory = builds._directory("java")
    assert directory.parent == nothing_built / "ackproof" / "clients"
    directory.mkdir(parents=True)
    (directory / "program.jar").write_bytes(b"")
    assert builds.build("java") == directory
    assert programs.missing("java") is None
    assert builds.main(["java"]) == 0
    for node, there in ((HERE, directory), (Given("c", "c"), Path("/there") / directory.name)):
        java, *_, class_path, main = programs.command("java", node)
        assert (java, class_path, main) == ("java", f"{there}/*", "Program")
    artifact = programs.artifact("java")
    assert artifact is not None
    assert list(artifact.sums) == ["program.jar"]


def test_build_without_a_compiler_names_the_missing_package(
    nothing_built: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert builds.main(["java"]) == 5
    assert capsys.readouterr().out == (
        "java: javac is not in PATH: install a JDK (Debian: apt-get install default-jdk-headless)\n"
    )
    assert not list((nothing_built / "ackproof" / "clients").iterdir())


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_unusable_program_is_refused(
    campaign_file, own_program: Path, tmp_path: Path, dry: tuple[str, ...]
) -> None:
    file = campaign_file({"cells.acks": "all", "cells.client": "librdkafka", "faults": []})
    (tmp_path / "text").write_text("no program")
    for program, words in (
        ("./nope", "nope does not exist"),
        (str(tmp_path), f"the program {tmp_path} does not exist"),
        (str(tmp_path / "text"), "is not executable"),
        (str(own_program), "the campaign has no client"),
    ):
        told = CliRunner().invoke(cli, ["run", str(file), "--program", program, *dry])
        assert told.exit_code == 2
        assert "--program: " in told.stderr
        assert words in told.stderr
        assert len(told.stderr.splitlines()) == 1


def test_program_may_be_named_in_another_way(problems, own_program: Path) -> None:
    (own_program.parent / "sub").mkdir()
    same = own_program.parent / "sub" / ".." / own_program.name
    assert problems(str(own_program), allowed=(same,)) == []


# --- members of groups ----------------------------------------------------------------------------


def group(**given: object) -> dict[str, object]:
    return {"faults": [], "workload.groups": [{"name": "g", "members": 1, **given}]}


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ({"client": "jav"}, "client", "librdkafka, java, aiokafka, franz-go, or the path"),
        (
            {"client": "aiokafka", "consumer": {"group.protocol": "consumer"}},
            "consumer.group.protocol",
            "it knows the classic protocol alone",
        ),
        (
            {"client": "aiokafka", "consumer": {"partition.assignment.strategy": COOPERATIVE}},
            "consumer.partition.assignment.strategy",
            "has no CooperativeStickyAssignor, but RangeAssignor, RoundRobinAssignor",
        ),
        ({"client": "java", "delivery": "auto-commit"}, "consumer", "only librdkafka reports what"),
        (
            {"client": "java", "consumer": {"queued.min.messages": 1}},
            "consumer.queued.min.messages",
            "of java's, these may be set: fetch.max.bytes",
        ),
        (
            {"client": "./mine", "consumer": {"group.id": "x"}},
            "consumer.group.id",
            "may not be set: it is made of the topic",
        ),
        (
            {"client": "java", "consumer": {"partition.assignment.strategy": "range"}},
            "consumer.partition.assignment.strategy",
            "names of classes, such as org.apache.kafka",
        ),
        (
            {
                "client": "java",
                "consumer": {"group.protocol": "consumer", "heartbeat.interval.ms": 1},
            },
            "consumer",
            "heartbeat.interval.ms is for group.protocol: classic",
        ),
        (
            {"client": "franz-go", "consumer": {"group.protocol": "consumer"}},
            "consumer.group.protocol",
            "its program is a member by the classic protocol",
        ),
        (
            {"client": "java", "consumer": {"session.timeout.ms": 1}},
            "consumer",
            "session.timeout.ms",
        ),
    ],
)
def test_group_that_its_client_cannot_have_is_refused(
    campaign_file, given: dict[str, object], field: str, reason: str
) -> None:
    with pytest.raises(DocumentRefused) as refused:
        check(campaign_file(group(**given)))
    (problem,) = refused.value.problems
    assert problem.field == f"workload.groups[0].{field}"
    assert reason in problem.reason


def test_group_of_a_client_that_only_produces_is_refused(campaign_file) -> None:
    name = "only-produces"
    alone = replace(CLIENTS["aiokafka"], name=name, groups=False)
    with CLIENTS.on_trial(alone, name), pytest.raises(DocumentRefused) as refused:
        check(campaign_file(group(client=name)))
    (problem,) = refused.value.problems
    assert f"{name} cannot be a member of a group; those of librdkafka, java" in problem.reason


def test_connection_of_producers_is_not_that_of_a_program(campaign_file) -> None:
    changed = {**group(client="java"), "cells.producer": {"security.protocol": "PLAINTEXT"}}
    with pytest.raises(DocumentRefused) as refused:
        check(campaign_file(changed))
    (problem,) = refused.value.problems
    assert problem.reason == "java does not receive cells.producer.security.protocol"


def test_program_of_a_group_must_be_allowed(campaign_file, own_program: Path) -> None:
    file = check(campaign_file(group(client=str(own_program))))
    campaign = file.campaign.resolved(seed=1, backend="local")
    (problem,) = missing_programs(campaign, ())
    assert problem.field == "workload.groups[0].client"
    assert "--program" in problem.reason
    assert not list(missing_programs(campaign, (own_program,)))
    assert runs_of(campaign)[0].clients == ("librdkafka", str(own_program))


def test_member_starts_its_program() -> None:
    load = Load(
        rate=10,
        record_bytes=100,
        groups=(Group(name="g", members=1, delivery=Delivery.AT_LEAST_ONCE, client="java"),),
    )
    _, member = Produce().clients(
        cell_of("librdkafka"),
        load,
        bootstrap_servers="b:1",
        places=[ClientNode(node="client-1", history="history", progress="progress")],
    )
    assert (member.module, member.library) == ("ackproof.workloads.foreign.member", "java")
    specification = {**member.specification, "program": ["java"]}
    assert ForeignMemberSpec.model_validate(specification, strict=False).group == "a-g"
