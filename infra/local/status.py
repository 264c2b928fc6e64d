"""What a process above the harness exits with."""

import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

_INFRASTRUCTURE_FAILED = 5
_FAILURE = 1

MEANT_AS_1 = 101
"""What a command inside exits with when its run is to exit with 1."""


def of(code: int) -> int:
    """As a shell tells it. ``code``: as ``subprocess`` does, negative for a signal."""
    return code if code >= 0 else 128 - code


def outermost(code: int) -> int:
    """What the user's shell is told of a command inside.

    1 means that a guarantee was broken. It is also what Python, unshare, setpriv and nsenter exit
    with when they fail themselves: a run that could not even begin would look like a loss. So from
    inside, 1 has a number of its own.
    """
    if code == MEANT_AS_1:
        return _FAILURE
    return _INFRASTRUCTURE_FAILED if code == _FAILURE else of(code)


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Exit with what ``main`` gives. It crashes, and the status is that of an infrastructure that
    failed: Python's own, 1, would say that a guarantee was broken."""
    try:
        status = main()
    except Exception:  # noqa: BLE001 - shown, whatever it is
        traceback.print_exc()
        status = _INFRASTRUCTURE_FAILED
    sys.exit(status)
