"""The image: what is in it, and when it is built."""

import re
from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path

import pytest

from ackproof.infra.api.artifacts import Artifact, program
from ackproof.infra.api.interface import Command, InfraError
from ackproof.infra.backends.docker.backend import DockerBackend
from ackproof.infra.backends.docker.engine import IMAGE, connected
from ackproof.infra.backends.docker.image import BASE, PROJECT, ensure_image, sources
from ackproof.infra.machine.software import zookeeper_jars
from tests.support.backends.containers import owned_things

DOCKERFILE = PROJECT / "infra" / "backends" / "docker" / "Dockerfile"


def test_the_image_keeps_every_jar_that_zookeeper_needs() -> None:
    kept = re.findall(r"-name '([^']+)'", DOCKERFILE.read_text())
    assert kept
    for jar in zookeeper_jars():
        assert any(fnmatch(jar.name, pattern) for pattern in kept), jar.name


@pytest.mark.docker
def test_existing_image_is_not_built_again(tmp_path: Path) -> None:
    """Built from a copy of the sources, which do not change between the two."""
    project = tmp_path / "project"
    for name, content in sources(PROJECT):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(content)
    with connected() as client:
        told: list[str] = []
        name = ensure_image(client, told.append, project=project)
        del told[:]
        assert ensure_image(client, told.append, project=project) == name
        assert told == []
        assert client.images.get(name).labels[IMAGE] == name


@pytest.mark.docker
def test_a_base_that_is_not_to_be_had_is_named() -> None:
    told: list[str] = []
    with connected() as client, pytest.raises(InfraError, match=f"make docker-base.*{BASE}"):
        ensure_image(client, told.append, base="127.0.0.1:1/nothing:there")
    assert told[0] == "pulling 127.0.0.1:1/nothing:there"


@pytest.mark.docker
def test_an_image_that_does_not_build_says_why() -> None:
    """The base is no Debian: an image of the engine without a single program."""
    with connected() as client:
        empty = client.api.import_image_from_data(
            bytes(1024), repository="ackproof-test", tag="empty", changes=[f"LABEL {IMAGE}=test"]
        )
        assert empty
        try:
            with pytest.raises(InfraError, match="cannot build ackproof-node:"):
                ensure_image(client, lambda _line: None, base="ackproof-test:empty")
        finally:
            client.images.remove("ackproof-test:empty", force=True)


@pytest.mark.docker
def test_a_backend_that_cannot_be_made_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = owned_things()
    monkeypatch.setenv(BASE, "127.0.0.1:1/nothing:there")
    with pytest.raises(InfraError, match="cannot pull"):
        DockerBackend()
    assert owned_things() == before


@pytest.mark.docker
def test_jars_are_seen_and_cannot_be_changed(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(b"content")
    jars = Artifact(name="kafka-1", title="Apache Kafka 1", path=tmp_path, sums={"a.jar": ""})
    other = Artifact(name="kafka-2", title="Apache Kafka 2", path=tmp_path, sums={})
    with closing(DockerBackend(artifacts=[jars])) as backend:
        node = backend.node("a")
        there = node.where(jars)
        assert node.read(there / "a.jar") == b"content"
        with pytest.raises(InfraError, match="a did not receive Apache Kafka 2"):
            node.where(other)
        for change in (["rm", f"{there}/a.jar"], ["touch", f"{there}/b.jar"]):
            assert node.start(Command(name="changes", argv=change)).wait(10) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.jar"]


@pytest.mark.docker
def test_programs_run_on_containers_and_cannot_be_changed(tmp_path: Path) -> None:
    """Test that the container sees only the program of a directory, which may be a home
    directory."""
    mine = tmp_path / "mine"
    mine.write_text("#!/bin/sh\necho ready\n")
    mine.chmod(0o755)
    (tmp_path / "beside").touch()
    artifact = program(mine, mine.name, "the program mine")
    with closing(DockerBackend(artifacts=[artifact])) as backend:
        node = backend.node("a")
        there = node.where(artifact)
        assert node.start(Command(name="mine", argv=[str(there)])).wait(10) == 0
        assert node.read(node.log_directory / "mine.log") == b"ready\n"
        assert node.start(Command(name="changes", argv=["sh", "-c", f"echo > {there}"])).wait(10)
        assert node.start(Command(name="beside", argv=["ls", f"{there.parent}/beside"])).wait(10)
    assert mine.read_text() == "#!/bin/sh\necho ready\n"


@pytest.mark.docker
def test_nothing_but_its_shared_directory_is_shared(tmp_path: Path) -> None:
    backend = DockerBackend(tmp_path / "results")
    try:
        node = backend.node("a")
        assert str(node.share(tmp_path / "results" / "1")) == str(tmp_path / "results" / "1")
        with pytest.raises(InfraError, match=f"does not see {tmp_path}"):
            node.share(tmp_path)
        show = Command(name="show", argv=["cat", "/proc/net/if_inet6"])
        assert node.start(show).wait(10) in (0, 1)
        assert b"eth0" not in node.read(node.log_directory / "show.log"), "no IPv6 beside a cut"
    finally:
        backend.close()
