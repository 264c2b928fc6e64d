"""Hosts to log in at, for tests: started once, then cut off, switched off, and looked at."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from ackproof.infra.backends.ssh.connection import Connection, ProgramResult
from ackproof.infra.backends.ssh.inventory import load
from ackproof.infra.backends.ssh.login import TrustedHosts
from tests.support.processes.deadlines import PATIENCE_S

PROJECT = Path(__file__).parents[3]
WORLD = Path(__file__).with_name("world.py")


class SshHosts:
    """Hosts, numbered from 0, in the roles zookeeper, client, broker, broker, ..."""

    def __init__(self, world: "subprocess.Popen[str]", directory: Path) -> None:
        self._world = world
        self.directory = directory
        assert world.stdout is not None
        said = json.loads(world.stdout.readline())
        self.harness: str = said["harness"]
        self.addresses: list[str] = said["addresses"]
        self.inventory = Path(said["inventory"])

    def order(self, what: str, number: int) -> None:
        """cut, heal, off, on, rekey: see ``world.py``."""
        assert self._world.stdin is not None
        assert self._world.stdout is not None
        self._world.stdin.write(json.dumps({"do": what, "host": number}) + "\n")
        self._world.stdin.flush()
        assert "done" in json.loads(self._world.stdout.readline())

    def document(self, numbers: Sequence[int] = ()) -> dict[str, object]:
        """The inventory of these hosts or of all, any of them for any role; to vary."""
        chosen = numbers or range(len(self.addresses))
        return {
            "known_hosts": str(self.directory / "known_hosts"),
            "defaults": {"user": "admin", "key": str(self.directory / "key")},
            "hosts": [{"address": self.addresses[n]} for n in chosen],
        }

    def write(self, path: Path, document: Mapping[str, object]) -> Path:
        """An inventory file."""
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    @contextmanager
    def logged_in(self, number: int, user: str = "root") -> Iterator[Connection]:
        """A connection besides the one that is tested."""
        document = self.document([number])
        document["defaults"] = {"user": user, "key": str(self.directory / "key")}
        inventory = load(self.write(self.directory / f"aside-{user}-{number}.yaml", document))
        connection = Connection(inventory.hosts[0], TrustedHosts(inventory.known_hosts))
        try:
            yield connection
        finally:
            connection.close()

    def run(self, number: int, *argv: str) -> ProgramResult:
        """Return the output of a program there, run as root."""
        with self.logged_in(number) as connection:
            return connection.run(argv)

    def state(self, number: int) -> str:
        """Whatever a run may leave: processes that are no login's, rules, interfaces, our files."""
        looks = (
            ["ps", "-e", "-o", "comm="],
            ["nft", "list", "ruleset"],
            ["tc", "qdisc"],
            ["ip", "rule"],
            ["ip", "route", "show", "table", "all"],
            ["find", "/home/admin/.ackproof", "-maxdepth", "1", "-not", "-name", "*.pyz"],
            ["ls", "-A", "/tmp", "/var/tmp", "/home/admin"],
            ["cat", "/proc/mounts"],
        )
        with self.logged_in(number) as connection:
            return "\n".join(connection.run(look).output for look in looks)


@contextmanager
def ssh_hosts(directory: Path, number: int) -> Iterator[SshHosts]:
    """Yield that many hosts. This takes a quarter of a minute and needs root."""
    with (directory / "world.log").open("wb") as log:
        world = subprocess.Popen(
            [sys.executable, str(WORLD), str(directory), str(number)],
            env={
                **os.environ,
                "PYTHONPATH": str(PROJECT),  # beside this directory, which is the script's own
                "ACKPROOF_STATE_DIRECTORY": str(directory / "registry"),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        yield SshHosts(world, directory)
    except json.JSONDecodeError:
        raise AssertionError((directory / "world.log").read_text()) from None
    finally:
        assert world.stdin is not None
        assert world.stdout is not None
        world.stdin.close()
        world.stdout.close()
        world.wait(PATIENCE_S)
