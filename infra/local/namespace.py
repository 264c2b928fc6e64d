"""Network namespaces without a name.

A namespace lives as long as somebody holds it: a process in it, or our descriptor. Nothing is
mounted under ``/run/netns``, so nothing can be left there.
"""

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pyroute2 import netns

from infra.interface import InfraError

T = TypeVar("T")

_IPV6_SWITCHES = (
    "/proc/sys/net/ipv6/conf/all/disable_ipv6",
    "/proc/sys/net/ipv6/conf/default/disable_ipv6",
)


class NetworkNamespace:
    """A network namespace, held by a descriptor that this object owns."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def create(cls) -> "NetworkNamespace":
        """A fresh one, IPv6 off. Raises InfraError where the kernel refuses."""
        # tee writes the switches from inside the new namespace, and its echo tells us that it
        # is inside: only then does /proc/<pid>/ns/net name the new namespace.
        with subprocess.Popen(
            ["unshare", "--net", "--", "tee", *_IPV6_SWITCHES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            assert child.stderr is not None
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(b"1\n")
                child.stdin.flush()
            if not child.stdout.readline():
                complaint = child.stderr.read().decode(errors="replace").strip()
                raise InfraError(f"cannot make a network namespace: {complaint}")
            return cls.of_process(child.pid)

    @classmethod
    def of_process(cls, pid: int) -> "NetworkNamespace":
        """The one that a process is in. Raises OSError where that may not be had."""
        return cls(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))

    @property
    def path(self) -> str:
        """For a child that was given the descriptor (``pass_fds``)."""
        return f"/proc/self/fd/{self.descriptor}"

    def call(self, function: Callable[[], T]) -> T:
        """``function()`` inside the namespace: sockets it opens belong there.

        Runs in a thread of its own, because a thread that entered a namespace stays in it.
        What it raises is raised here.
        """
        outcome: list[T] = []
        failure: list[BaseException] = []

        def run() -> None:
            try:
                netns.setns(self.descriptor, fork=False)
                outcome.append(function())
            except BaseException as error:  # noqa: BLE001 - carried over to the caller
                failure.append(error)

        thread = threading.Thread(target=run, name="network-namespace")
        thread.start()
        thread.join()
        if failure:
            raise failure[0]
        return outcome[0]

    def close(self) -> None:
        """Let go. The kernel removes it with its last process."""
        os.close(self.descriptor)

    def __enter__(self) -> "NetworkNamespace":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
