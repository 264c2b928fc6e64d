"""The image of a node: built when its sources, or its base, are new.

Its tag is a hash of all of them, so an image that exists already is the right one. As a program
(``python -m ackproof.infra.backends.docker.image [BASE]``) the module builds the image and prints
its name.
"""

import hashlib
import io
import os
import ssl
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import docker

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.docker.base import OUR_BASE, PUBLIC_BASE, present, pull
from ackproof.infra.backends.docker.engine import IMAGE, connected, print_line

BASE = "ACKPROOF_DOCKER_BASE"
"""The environment variable that names the base image."""

PROJECT = Path(__file__).parents[4]
REPOSITORY = "ackproof-node"
_DOCKERFILE = "ackproof/infra/backends/docker/Dockerfile"
_FILES = ("pyproject.toml", "constraints.txt", "ackproof/__init__.py", _DOCKERFILE)
_ROOMS = tuple(
    f"ackproof/{room}" for room in ("broker", "history", "infra/agent", "plugins", "workloads")
)
_CA_BUNDLE = "ca-bundle.crt"
_LINE_MAX = 100
_TOLD = ("Step ", "Setting up openjdk", "Collecting ", "Installing collected packages")
"""The beginnings of those lines of a build that are passed on."""

Files = Sequence[tuple[str, bytes]]
"""Names and contents."""


def ensure_image(
    client: docker.DockerClient,
    progress: Callable[[str], None],
    base: str | None = None,
    project: Path = PROJECT,
) -> str:
    """Return the name of the image, and build it if it does not exist.

    Args:
        progress: Gets the output line by line while the base is pulled and the image built.
        base: A Debian image. The default is that of the environment variable BASE, else the one of
            ``make docker-base`` if it exists, else Debian's from the registry.
        project: The directory of the sources.

    Raises InfraError with the engine's last messages if it cannot be built.
    """
    base = base or default_base(client)
    files = list(sources(project))
    name = f"{REPOSITORY}:{_digest(base, files)}"
    if not present(client, name):
        if not present(client, base):
            _pull(client, base, progress)
        build(client, base, name, _DOCKERFILE, files, progress)
    return name


def _pull(client: docker.DockerClient, base: str, progress: Callable[[str], None]) -> None:
    try:
        pull(client, base, progress)
    except InfraError as error:
        raise InfraError(
            f"{error}; without a registry: make docker-base, or name another Debian image in {BASE}"
        ) from error


def default_base(client: docker.DockerClient) -> str:
    """Return the base that the environment variable BASE names.

    Without it, return the project's own if the engine has it, else Debian's.
    """
    named = os.environ.get(BASE)
    return named or (OUR_BASE if present(client, OUR_BASE) else PUBLIC_BASE)


def build(
    client: docker.DockerClient,
    base: str,
    name: str,
    dockerfile: str,
    files: Files,
    progress: Callable[[str], None],
) -> None:
    """Build an image of these files, with the certificates that this machine trusts beside them.

    Raises InfraError with the engine's last messages.
    """
    progress(f"building {name} from {base}; minutes the first time, seconds after a code change")
    events = client.api.build(
        fileobj=io.BytesIO(_tar([*files, *_ca_bundle()])),
        custom_context=True,
        dockerfile=dockerfile,
        tag=name,
        buildargs={"BASE": base},
        labels={IMAGE: name},
        network_mode="host",  # networks of containers may not reach the package registries
        rm=True,
        forcerm=True,
        decode=True,
    )
    for event in events:
        if "error" in event:
            raise InfraError(f"cannot build {name}: {event['error'].strip()}")
        for line in event.get("stream", "").splitlines():
            if line.startswith(_TOLD):
                progress(line[:_LINE_MAX])
    progress(f"built {name}")


def _digest(base: str, files: Files) -> str:
    return hashlib.sha256(base.encode() + b"\0" + _tar(files)).hexdigest()[:12]


def sources(project: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the image, name and content."""
    found = [project / name for name in _FILES]
    for room in _ROOMS:
        found += (project / room).rglob("*.py")
    for path in sorted(found):
        yield str(path.relative_to(project)), path.read_bytes()


def _ca_bundle() -> Iterator[tuple[str, bytes]]:
    """Yield the certificates that this machine trusts: packages may come through its proxy."""
    bundle = os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile
    if bundle and Path(bundle).is_file():
        yield _CA_BUNDLE, Path(bundle).read_bytes()


def _tar(files: Files) -> bytes:
    """Return the same bytes for the same files, whenever they were written."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def main() -> None:
    """Build the image, and report it on standard output."""
    base = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] else None
    try:
        with connected(timeout_s=1800) as client:
            name = ensure_image(client, print_line, base)
    except InfraError as error:
        sys.exit(f"ackproof: {error}")
    print_line(name)


if __name__ == "__main__":
    main()
