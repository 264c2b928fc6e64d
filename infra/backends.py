"""Where clusters can run: the table of backends."""

from collections.abc import Callable, Mapping
from pathlib import Path

from infra.docker.backend import DockerBackend
from infra.interface import Backend, InfraError
from infra.local.backend import LocalBackend

_PLANNED = frozenset({"ssh"})

BACKENDS: Mapping[str, Callable[[Path], Backend]] = {
    "local": LocalBackend,
    "docker": DockerBackend,
}


def make_backend(name: str, directory: Path) -> Backend:
    """The backend of that name. ``directory``: on this machine, for the nodes' files.

    Raises InfraError for a name that is none or is not there yet, or when it cannot work here.
    """
    if name in _PLANNED:
        raise InfraError(f"backend {name!r} is not there yet; there is: {', '.join(BACKENDS)}")
    if name not in BACKENDS:
        raise InfraError(f"no backend {name!r}; there is: {', '.join(BACKENDS)}")
    return BACKENDS[name](directory)
