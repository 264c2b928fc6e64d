"""Apache Kafka's jars out of images that a Docker Engine has."""

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import docker
import pytest

from ackproof.infra.backends.docker.cleanup import clean
from ackproof.infra.backends.docker.engine import connected
from ackproof.infra.systems import parse
from ackproof.infra.systems.kafka.images import taken
from tests.support.backends.containers import owned_things

pytestmark = pytest.mark.docker

JARS = ("kafka-clients-3.9.1.jar", "kafka_2.13-3.9.1.jar", "zstd.jar")
Build = Callable[[Mapping[str, bytes]], str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ackproof" / "images"


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    with connected() as client:
        yield client


@pytest.fixture
def build(client: docker.DockerClient) -> Iterator[Build]:
    """Makes an image, always by the same name, of these files."""
    name = "ackproof-test-kafka:1.0"
    made = []

    def build(files: Mapping[str, bytes]) -> str:
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as archive:
            for path, content in {"Dockerfile": b"FROM scratch\nCOPY root /\n", **files}.items():
                info = tarfile.TarInfo(path)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        context.seek(0)
        image, _ = client.images.build(fileobj=context, custom_context=True, tag=name, rm=True)
        made.append(image.id)
        return name

    yield build
    for image in made:
        client.images.remove(image, force=True)


def kafka(directory: str, content: bytes = b"") -> dict[str, bytes]:
    return {f"root{directory}/{jar}": content for jar in JARS}


@pytest.mark.parametrize("directory", ["/opt/kafka/libs", "/srv/somewhere/libs"])
def test_its_jars_are_taken_once(build: Build, client, cache: Path, directory: str) -> None:
    before = owned_things()
    name = build(kafka(directory, b"jar"))
    found = parse(f"kafka:image:{name}")
    digest = client.images.get(name).id
    assert found.text == f"kafka:image:{name}@{digest}"
    assert found.release.version == "3.9.1"
    libs = found.release.directory
    assert libs is not None
    assert {jar.name: jar.read_bytes() for jar in libs.iterdir()} == dict.fromkeys(JARS, b"jar")
    (libs / "zstd.jar").write_bytes(b"left alone")
    assert parse(found.text) == parse(f"kafka:image:{name}") == found
    assert (libs / "zstd.jar").read_bytes() == b"left alone"
    assert owned_things() == before
    assert {one.name for one in cache.iterdir() if one.is_dir()} == {digest.replace(":", "-")}


def test_without_the_engine_a_name_is_the_image_that_it_was_last(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = build(kafka("/opt/kafka/libs", b"first"))
    first = taken(name)
    build(kafka("/opt/kafka/libs", b"second"))
    second = taken(name)
    assert second.directory != first.directory
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/missing")
    assert taken(name) == second
    assert taken(first.name) == first


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"root/etc/motd": b""}, r"not Apache Kafka: .*neither in /opt/kafka/libs"),
        (kafka("/a") | kafka("/b"), "2 directories"),
        (
            kafka("/opt/kafka/libs") | {"root/opt/kafka/libs/kafka_2.12-3.9.0.jar": b""},
            "2 jars in .* are Kafka's broker",
        ),
    ],
)
def test_image_without_kafka_leaves_nothing_behind(
    build: Build, cache: Path, files: Mapping[str, bytes], says: str
) -> None:
    before = owned_things()
    with pytest.raises(ValueError, match=f"^the image ackproof-test-kafka:1.0.*{says}"):
        taken(build(files))
    assert list(cache.glob("*")) == []
    assert owned_things() == before


def test_an_image_that_is_not_there_is_not_pulled() -> None:
    says = "has no image ackproof-test-none:1: docker pull ackproof-test-none:1"
    with pytest.raises(ValueError, match=says):
        taken("ackproof-test-none:1")


KILLED = """
import os
from ackproof.infra.backends.docker.engine import connected, owned
with connected() as client:
    print(client.containers.create("ackproof-test-kafka:1.0", ["never"], labels=owned()).name)
os.kill(os.getpid(), 9)
"""


def test_leftovers_of_a_killed_process_are_removed(build: Build) -> None:
    build(kafka("/opt/kafka/libs"))
    command = [sys.executable, "-c", KILLED]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    name = killed.stdout.strip()
    assert name in owned_things(dead=True), killed.stderr
    told: list[str] = []
    assert clean(told.append)
    assert f"container {name}: removed" in told
