"""A real ZooKeeper, of the jars that come with Spark."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient
from processes import TIMEOUT_S, Process, free_port, listens, until

from infra.software import zookeeper_jars

TICK_MS = 500
SESSION_MS_MAX = 120_000


class ZooKeeper(Process):
    """A standalone server on a free loopback port, with all its files in ``directory``.

    ``connect`` is its ``zookeeper.connect``. Sessions may be as short as ``2 * TICK_MS``, and as
    long as :data:`SESSION_MS_MAX`. It does not fsync: no test takes the machine's power away, and
    a slow disk would delay pings until sessions end.
    """

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.connect = f"127.0.0.1:{self.port}"
        directory.mkdir()
        config = directory / "zoo.cfg"
        config.write_text(
            f"tickTime={TICK_MS}\ndataDir={directory / 'data'}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
            f"maxSessionTimeout={SESSION_MS_MAX}\n4lw.commands.whitelist=srvr,mntr,wchp\n"
        )
        java = shutil.which("java")
        assert java, "java is needed for ZooKeeper"
        jars = ":".join(map(os.fspath, zookeeper_jars()))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        # It lives for seconds: the second compiler would cost more than it brings.
        short_lived = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        options = ("-Xmx128m", *short_lived, "-Dzookeeper.forceSync=no", "-cp", jars)
        super().__init__([java, *options, main, os.fspath(config)], directory / "server.log")

    def start(self) -> None:
        """Returns when it serves: connections made earlier are sometimes never answered, and
        time out with their session."""
        super().start()
        until("ZooKeeper listens", lambda: listens(self.port))
        client = KazooClient(self.connect, timeout=2, connection_retry={"max_tries": -1})
        client.start(TIMEOUT_S)
        client.stop()
        client.close()


@dataclass(frozen=True)
class Chroot:
    """A tree of its own in a server that others use too: its clients see nothing of theirs."""

    server: ZooKeeper
    path: str

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def connect(self) -> str:
        return f"{self.server.connect}{self.path}"

    def make(self) -> None:
        client = KazooClient(self.server.connect, timeout=20)
        client.start(TIMEOUT_S)
        client.create(self.path)
        client.stop()
        client.close()


@contextmanager
def running_zookeeper(directory: Path) -> Iterator[ZooKeeper]:
    """One that serves, killed at the end."""
    server = ZooKeeper(directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()
