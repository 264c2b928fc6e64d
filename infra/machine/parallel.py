"""Calls on many items at once, each of which takes long."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ackproof.infra.api.interface import InfraError

T = TypeVar("T")
R = TypeVar("R")


class SeveralFailed(InfraError):
    """Some of many calls failed, a line each. ``errors`` has their errors."""

    def __init__(self, errors: Sequence[BaseException]) -> None:
        self.errors = errors
        super().__init__("\n".join(map(str, errors)))


def on_all(act: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Call ``act`` on every item at once, and return the results in order.

    Raises SeveralFailed when every item was tried and some failed. An error that is neither
    InfraError nor OSError is raised as it is.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(items))) as pool:
        futures = [pool.submit(act, item) for item in items]
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in errors:
        if not isinstance(error, InfraError | OSError):
            raise error
    if errors:
        raise SeveralFailed(errors) from errors[0]
    return [future.result() for future in futures]
