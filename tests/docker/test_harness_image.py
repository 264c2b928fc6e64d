"""The container image of the harness: a campaign in it, and one against the Compose cluster."""

import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import docker
import pytest

from ackproof.infra.backends.docker.engine import IMAGE, connected
from ackproof.infra.backends.docker.image import PROJECT, ensure_harness_image
from ackproof.infra.systems.kafka.jars import fetch, jars_of
from ackproof.infra.systems.kafka.releases import released

pytestmark = pytest.mark.docker

KAFKA = "4.1.1"
KAFKA_IMAGE = f"ackproof-test-kafka:{KAFKA}"
TIMEOUT_S = 1_200


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    with connected(timeout_s=TIMEOUT_S) as client:
        yield client


@pytest.fixture(scope="module")
def image(client: docker.DockerClient) -> str:
    return ensure_harness_image(client, print)


def verdicts(results: Path) -> list[str]:
    """Return the verdict of each result directory that has a report; ``latest`` is a link."""
    return [
        json.loads(path.with_name("verdict.json").read_text())["verdict"]
        for path in results.glob("*/report.html")
        if not path.parent.is_symlink()
    ]


RIGHTS = {
    "privileged": {"privileged": True},
    "capabilities": {
        "cap_add": ["NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE", "SYS_NICE"],
        "security_opt": ["seccomp=unconfined", "apparmor=unconfined"],
    },
}


@pytest.mark.parametrize("rights", RIGHTS.values(), ids=list(RIGHTS))
def test_quick_campaign_passes_in_a_container(client, image, tmp_path: Path, rights) -> None:
    results = {str(tmp_path): {"bind": "/work/results", "mode": "rw"}}
    command = ["run", "quick", "--seed", "1"]
    container = client.containers.create(image, command, volumes=results, **rights)
    try:
        container.start()
        status = container.wait(timeout=TIMEOUT_S)["StatusCode"]
        said = container.logs().decode()
    except docker.errors.APIError as refused:
        if "unable to apply caps" in str(refused):
            pytest.skip("this engine has not every capability itself, and so gives none away")
        raise
    finally:
        container.remove(force=True)
    assert (status, verdicts(tmp_path)) == (0, ["pass"]), said


def test_unprivileged_container_names_the_missing_privilege(client, image) -> None:
    with pytest.raises(docker.errors.ContainerError) as refused:
        client.containers.run(image, ["run", "quick", "--yes"], remove=True, stderr=True)
    assert refused.value.exit_status == 5
    assert b"privileged" in refused.value.stderr
    assert b"Traceback" not in refused.value.stderr


@pytest.fixture(scope="module")
def kafka_image(client: docker.DockerClient, image: str) -> Iterator[str]:
    """An image with Apache Kafka in /opt/kafka, as the published one has it."""
    release = released(KAFKA)
    fetch(release, print)
    jars = jars_of(release)
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        recipe = f"FROM {image}\nCOPY libs /opt/kafka/libs\n".encode()
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(recipe)
        archive.addfile(member, io.BytesIO(recipe))
        for name in jars.sums:
            archive.add(jars.path / name, f"libs/{name}")
    context.seek(0)
    client.images.build(
        fileobj=context, custom_context=True, tag=KAFKA_IMAGE, rm=True, labels={IMAGE: "test"}
    )
    yield KAFKA_IMAGE
    client.images.remove(KAFKA_IMAGE, force=True)


@pytest.fixture
def compose(tmp_path: Path, image: str, kafka_image: str) -> Iterator[Callable[..., str]]:
    """Call Docker Compose on the project's file in a directory of its own."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if plugin.returncode:
        need = str(PROJECT / "infra" / "need.sh")
        subprocess.run([need, "docker-compose", "which", "docker-compose"], check=True)
    command = ["docker-compose"] if plugin.returncode else ["docker", "compose"]
    shutil.copy(PROJECT / "docker-compose.yml", tmp_path)

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [*command, *arguments],
            cwd=tmp_path,
            env={**os.environ, "KAFKA_IMAGE": kafka_image, "ACKPROOF_IMAGE": image},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    yield call
    call("down", "--volumes")


def commands_of(file: Path) -> Sequence[Sequence[str]]:
    """Return the Compose commands that the head of the file gives."""
    prefix = "#     docker compose "
    lines = file.read_text().splitlines()
    return [line.removeprefix(prefix).split() for line in lines if line.startswith(prefix)]


@pytest.mark.kafka
def test_compose_cluster_is_tested_as_its_file_says(compose, tmp_path: Path) -> None:
    up, run, down = commands_of(PROJECT / "docker-compose.yml")
    compose(*up)
    compose(*run)
    assert verdicts(tmp_path / "results") == ["pass"]
    compose(*down)
