"""How a process ended."""

from ackproof.history.last_words import quoted
from ackproof.infra.interface import InfraError, Node, Process

_REAPED_WITHIN_S = 5.0


def exit_status(process: Process) -> int | None:
    """Of a process that has ended, negative for a signal; None when nobody can tell.

    ``exit_code`` may not know it yet: between the end of a process and its being reaped, there is
    a moment.
    """
    try:
        return process.wait(_REAPED_WITHIN_S)
    except TimeoutError:
        return None


def in_words(status: int | None) -> str:
    """``status 70``."""
    return "status unknown" if status is None else f"status {status}"


def last_words(node: Node, name: str) -> str:
    """Return what the log of a process on ``node`` adds to the message that it ended; empty where
    the log is empty or cannot be read. Its path is the one below the run's directory."""
    try:
        log = node.read(node.log_directory / f"{name}.log")
    except (InfraError, OSError):
        return ""
    return quoted(log, f"logs/{node.name}/{name}.log")
