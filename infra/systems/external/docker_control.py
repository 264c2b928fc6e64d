"""Containers of somebody else's cluster, by the hands of its Docker Engine."""

from collections.abc import Callable, Mapping
from contextlib import closing

import docker
from docker.errors import DockerException
from docker.models.containers import Container

from ackproof.infra.api.interface import InfraError
from ackproof.infra.systems.external.description import Action, Handle

_PROJECT, _SERVICE = "com.docker.compose.project", "com.docker.compose.service"

_DO: Mapping[Action, Callable[[Container], object]] = {
    Action.STOP: Container.stop,
    Action.START: Container.start,
    Action.KILL: Container.kill,
    Action.PAUSE: Container.pause,
    Action.RESUME: Container.unpause,
}


def by_engine(handle: Handle, action: Action, within_s: int) -> None:
    """Do it to the container that ``handle`` names. Raises InfraError when that failed."""
    try:
        # An empty environment it takes for ours.
        client = docker.from_env(timeout=within_s, environment=dict(handle.engine) or None)
        with closing(client):
            _DO[action](_container(client, handle))
    except DockerException as error:
        raise InfraError(f"{handle.words(action)}: {error}") from error


def _container(client: docker.DockerClient, handle: Handle) -> Container:
    if handle.container is not None:
        return client.containers.get(handle.container)
    project, _, service = (handle.compose or "").partition("/")
    labels = [f"{_PROJECT}={project}", f"{_SERVICE}={service}"]
    found = client.containers.list(all=True, filters={"label": labels})
    if len(found) != 1:
        raise InfraError(f"{handle.compose}: {len(found)} containers, and one is meant")
    return found[0]
