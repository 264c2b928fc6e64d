"""Nodes that do not see this machine's files, from file to report: clients that are programs, and a
fault by commands of this machine."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.backends.containers import owned_things
from tests.support.faults.own_commands import addresses_struck, by_addresses
from tests.support.ssh.hosts import SshHosts, ssh_hosts

pytestmark = pytest.mark.e2e

OWN = "./mine"
COMPILED = ["java", "franz-go"]
CLIENTS = pytest.mark.parametrize(
    "clients", [[OWN], pytest.param(COMPILED, marks=pytest.mark.libraries)], ids="+".join
)
AS_PRODUCER = """\
#!/bin/sh
python="$(tr '\\0' '\\n' < /proc/$PPID/cmdline | head -n 1)"
grep --line-buffered -v '^property request.timeout.ms ' |
    "$python" -m ackproof.workloads.foreign.aiokafka_program
"""
"""A user's own program, which needs what any node has: the Python of the process above it. It is
told what aiokafka has nothing for."""
HOSTS = 5
"""One that keeps the metadata, three brokers, and a client."""
SOFTWARE = "/home/admin/.ackproof/software"


def passes(ackproof, clients: Sequence[str], *place: str) -> str:
    """A leader that is cut off loses nothing that was acked by all; what was told."""
    mine = ackproof.directory / OWN
    mine.write_text(AS_PRODUCER)
    mine.chmod(0o755)
    cells = {"acks": "all", "min.insync.replicas": 2, "partitions": 2, "client": list(clients)}
    faults = [
        {"fault": "isolate", "target": "broker-1", "hold": "7s"},
        {"fault": "command", "target": "broker-2", "hold": "2s", "parameters": by_addresses()},
    ]
    ackproof.vary({"cells": cells, "faults": faults})
    allowed = ("--program", OWN, "--allow-commands")
    command = ("run", "small.yaml", *allowed, "--seed", "1", *place)
    result = ackproof(*command, "--out", "results")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    assert [fault["proven"] for fault in document["faults"]] == [True, True]
    (struck,) = addresses_struck(ackproof.directory / "struck")
    assert re.fullmatch(r"[0-9.]+:\d+", struck), "the address of broker-2, on the nodes' network"
    assert [cell["client"] for cell in document["cells"]] == clients
    for cell in document["cells"]:
        assert (cell["lost"], cell["verdict"]) == (0, "pass")
        assert cell["acked"] > 500
    return str(result.stdout)


@pytest.mark.docker
@CLIENTS
def test_on_containers(ackproof, clients: list[str]) -> None:
    before = owned_things()
    passes(ackproof, clients, "--backend", "docker")
    assert owned_things() == before


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), HOSTS) as found:
        yield found


@pytest.mark.ssh
@CLIENTS
def test_on_hosts(ackproof, hosts: SshHosts, tmp_path: Path, clients: list[str]) -> None:
    inventory = str(hosts.write(tmp_path / "hosts.yaml", hosts.document()))
    told = passes(ackproof, clients, "--backend", "ssh", "--inventory", inventory)
    assert told.count("bringing the program") == HOSTS * len(clients), "to each of them, and once"
    names = {client.removeprefix("./") for client in clients}

    def kept() -> set[str]:
        """Return the programs that the client's host has."""
        there = hosts.run(1, "ls", SOFTWARE).output.split()
        return {name for name in names for one in there if one.startswith(f"{name}-")}

    cleaned = ackproof("clean", "--inventory", inventory, "--keep-software")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert kept() == names
    cleaned = ackproof("clean", "--inventory", inventory)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    for number in range(HOSTS):
        assert hosts.run(number, "ls", "/home/admin/.ackproof").status != 0
