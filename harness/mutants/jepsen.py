"""Jepsen's Kafka checker (``jepsen.tests.kafka``), which is asked about recorded histories.

Jepsen is not part of Ackproof. The class path in the environment variable ``JEPSEN_CLASSPATH`` has
Jepsen, everything that it needs, and Clojure. Only its checker runs, on a history that exists:
Jepsen's own clients and faults do not.
"""

import json
import os
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from ackproof.harness.subprocesses import last_words
from ackproof.history.jepsen import Op, edn
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.software import find_java

CLASSPATH = "JEPSEN_CLASSPATH"
"""The environment variable with a Java class path that has Jepsen, what it needs, and Clojure."""

_HERE = Path(__file__).parent / "clojure"
_PROGRAM = _HERE / "analyse.clj"
_STAND_INS = _HERE / "stand-ins"
"""Namespaces that the analysis loads and does not use. With them it runs on Java 17, and needs half
the libraries."""

_HEAP = "-Xmx2g"
"""The heap is enough for half a million sends. Jepsen needs up to 4 KB for each."""
_DUPLICATE = "duplicate"
_STEPS = ("int-poll-skip", "int-nonmonotonic-poll", "poll-skip", "nonmonotonic-poll")
_OF_DUPLICATES = frozenset({*_STEPS, "nonmonotonic-send"})
"""The errors that a duplicate may show as, too: Jepsen places a record at its last offset."""
_LIMIT_S = 1_800
"""The time within which an answer must come. 100,000 sends take seconds. Consumers that are far
behind, and a busy machine, take more."""


class Effect(StrEnum):
    """The effect of an error on the validity of a history (``:valid?``)."""

    INVALID = "invalid"
    ALLOWED = "allowed"
    """Jepsen reports it and tolerates it (``allowed-error-types``), or it is about such errors."""
    UNKNOWN = "unknown"
    """It ended the analysis, for example a record that no client sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """An error that Jepsen found, or what ended its analysis.

    Attributes:
        anomaly: Jepsen's name of it.
        effect: Its effect on the validity of the history.
        key: The partition.
        client: The client of the op, None without one.
        values: The records that it is about; of a step, the two that it went from and to.
        offsets: The offsets, of an error that is about offsets.
        skipped: The records between the two of a step.
    """

    anomaly: str
    effect: Effect
    key: str | None
    client: str | None
    values: tuple[str | None, ...]
    offsets: tuple[int, ...]
    skipped: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judgement of a history by another judge than Ackproof's checkers.

    Attributes:
        errors: The types of the errors that make the history invalid, by cell. The cell is empty if
            it is not known, as in findings of former versions.
        unknown: The reasons why there may be more; empty if everything was judged.
    """

    errors: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...]

    @property
    def types(self) -> Sequence[str]:
        """Return the types of the errors in all cells, sorted."""
        return sorted({one for types in self.errors.values() for one in types})

    def beyond(self, other: "Judgement") -> Collection[str]:
        """Return the types of errors in a cell that the other has not in that cell, and that do not
        follow from duplicates that it has there."""
        found: set[str] = set()
        for cell, types in self.errors.items():
            known = {*(other.errors.get(cell, ()) if cell else other.types)}
            known.update(other.errors.get("", ()))
            found.update(set(types) - known - (_OF_DUPLICATES if _DUPLICATE in known else set()))
        return found


VALID = Judgement(errors={}, unknown=())


def together(judgements: Iterable[Judgement]) -> Judgement:
    """Return what several judgements say together."""
    every = list(judgements)
    errors: dict[str, set[str]] = defaultdict(set)
    for one in every:
        for cell, types in one.errors.items():
            errors[cell].update(types)
    return Judgement(
        errors={cell: tuple(sorted(types)) for cell, types in errors.items()},
        unknown=tuple(sorted({reason for one in every for reason in one.unknown})),
    )


def judgement(cell: str, errors: Iterable[Error]) -> Judgement:
    """Return Jepsen's judgement of the history of a cell, in which it found these errors."""
    types = {effect: set[str]() for effect in Effect}
    for one in errors:
        types[one.effect].add(one.anomaly)
    invalid = tuple(sorted(types[Effect.INVALID]))
    return Judgement(
        errors={cell: invalid} if invalid else {}, unknown=tuple(sorted(types[Effect.UNKNOWN]))
    )


class JepsenChecker:
    """A process that answers questions about histories."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log

    def errors(self, history: Iterable[Op]) -> list[Error]:
        """Return the errors in a history by Jepsen's rules. Raises InfraError if the process ends
        instead, or takes too long."""
        asked = _pipe(self._process.stdin)
        with suppress(BrokenPipeError):  # if the process has ended, reading says so
            asked.writelines(f"{edn(op)}\n" for op in history)
            asked.write("\n")
            asked.flush()
        return list(self.answer())

    def answer(self) -> Iterator[Error]:
        """Yield the errors of an answer. Raises InfraError as :meth:`errors` does."""
        told = _pipe(self._process.stdout)
        deadline = time.monotonic() + _LIMIT_S
        limit = threading.Timer(_LIMIT_S, self._process.kill)
        limit.start()
        try:
            while (line := told.readline()) != "\n":
                if not line:
                    raise InfraError(self._end(is_late=time.monotonic() >= deadline))
                yield _error(json.loads(line))
        finally:
            limit.cancel()

    def _end(self, is_late: bool) -> str:
        status = self._process.wait()
        why = (
            f"no answer within {_LIMIT_S} s"
            if is_late
            else f"the process ended with status {status}: {last_words(self._log)}"
        )
        return f"Jepsen's checker, of {CLASSPATH}: {why} ({self._log})"


@contextmanager
def jepsen_checker(classpath: str, log: Path) -> Iterator[JepsenChecker]:
    """Start Jepsen's checker with a class path, and end it at the end.

    ``log``: the file for its messages. Raises InfraError without Java, or if the class path lacks
    something.
    """
    paths = os.pathsep.join([str(_STAND_INS), classpath])
    options = [_HEAP, "-Djava.awt.headless=true", "-cp", paths]
    with (
        log.open("wb") as messages,
        subprocess.Popen(
            [find_java(), *options, "clojure.main", "--report", "none", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
        ) as process,
    ):
        try:
            checker = JepsenChecker(process, log)
            list(checker.answer())  # an empty one: all is loaded
            yield checker
        finally:
            process.kill()
            with suppress(BrokenPipeError):  # of what was not written yet
                _pipe(process.stdin).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _error(told: dict[str, Any]) -> Error:
    lists = ("values", "offsets", "skipped")
    converted = {name: tuple(told[name]) for name in lists}
    return Error(**{**told, **converted, "effect": Effect(told["effect"])})
