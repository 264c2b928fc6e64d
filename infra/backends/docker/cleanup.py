"""Removal of what runs left in the engine: found by label, whatever made it and however that ended.

``python -m ackproof.infra.backends.docker.cleanup`` also removes the images. Otherwise they are
kept, since they belong to no run, and take minutes to make.
"""

import sys
from collections.abc import Callable, Iterator
from http import HTTPStatus

import docker
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.models.networks import Network

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.docker.engine import IMAGE, OWNER, connected, owner, unavailable
from ackproof.infra.machine.waiting import wait_until

REMOVED_S = 60.0
"""The time limit for a container that another process is removing, in seconds."""


def clean(report: Callable[[str], None]) -> bool:
    """Remove the containers and networks whose owner is dead.

    Nothing is done without an engine.

    Args:
        report: Gets a line for each thing that was removed or could not be.

    Return whether everything that must go is gone.
    """
    if unavailable() is not None:
        return True
    with connected() as client:
        things = [*_things(client)]
        # Each owner is checked once, when all is listed. If it died in between, its network would
        # be removed, and its containers, which were found alive, would not.
        dead = {owned for owned in map(_owned, things) if _is_dead(owned)}
        removed = [_remove(thing, report) for thing in things if _owned(thing) in dead]
    return all(removed)


def remove_images(report: Callable[[str], None]) -> bool:
    """Remove every image that was made here and that no container uses.

    The argument and result are those of :func:`clean`. Raises InfraError without an engine.
    """
    with connected() as client:
        removed = [_remove_image(client, image, report) for image in _images(client)]
    return all(removed)


def _things(client: docker.DockerClient) -> Iterator[Container | Network]:
    """Yield containers and networks, containers first: a network can only be removed without
    members."""
    networks = client.networks.list(filters={"label": OWNER})
    yield from client.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True)
    yield from networks


def _owned(thing: Container | Network) -> str:
    """Return the label that names the owner."""
    labels = thing.labels if isinstance(thing, Container) else thing.attrs["Labels"]
    return str(labels[OWNER])


def _is_dead(owned: str) -> bool:
    try:
        return not owner({OWNER: owned}).lives()
    except InfraError:  # then it cannot be known to be alive
        return True


def _remove(thing: Container | Network, report: Callable[[str], None]) -> bool:
    kind = "container" if isinstance(thing, Container) else "network"
    try:
        if isinstance(thing, Container):
            thing.remove(force=True, v=True)
        else:
            thing.remove()
    except NotFound:  # its run has removed it
        return True
    except APIError as error:
        if error.status_code == HTTPStatus.CONFLICT and _vanishes(thing):
            return True
        report(f"{kind} {thing.name}: {error.explanation}")
        return False
    report(f"{kind} {thing.name}: removed")
    return True


def _images(client: docker.DockerClient) -> list[str]:
    found = client.api.images(filters={"label": IMAGE}, all=False)
    return [image["Id"] for image in found]


def _vanishes(thing: Container | Network) -> bool:
    """Return whether another process is removing it, and succeeds, as in two cleanups at once."""

    def gone() -> bool:
        try:
            thing.reload()
        except NotFound:
            return True
        return False

    try:
        wait_until(gone, REMOVED_S, f"{thing.name} to be removed", interval=0.1)
    except TimeoutError:
        return False
    return True


def _remove_image(client: docker.DockerClient, image: str, report: Callable[[str], None]) -> bool:
    try:
        client.images.remove(image, force=True)
    except NotFound:  # removed together with an image that was made from it
        return True
    except APIError as error:
        report(f"image {image}: {error.explanation}")
        return False
    report(f"image {image}: removed")
    return True


def main() -> bool:
    """Remove what dead runs left, and the images."""

    def tell(line: str) -> None:
        sys.stdout.write(f"{line}\n")

    cleaned = clean(tell)
    return remove_images(tell) and cleaned


if __name__ == "__main__":
    sys.exit(not main())
