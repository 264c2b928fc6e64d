"""A real ZooKeeper, of the jars that come with Spark."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from itertools import count
from pathlib import Path

from kazoo.client import KazooClient

from ackproof.infra.machine.software import zookeeper_jars
from tests.support.processes.process import TIMEOUT_S, Process, free_port, listens, until

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


class Tree:
    """A tree of its own in the ZooKeeper server of this test process: its clients and their
    sessions do not affect others. For tests that neither stop the server nor count its work: a
    server takes longer to start than most of them to end."""

    def __init__(self) -> None:
        server = shared_zookeeper()
        self.port = server.port
        self.chroot = f"/tree-{next(_trees)}"
        self.connect = f"{server.connect}{self.chroot}"

    def start(self) -> None:
        """Returns when it is there."""
        with closing(KazooClient(shared_zookeeper().connect, timeout=20)) as client:
            client.start(TIMEOUT_S)
            client.create(self.chroot)
            client.stop()

    def kill(self) -> None:
        """It stays, as what a server that is killed has on its disk."""


_trees = count()


@cache
def shared_zookeeper() -> ZooKeeper:
    """The server of all trees, from the first on; ended by :func:`end_shared_zookeeper`."""
    server = ZooKeeper(Path(tempfile.mkdtemp(prefix="ackproof-test-")) / "zookeeper")
    server.start()
    return server


def end_shared_zookeeper() -> None:
    """Nothing is done if it was never used."""
    if shared_zookeeper.cache_info().currsize:
        server = shared_zookeeper()
        server.kill()
        shutil.rmtree(server.log.parents[1])


@contextmanager
def running_zookeeper(directory: Path) -> Iterator[ZooKeeper]:
    """One that serves, killed at the end."""
    server = ZooKeeper(directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()
