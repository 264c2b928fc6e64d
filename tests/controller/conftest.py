"""A real ZooKeeper on a free loopback port, and a way to it that can be frozen."""

import select
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pyspark
import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

START_TIMEOUT_S = 60
TICK_MS = 500


class ZooKeeper:
    """A standalone ZooKeeper server: ``connect`` string, ``pause``, ``resume``, ``restart``.

    Sessions may be as short as ``2 * TICK_MS``.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.connect = f"127.0.0.1:{self.port}"

    def start(self) -> None:
        config = self._directory / "zoo.cfg"
        config.write_text(
            f"tickTime={TICK_MS}\ndataDir={self._directory / 'data'}\n"
            f"clientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n"
        )
        jars = Path(pyspark.__file__).parent / "jars" / "*"
        java = shutil.which("java")
        assert java, "java is needed for ZooKeeper"
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        with (self._directory / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(
                [java, "-Xmx128m", "-cp", str(jars), main, str(config)], stdout=log, stderr=log
            )
        self._await_service()

    def _await_service(self) -> None:
        """Waits for a whole handshake: connections made too early are sometimes never answered."""
        client = KazooClient(self.connect, timeout=2, connection_retry={"max_tries": -1})
        try:
            client.start(START_TIMEOUT_S)
        except KazooTimeoutError:
            raise AssertionError((self._directory / "zookeeper.log").read_text()) from None
        client.stop()
        client.close()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture
def zookeeper(tmp_path):
    """A running ZooKeeper, killed at the test's end."""
    directory = tmp_path / "zookeeper"
    directory.mkdir()
    server = ZooKeeper(directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()


class FreezableWay:
    """Forwards TCP connections to a port. While frozen, nothing passes and nothing is refused.

    Both sides see what a cut network or a hung peer looks like. ZooKeeper goes on counting
    sessions down, which it does not reliably do when it is itself stopped.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.connect = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thawed = threading.Event()
        self._thawed.set()
        self._closing = threading.Event()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._forward)
        self._thread.start()

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def close(self) -> None:
        self._closing.set()
        self._thawed.set()
        self._thread.join()
        for sock in (self._listener, *self._peers):
            sock.close()

    def _forward(self) -> None:
        while not self._closing.is_set():
            self._thawed.wait()
            readable, _, _ = select.select([self._listener, *self._peers], [], [], 0.02)
            if not self._thawed.is_set():
                continue
            for sock in readable:
                if sock is self._listener:
                    self._accept()
                elif sock in self._peers:
                    self._pass_on(sock)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self._target_port), timeout=1)
        except OSError:
            client.close()
        else:
            self._peers |= {client: server, server: client}

    def _pass_on(self, sock: socket.socket) -> None:
        peer = self._peers[sock]
        try:
            data = sock.recv(65536)
            if data:
                peer.sendall(data)
                return
        except OSError:
            pass
        for gone in (sock, peer):
            del self._peers[gone]
            gone.close()


@pytest.fixture
def way(zookeeper):
    """A :class:`FreezableWay` to the ZooKeeper of this test."""
    proxy = FreezableWay(zookeeper.port)
    yield proxy
    proxy.close()
