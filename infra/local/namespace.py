"""Network namespaces without a name.

A namespace lives as long as somebody holds it: a process in it, or our descriptor. Nothing is
mounted under ``/run/netns``, so nothing can be left there.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pyroute2 import netns

from ackproof.infra.interface import InfraError

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000


class NetworkNamespace:
    """A network namespace, held by a descriptor that this object owns."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def create(cls) -> "NetworkNamespace":
        """A fresh one. Raises InfraError where the kernel refuses."""
        return cls(_in_a_thread(_fresh))

    @property
    def path(self) -> str:
        """For a child that was given the descriptor (``pass_fds``)."""
        return f"/proc/self/fd/{self.descriptor}"

    def call(self, function: Callable[[], T]) -> T:
        """``function()`` inside the namespace: sockets it opens and processes it starts belong
        there. What it raises is raised here."""

        def inside() -> T:
            netns.setns(self.descriptor, fork=False)
            return function()

        return _in_a_thread(inside)

    def close(self) -> None:
        """Let go. The kernel removes it with its last process."""
        os.close(self.descriptor)

    def __enter__(self) -> "NetworkNamespace":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _fresh() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise InfraError(f"cannot make a network namespace: {reason}")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _in_a_thread(function: Callable[[], T]) -> T:
    """``function()`` in a thread of its own, because one that has entered a namespace stays in
    it."""
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - carried over to the caller
            failures.append(error)

    thread = threading.Thread(target=run, name="network-namespace")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
