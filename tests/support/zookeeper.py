"""A real ZooKeeper, of the jars that come with Spark."""

import os
import shutil
import signal
from pathlib import Path

import pyspark
from kazoo.client import KazooClient
from processes import TIMEOUT_S, Process, free_port, listens, until

TICK_MS = 500


class ZooKeeper(Process):
    """A standalone server on a free loopback port, with all its files in ``directory``.

    ``connect`` is its ``zookeeper.connect``. Sessions may be as short as ``2 * TICK_MS``.
    """

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.connect = f"127.0.0.1:{self.port}"
        directory.mkdir()
        config = directory / "zoo.cfg"
        config.write_text(
            f"tickTime={TICK_MS}\ndataDir={directory / 'data'}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
        )
        java = shutil.which("java")
        assert java, "java is needed for ZooKeeper"
        jars = os.fspath(Path(pyspark.__file__).parent / "jars" / "*")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        super().__init__(
            [java, "-Xmx128m", "-cp", jars, main, os.fspath(config)], directory / "server.log"
        )

    def start(self) -> None:
        """Returns when it serves: connections made earlier are sometimes never answered, and
        time out with their session."""
        super().start()
        until("ZooKeeper listens", lambda: listens(self.port))
        client = KazooClient(self.connect, timeout=2, connection_retry={"max_tries": -1})
        client.start(TIMEOUT_S)
        client.stop()
        client.close()

    def pause(self) -> None:
        """Stops it: it neither answers nor counts sessions down."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        self.signal(signal.SIGCONT)
