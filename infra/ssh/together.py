"""Doing the same on many hosts at once."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from infra import together
from infra.interface import InfraError
from infra.ssh.hostkeys import UnknownHost, how_to_accept

T = TypeVar("T")
R = TypeVar("R")


def on_all(act: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """As :func:`infra.together.on_all`, and tells how hosts that are unknown can be accepted."""
    try:
        return together.on_all(act, items)
    except together.SeveralFailed as failed:
        unknown = [error for error in failed.errors if isinstance(error, UnknownHost)]
        if not unknown:
            raise
        raise InfraError(f"{failed}\n{how_to_accept(unknown)}") from failed
