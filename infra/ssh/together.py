"""Doing the same on many hosts at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from infra.interface import InfraError
from infra.ssh.hostkeys import UnknownHost, how_to_accept

T = TypeVar("T")
R = TypeVar("R")


def on_all(act: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``act`` on every item at once; the results in order.

    Raises InfraError with all that failed, a line each, when every item was tried; for hosts that
    are unknown with the way to accept them. What is no InfraError or OSError is raised as it is.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(items))) as pool:
        futures = [pool.submit(act, item) for item in items]
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in errors:
        if not isinstance(error, InfraError | OSError):
            raise error
    if errors:
        unknown = [error for error in errors if isinstance(error, UnknownHost)]
        advice = [how_to_accept(unknown)] if unknown else []
        raise InfraError("\n".join([*map(str, errors), *advice])) from errors[0]
    return [future.result() for future in futures]
