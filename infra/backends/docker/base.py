"""The base of the image: Debian's, from the registry, or made here if no registry is reachable.

``python -m ackproof.infra.backends.docker.base`` makes sure that there is one. debootstrap makes a
minimal Debian (as root; some 100 MB are fetched from Debian's mirror), which is imported into the
engine.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import docker
from docker.errors import DockerException, ImageNotFound

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.docker.engine import IMAGE, connected, print_line

_RELEASE = "bookworm"
PUBLIC_BASE = f"debian:{_RELEASE}-slim"
OUR_BASE = f"ackproof-base:{_RELEASE}"
_MIRROR = "http://deb.debian.org/debian"
_NEED = str(Path(__file__).parents[2] / "need.sh")


def present(client: docker.DockerClient, name: str) -> bool:
    """Return whether the engine has the image."""
    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def pull(client: docker.DockerClient, name: str, progress: Callable[[str], None]) -> None:
    """Fetch an image from its registry. Raises InfraError."""
    progress(f"pulling {name}")
    repository, _, tag = name.partition(":")
    try:
        for event in client.api.pull(repository, tag=tag or "latest", stream=True, decode=True):
            if "error" in event:
                raise InfraError(event["error"])
            progress(" ".join(event[key] for key in ("id", "status", "progress") if key in event))
    except (DockerException, InfraError) as error:
        raise InfraError(f"cannot pull {name}: {error}") from error


def make(client: docker.DockerClient) -> None:
    """Make OUR_BASE. Raises InfraError if debootstrap is not available, or fails."""
    with tempfile.TemporaryDirectory(prefix="ackproof-base-") as directory:
        root, archive = Path(directory, "root"), Path(directory, "base.tar")
        _run(_NEED, "debootstrap", "which", "debootstrap")
        _run("debootstrap", "--variant=minbase", _RELEASE, str(root), _MIRROR)
        _run("tar", "--create", f"--file={archive}", f"--directory={root}", ".")
        repository, _, tag = OUR_BASE.partition(":")
        client.api.import_image_from_file(
            str(archive), repository=repository, tag=tag, changes=[f"LABEL {IMAGE}={OUR_BASE}"]
        )


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.CalledProcessError) as error:
        raise InfraError(f"cannot make {OUR_BASE}: {error}") from error


def ensure_base(client: docker.DockerClient, progress: Callable[[str], None]) -> None:
    """Make sure that there is a base image. Raises InfraError if none can be had."""
    if present(client, OUR_BASE) or present(client, PUBLIC_BASE):
        return
    try:
        pull(client, PUBLIC_BASE, progress)
    except InfraError as error:
        progress(f"{error}; making {OUR_BASE} with debootstrap")
        make(client)


def main() -> None:
    """Make sure that there is a base image, or exit with the reason."""
    try:
        with connected(timeout_s=600) as client:
            ensure_base(client, print_line)
    except InfraError as error:
        sys.exit(f"ackproof: {error}")


if __name__ == "__main__":
    main()
