"""Whether a port accepts connections, tried for real."""

import socket


def accepts(address: str, port: int, timeout: float = 1.0) -> bool:
    """Whether a new TCP connection to it, from the calling thread's network namespace, succeeds
    within ``timeout`` seconds. The kernel answers for a process that is stopped: a listening port
    accepts as long as its backlog has room."""
    try:
        socket.create_connection((address, port), timeout=timeout).close()
    except OSError:
        return False
    return True
