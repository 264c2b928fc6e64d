"""What can be tried for real from here."""

import socket


def accepts(address: str, port: int, within: float = 1.0) -> bool:
    """Whether a new TCP connection to it succeeds ``within`` seconds. The kernel answers
    for a process that is stopped: a listening port accepts as long as its backlog has room."""
    try:
        socket.create_connection((address, port), timeout=within).close()
    except OSError:
        return False
    return True
