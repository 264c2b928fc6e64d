"""Control of external containers, as Docker Compose starts and labels them."""

import io
import tarfile
import uuid
from collections.abc import Iterator

import docker
import pytest
from docker.models.containers import Container

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.docker.engine import IMAGE, connected
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.external.control import carry_out
from ackproof.infra.systems.external.description import Action, BrokerControl
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.docker

NAMES = ("bin", "lib", "lib64", "sbin", "usr")
"""What a program of this machine needs of it in order to run."""
SERVES = ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    with connected() as client:
        yield client


@pytest.fixture
def image(client: docker.DockerClient) -> Iterator[str]:
    """Nothing but the way to this machine's programs, which containers are given to look at."""
    files = io.BytesIO()
    with tarfile.open(fileobj=files, mode="w") as tar:
        for name in NAMES:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"host/{name}"
            tar.addfile(link)
    name = f"ackproof-test:{uuid.uuid4().hex[:8]}"
    repository, _, tag = name.partition(":")
    client.api.import_image_from_data(
        files.getvalue(), repository=repository, tag=tag, changes=[f"LABEL {IMAGE}=test"]
    )
    yield name
    client.images.remove(name)


@pytest.fixture
def project(client: docker.DockerClient, image: str) -> Iterator[str]:
    """Start a Compose project with the services ``kafka-1`` and ``kafka-2``, and two containers of
    the latter, as after ``--scale``."""
    project = f"yours-{uuid.uuid4().hex[:8]}"
    made = [
        client.containers.run(
            image,
            SERVES,
            name=f"{project}-{service}-{number}",
            labels={
                "com.docker.compose.project": project,
                "com.docker.compose.service": service,
            },
            volumes={"/": {"bind": "/host", "mode": "ro"}},
            network_mode="none",
            detach=True,
        )
        for service, number in (("kafka-1", 1), ("kafka-2", 1), ("kafka-2", 2))
    ]
    yield project
    for container in made:
        container.remove(force=True)


@pytest.mark.parametrize("by", ["compose", "container"])
def test_a_service_is_stopped_and_started_by_its_name(client, project: str, by: str) -> None:
    name = f"{project}-kafka-1-1"
    handle = (
        BrokerControl(compose=f"{project}/kafka-1")
        if by == "compose"
        else BrokerControl(container=name)
    )
    mine: Container = client.containers.get(name)
    others = [client.containers.get(f"{project}-kafka-2-{n}") for n in (1, 2)]

    def becomes(status: str) -> None:
        def there() -> bool:
            mine.reload()
            return bool(mine.status == status)

        wait_until(there, PATIENCE_S, f"{name} to be {status}")

    becomes("running")
    for action, status in (
        (Action.PAUSE, "paused"),
        (Action.RESUME, "running"),
        (Action.KILL, "exited"),
        (Action.START, "running"),
        (Action.STOP, "exited"),
        (Action.START, "running"),
    ):
        carry_out(handle, action)
        becomes(status)
    for other in others:
        other.reload()
        assert other.status == "running"
        assert other.attrs["RestartCount"] == 0


def test_of_several_containers_none_is_touched(client, project: str) -> None:
    for service, found in (("kafka-2", 2), ("kafka-3", 0)):
        with pytest.raises(
            InfraError, match=f"{found} containers match, but exactly one is needed"
        ):
            carry_out(BrokerControl(compose=f"{project}/{service}"), Action.KILL)
    both = [client.containers.get(f"{project}-kafka-2-{n}") for n in (1, 2)]
    assert [container.status for container in both] == ["running", "running"]
