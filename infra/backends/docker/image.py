"""Images: the base, the image of a node on it, and the image of the harness itself.

The base is Debian's, from the registry. If no registry is reachable, it is made here: debootstrap
makes a minimal Debian (as root; some 100 MB are fetched from Debian's mirror), which is imported
into the engine.

The image of a node is built when its sources, or its base, are new. Its tag is a hash of all of
them, so an image that exists already is the right one.

``python -P -m ackproof.infra.backends.docker.image base | node [BASE] | harness [BASE]`` makes one
and prints its name.
"""

import hashlib
import io
import os
import ssl
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import docker
from docker.errors import DockerException, ImageNotFound

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.docker.engine import IMAGE, connected, print_line

# --- the base -------------------------------------------------------------------------------------

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


def make_base(client: docker.DockerClient) -> None:
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


def ensure_base(client: docker.DockerClient, progress: Callable[[str], None]) -> str:
    """Return the name of the base, and make it if there is none. Raises InfraError if none can be
    had."""
    for name in (OUR_BASE, PUBLIC_BASE):
        if present(client, name):
            return name
    try:
        pull(client, PUBLIC_BASE, progress)
    except InfraError as error:
        progress(f"{error}; making {OUR_BASE} with debootstrap")
        make_base(client)
        return OUR_BASE
    return PUBLIC_BASE


# --- the image of a node --------------------------------------------------------------------------

BASE = "ACKPROOF_DOCKER_BASE"
"""The environment variable that names the base image."""

PROJECT = Path(__file__).parents[4]
REPOSITORY = "ackproof-node"
_DOCKERFILE = "ackproof/infra/backends/docker/Dockerfile"
_FILES = ("pyproject.toml", "constraints.txt", _DOCKERFILE)
_TOP = "ackproof/__init__.py"
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
    """Yield the files of the image, name and content. ``project`` must be a checkout."""
    own = ((name, (project / name).read_bytes()) for name in _FILES)
    yield from sorted([*own, *modules(project)])


def modules(project: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the Python modules among the files of the image, which an installation also has."""
    found = [project / _TOP]
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


# --- the image of the harness ---------------------------------------------------------------------

HARNESS_IMAGE = "ackproof:latest"
_HARNESS_FILES = (
    *("Dockerfile", "LICENSE", "README.md", "constraints.txt", "pyproject.toml"),
    *("ackproof/__init__.py", "ackproof/py.typed"),
)


def ensure_harness_image(
    client: docker.DockerClient, progress: Callable[[str], None], base: str | None = None
) -> str:
    """Build the image of the harness, and return its name. The engine keeps the layers that
    have not changed.

    It is what ``docker build -t ackproof .`` makes in the root of a checkout. In addition, it uses
    the base that ``make docker-base`` made, and the certificates that this machine trusts.

    Args:
        progress: Gets the output line by line while the image is built.
        base: A Debian image; by default as for the image of a node.

    Raises InfraError with the engine's last messages if it cannot be built.
    """
    ensure_base(client, progress)
    files = list(_harness_sources(PROJECT))
    build(client, base or default_base(client), HARNESS_IMAGE, "Dockerfile", files, progress)
    return HARNESS_IMAGE


def _harness_sources(project: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file that the Dockerfile copies."""
    for name in _HARNESS_FILES:
        yield name, (project / name).read_bytes()
    rooms = sorted(link.name for link in (project / "ackproof").iterdir() if link.is_symlink())
    for room in rooms:
        for path in sorted((project / room).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(project)), path.read_bytes()


# --- the program ----------------------------------------------------------------------------------


@click.command()
@click.argument("image", type=click.Choice(["base", "node", "harness"]))
@click.argument("base", required=False, default=None)
def main(image: str, base: str | None) -> None:
    """Make IMAGE, on the Debian image BASE if one is named, and print its name."""
    try:
        with connected(timeout_s=1800) as client:
            if image == "base":
                name = ensure_base(client, print_line)
            elif image == "node":
                name = ensure_image(client, print_line, base)
            else:
                name = ensure_harness_image(client, print_line, base)
    except InfraError as error:
        sys.exit(f"ackproof: {error}")
    print_line(name)


if __name__ == "__main__":
    main()
