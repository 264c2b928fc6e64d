"""Hosts that live as long as the session, and backends on them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from ackproof.infra.backends.ssh.backend import SshBackend
from ackproof.infra.backends.ssh.inventory import load
from tests.support.ssh.hosts import SshHosts, ssh_hosts

HOSTS = 3
Open = Callable[..., SshBackend]


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), HOSTS) as found:
        yield found


@pytest.fixture
def inventory(hosts: SshHosts, tmp_path: Path) -> Callable[..., Path]:
    """Writes an inventory of all hosts or of those numbered, defaults changed as wanted."""

    def write(*numbers: int, **defaults: object) -> Path:
        document = hosts.document(numbers)
        changed = document["defaults"]
        assert isinstance(changed, dict)
        document["known_hosts"] = str(tmp_path / "known_hosts")
        (tmp_path / "known_hosts").write_bytes((hosts.directory / "known_hosts").read_bytes())
        return hosts.write(
            tmp_path / "hosts.yaml", document | {"defaults": {**changed, **_dotted(defaults)}}
        )

    return write


@pytest.fixture
def backend(inventory: Callable[..., Path]) -> Iterator[Open]:
    """Opens backends, which are closed at the end."""
    with ExitStack() as opened:

        def open_one(*numbers: int, names: tuple[str, ...] = (), **defaults: object) -> SshBackend:
            made = SshBackend(load(inventory(*numbers, **defaults)), names)
            opened.callback(made.close)
            return made

        yield open_one


def _dotted(defaults: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in defaults.items()}
