"""A way to a server that can be frozen."""

import select
import socket
import threading


class FreezableWay:
    """Forwards TCP connections to a port. While frozen, nothing passes and nothing is refused.

    Both sides see what a cut network or a hung peer looks like. ZooKeeper goes on counting
    sessions down, which it does not reliably do when it is itself stopped.
    """

    def __init__(self, target_port: int, chroot: str = "") -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.connect = f"127.0.0.1:{self._listener.getsockname()[1]}{chroot}"
        self._thawed = threading.Event()
        self._thawed.set()
        self._closing = threading.Event()
        self._resetting = threading.Event()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._forward)
        self._thread.start()

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def reset(self) -> None:
        """Breaks the connections there are; new ones are made as before."""
        self._resetting.set()

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
            if self._resetting.is_set():
                self._resetting.clear()
                for sock in list(self._peers):
                    self._part(sock)
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
        self._part(sock)

    def _part(self, sock: socket.socket) -> None:
        for gone in (sock, self._peers.get(sock)):
            if gone is not None and self._peers.pop(gone, None) is not None:
                gone.close()
