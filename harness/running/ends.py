"""How a process ended."""

from infra.interface import Process

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
