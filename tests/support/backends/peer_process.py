"""The program of a peer on its node (``python -c <this> <address>``): see peer.py."""

import json
import socket
import sys
import threading

PORT = 9000
CONTROL_PORT = 9001


class _Connection:
    """The one connection to another peer, opened by either."""

    def __init__(self) -> None:
        self.link: socket.socket | None = None
        self.text = ""

    def use(self, link: socket.socket) -> None:
        self.link = link
        threading.Thread(target=self._read, args=(link,), daemon=True).start()

    def accept(self, listener: socket.socket) -> None:
        while True:
            link, _ = listener.accept()
            first = link.recv(1)  # a probe says nothing and goes
            if first:
                self.use(link)

    def answer(self, verb: str, argument: str) -> str:
        if verb == "connect":
            link = socket.create_connection((argument, PORT), timeout=10)
            link.settimeout(None)
            link.sendall(b"!")
            self.use(link)
        elif verb == "send" and self.link is not None:
            self.link.sendall(argument.encode())
        return self.text

    def _read(self, link: socket.socket) -> None:
        while came := link.recv(4096):
            self.text += came.decode()


def _serve(address: str) -> None:
    connection = _Connection()
    listener = socket.create_server((address, PORT))
    threading.Thread(target=connection.accept, args=(listener,), daemon=True).start()
    with socket.create_server((address, CONTROL_PORT)) as controls:
        while True:
            control, _ = controls.accept()
            with control, control.makefile("rw") as stream:
                if asked := stream.readline():  # a probe says nothing and goes
                    stream.write(json.dumps(connection.answer(*json.loads(asked))) + "\n")


if __name__ == "__main__":
    _serve(sys.argv[1])
