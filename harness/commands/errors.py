"""The failures of a command: one clear message and the exit status that fits."""

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from ackproof.config.documents import DocumentRefused
from ackproof.harness.directory import ResultsDirectoryError, ResultsInUse
from ackproof.harness.exit_status import ConfirmationNeeded, ExitStatus
from ackproof.history.errors import HistoryError
from ackproof.infra.api.interface import InfraError


@contextmanager
def reported_errors() -> Iterator[None]:
    """Turn errors that the user can correct into a message and an exit status."""
    try:
        yield
    except DocumentRefused as refused:
        click.echo(str(refused), err=True)  # each line begins with file, line and column
        many = len(refused.problems)
        fail(f"{refused.path}: {many} problem{'s' if many > 1 else ''}", ExitStatus.USAGE)
    except (ResultsDirectoryError, ResultsInUse, ConfirmationNeeded) as usage:
        fail(str(usage), ExitStatus.USAGE)
    except (InfraError, HistoryError, OSError) as failure:
        if debugging():
            traceback.print_exc()
        damaged = isinstance(failure, HistoryError)
        full = isinstance(failure, OSError) and failure.errno == errno.ENOSPC
        hint = (
            ": make room, then run `ackproof check` to check the recorded history" if full else ""
        )
        fail(f"{failure}{hint}", ExitStatus.INCONCLUSIVE if damaged else ExitStatus.INFRASTRUCTURE)


def debugging() -> bool:
    """Return whether the command was called with ``--debug``."""
    return bool(click.get_current_context().find_root().params.get("debug"))


def fail(message: str, status: ExitStatus) -> NoReturn:
    """Print the reason on standard error, and exit."""
    click.echo(f"ackproof: {message}", err=True)
    raise click.exceptions.Exit(status)
