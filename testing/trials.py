"""Trials of conformance checks that need real nodes. Each runs in namespaces of its own."""

import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from ackproof.infra.backends.local.enter import enter, inside

# --- the error of all conformance checks ----------------------------------------------------------


class NotConforming(AssertionError):
    """An object of a plug-in that does not keep its contract. The message says in what way."""


# --- trials ---------------------------------------------------------------------------------------

Trial = Callable[[str, Path], None]
"""A function that tests a plug-in's object, given its name and a directory for nodes. Raises
NotConforming."""

_WITHIN_S = 600.0
_PROBLEM = "problem"
_NODES = "nodes"
_TAIL_LINES = 12


def tried(trial: Trial, name: str) -> None:
    """Call a function of a module in a process and in namespaces of its own, without a network.

    Raises NotConforming with the function's exception, or with the last lines of its output.
    """
    with tempfile.TemporaryDirectory(prefix="ackproof-") as directory:
        where = (trial.__module__, trial.__name__, name, directory)
        done = subprocess.run(
            [sys.executable, "-P", "-m", "ackproof.testing.trials", *where],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_WITHIN_S,
            check=False,
        )
        problem = Path(directory) / _PROBLEM
        if problem.exists():
            raise NotConforming(f"{name}: {problem.read_text(encoding='utf-8')}")
        if done.returncode != 0:
            last = "\n".join(done.stdout.splitlines()[-_TAIL_LINES:])
            raise NotConforming(f"{name}: its trial failed with status {done.returncode}:\n{last}")


def _main(module: str, function: str, name: str, directory: str) -> None:
    scratch = Path(directory) / _NODES
    if not inside():
        enter([sys.executable, *sys.orig_argv[1:]], f"trial-{uuid.uuid4().hex}", scratch=scratch)
    try:
        getattr(import_module(module), function)(name, scratch)
    except NotConforming as problem:
        (Path(directory) / _PROBLEM).write_text(str(problem), encoding="utf-8")


if __name__ == "__main__":
    _main(*sys.argv[1:])
