"""Apache Kafka on nodes that do not see this machine's files: from file to report, with its jars
brought to hosts once, and to containers without a copy."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackproof.infra.systems import prepare
from ackproof.infra.systems.kafka import releases
from tests.support.backends.containers import owned_things
from tests.support.ssh.hosts import SshHosts, ssh_hosts

pytestmark = [pytest.mark.kafka, pytest.mark.e2e]

SYSTEMS = pytest.mark.parametrize("version", releases.VERSIONS[-2:])
"""One on ZooKeeper, one with KRaft."""
HOSTS = 5
"""One that keeps the metadata, three brokers, and a client."""


def passes(ackproof, version: str, *place: str) -> str:
    """The small campaign says that acks=1 loses, and acks=all does not; what was told."""
    prepare(f"kafka:{version}", sys.stdout.write)
    command = ("run", "small.yaml", "--system", f"kafka:{version}", "--seed", "1", *place)
    result = ackproof(*command, "--out", "results")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    cells = {cell["acks"]: cell for cell in document["cells"]}
    assert cells["1"]["lost"] > 0, "an isolated leader acknowledged what it then had to cut"
    assert (cells["all"]["lost"], cells["all"]["verdict"]) == (0, "pass")
    assert document["system"] == f"kafka:{version}"
    return str(result.stdout)


@pytest.mark.docker
@SYSTEMS
def test_on_containers(ackproof, version: str) -> None:
    before = owned_things()
    passes(ackproof, version, "--backend", "docker")
    assert owned_things() == before


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), HOSTS) as found:
        yield found


@pytest.mark.ssh
@SYSTEMS
def test_on_hosts(ackproof, hosts: SshHosts, tmp_path: Path, version: str) -> None:
    inventory = str(hosts.write(tmp_path / "hosts.yaml", hosts.document()))
    told = passes(ackproof, version, "--backend", "ssh", "--inventory", inventory)
    assert told.count(f"bringing Apache Kafka {version}") == HOSTS, "each of them, and once"
    cleaned = ackproof("clean", "--inventory", inventory)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    for number in range(HOSTS):
        assert hosts.run(number, "ls", "/home/admin/.ackproof").status != 0
