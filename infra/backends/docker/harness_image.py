"""The image of the harness: ``python -P -m ackproof.infra.backends.docker.harness_image [BASE]``.

It is what ``docker build -t ackproof .`` makes in the root of a checkout. In addition, it uses the
base that ``make docker-base`` made, and the certificates that this machine trusts.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import docker

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.docker.base import ensure_base
from ackproof.infra.backends.docker.engine import connected, print_line
from ackproof.infra.backends.docker.image import PROJECT, build, default_base

NAME = "ackproof:latest"
_FILES = (
    *("Dockerfile", "LICENSE", "README.md", "constraints.txt", "pyproject.toml"),
    *("ackproof/__init__.py", "ackproof/py.typed"),
)


def ensure_harness_image(
    client: docker.DockerClient, progress: Callable[[str], None], base: str | None = None
) -> str:
    """Build the image, and return its name. The engine keeps the layers that have not changed.

    Args:
        progress: Gets the output line by line while the image is built.
        base: A Debian image; by default as for the image of a node.

    Raises InfraError with the engine's last messages if it cannot be built.
    """
    ensure_base(client, progress)
    files = list(_sources(PROJECT))
    build(client, base or default_base(client), NAME, "Dockerfile", files, progress)
    return NAME


def _sources(project: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file that the Dockerfile copies."""
    for name in _FILES:
        yield name, (project / name).read_bytes()
    rooms = sorted(link.name for link in (project / "ackproof").iterdir() if link.is_symlink())
    for room in rooms:
        for path in sorted((project / room).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(project)), path.read_bytes()


def main() -> None:
    """Build the image, and print its progress and name."""
    base = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] else None
    try:
        with connected(timeout_s=1800) as client:
            print_line(ensure_harness_image(client, print_line, base))
    except InfraError as error:
        sys.exit(f"ackproof: {error}")


if __name__ == "__main__":
    main()
