"""A base image without a registry: ``python -m infra.docker.base``.

debootstrap makes a minimal Debian (as root; a few hundred MB are fetched from Debian's mirror),
which is imported into the engine. Nothing is done when the image is there already.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import docker
from docker.errors import ImageNotFound

from infra.docker.engine import IMAGE, connected
from infra.interface import InfraError

RELEASE = "bookworm"
BASE_IMAGE = f"ackproof-base:{RELEASE}"
_MIRROR = "http://deb.debian.org/debian"


def make_base(client: docker.DockerClient) -> None:
    """Make ``BASE_IMAGE`` unless it is there. Raises InfraError where debootstrap fails."""
    try:
        client.images.get(BASE_IMAGE)
    except ImageNotFound:
        with tempfile.TemporaryDirectory(prefix="ackproof-base-") as directory:
            _import(client, _debootstrap(Path(directory)))


def _debootstrap(directory: Path) -> Path:
    """A tar archive of the system, below ``directory``."""
    archive = directory / "base.tar"
    _run("debootstrap", "--variant=minbase", RELEASE, str(directory / "root"), _MIRROR)
    _run("tar", "--create", f"--file={archive}", f"--directory={directory / 'root'}", ".")
    return archive


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.CalledProcessError) as error:
        raise InfraError(f"cannot make {BASE_IMAGE}: {error}") from error


def _import(client: docker.DockerClient, archive: Path) -> None:
    repository, _, tag = BASE_IMAGE.partition(":")
    with archive.open("rb") as content:
        client.api.import_image_from_data(
            content, repository=repository, tag=tag, changes=[f"LABEL {IMAGE}={BASE_IMAGE}"]
        )


def main() -> None:
    """Make it, or say why not."""
    try:
        with connected(timeout_s=600) as client:
            make_base(client)
    except InfraError as error:
        sys.exit(f"ackproof: {error}")


if __name__ == "__main__":
    main()
