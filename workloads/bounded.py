"""Calls of a client library that may not come back."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

R = TypeVar("R")


def within(seconds: float, call: Callable[[], R]) -> R:
    """Call, and wait no longer than ``seconds``; what it returns, or raises.

    Raises TimeoutError when it has not come back: its thread is left behind, which may have the
    process end, and nothing more.
    """
    ended: Future[R] = Future()

    def run() -> None:
        try:
            ended.set_result(call())
        except Exception as error:  # noqa: BLE001  raised where it is waited for
            ended.set_exception(error)

    Thread(target=run, daemon=True).start()
    return ended.result(seconds)
