"""What a process above the harness exits with."""

import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

_INFRASTRUCTURE_FAILED = 3


def of(code: int) -> int:
    """As a shell tells it. ``code``: as ``subprocess`` does, negative for a signal."""
    return code if code >= 0 else 128 - code


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Exit with what ``main`` gives. It crashes, and the status is that of an infrastructure that
    failed: Python's own, 1, would say that a guarantee was broken."""
    try:
        status = main()
    except Exception:  # noqa: BLE001 - shown, whatever it is
        traceback.print_exc()
        status = _INFRASTRUCTURE_FAILED
    sys.exit(status)
