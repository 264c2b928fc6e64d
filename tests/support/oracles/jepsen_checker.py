"""Jepsen's Kafka checker, asked about one history after the other."""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ackproof.history.jepsen import Op, edn
from ackproof.infra.machine.software import find_java

CLASSPATH = "JEPSEN_CLASSPATH"
"""A Java class path with Jepsen, what it needs, and Clojure."""

_HERE = Path(__file__).parents[2] / "jepsen"
_PROGRAM = _HERE / "analyse.clj"
_STAND_INS = _HERE / "stand-ins"
"""For what the analysis loads and does not use: with them Java 17 does, and half the libraries."""

_HEAP = "-Xmx1g"


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One that Jepsen found, or what ended its analysis.

    Attributes:
        anomaly: Jepsen's name of it.
        client: The client of the op, None without one.
        values: The records that it is about; of a step, the two that it went from and to.
        offsets: Where, of those that are about offsets.
        skipped: What lies between the two of a step.
    """

    anomaly: str
    key: str | None
    client: str | None
    values: tuple[str | None, ...]
    offsets: tuple[int, ...]
    skipped: tuple[str | None, ...]


class JepsenChecker:
    """A process that answers. Raises RuntimeError when it ends instead."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def errors(self, ops: Iterable[Op]) -> list[Error]:
        """Return the errors in a history by Jepsen's rules."""
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        asked.write("".join(f"{edn(op)}\n" for op in ops) + "\n")
        asked.flush()
        found = []
        while (line := told.readline()) != "\n":
            if not line:
                raise RuntimeError(f"Jepsen's checker ended: {self._process.wait()}")
            found.append(_error(json.loads(line)))
        return found


@contextmanager
def jepsen_checker(log: Path) -> Iterator[JepsenChecker]:
    """Started with the class path that the environment names. ``log``: of what it complains."""
    classpath = os.pathsep.join([str(_STAND_INS), os.environ[CLASSPATH]])
    options = [_HEAP, "-Djava.awt.headless=true", "-cp", classpath]
    with (
        log.open("wb") as complaints,
        subprocess.Popen(
            [find_java(), *options, "clojure.main", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        ) as process,
    ):
        try:
            yield JepsenChecker(process)
        finally:
            process.kill()


def _error(told: dict[str, Any]) -> Error:
    lists = ("values", "offsets", "skipped")
    return Error(**{**told, **{name: tuple(told[name]) for name in lists}})
