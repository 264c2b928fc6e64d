"""The lines of brokers' logs, which others wrote: a line may hold anything, and ends no check.

A line that makes no sense is passed over, and told. A number is one that Kafka has: a whole one of
at most 63 bits.
"""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ackproof.checkers.cluster.faults import BROKER, Partition
from ackproof.history.storage import AnyPath, matching

STRANGE = (KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""What is raised by whoever makes sense of a line that has none."""

_EVENTS = ('"completed"', '"received"', '"Truncate"')
"""Marks of the lines of the bundled broker that are objects."""

_NUMBERS = ("broker", "leader", "leader_epoch", "leader_epoch_start_offset", "high_watermark")
_NUMBER_MAX = 2**63

_T = TypeVar("_T")


def said(
    logs: AnyPath,
    understand: Callable[[Iterable[str]], Iterator[_T]],
    without: Container[AnyPath] = (),
) -> Iterator[_T]:
    """Return what is understood of the lines of each broker's log, one broker after the other, but
    of the files ``without``."""
    for path in _files(logs, without):
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                yield from understand(lines)
        except OSError:
            continue


def nonsense(logs: AnyPath, without: Container[AnyPath] = ()) -> Iterator[str]:
    """Yield the logs in which lines were passed over that no broker writes, a sentence each.

    Half a line is none of these: a broker that was killed leaves one.
    """
    for path in _files(logs, without):
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                strange = [number for number, line in enumerate(lines, 1) if _is_nonsense(line)]
        except OSError:
            continue
        if strange:
            where = f"{path.parent.name}/{path.name}"
            yield f"{where}: passed over {len(strange)} unreadable line(s), first line {strange[0]}"


def object_in(line: str) -> Mapping[str, Any]:
    """What stands between the first and the last brace. A broker that was killed may have left half
    a line, and its next process goes on behind it."""
    try:
        told = _object(line)
    except STRANGE:
        return {}
    return told if isinstance(told, dict) else {}


def partition_in(told: Mapping[str, Any]) -> Partition:
    """Return the partition that an object is about. Raises as :func:`number`."""
    topic, _, partition = str(told["partition"]).rpartition("-")
    return topic, number(partition)


def number(told: Any) -> int:
    """Return a whole number of at most 63 bits. Raises one of :data:`STRANGE` for anything else."""
    found = int(told)
    if abs(found) >= _NUMBER_MAX:
        raise OverflowError(f"{found:.3g} is larger than any number of Kafka's")
    return found


def _files(logs: AnyPath, without: Container[AnyPath]) -> Iterator[AnyPath]:
    nodes = [path for path in matching(logs, "broker-*") if BROKER.fullmatch(path.name)]
    return (path for node in nodes for path in matching(node, "*.log") if path not in without)


def _object(line: str) -> Any:
    return json.loads(line[line.index("{") : line.rindex("}") + 1])


def _is_nonsense(line: str) -> bool:
    if not any(mark in line for mark in _EVENTS):
        return False
    try:
        told = _object(line)
        for name in _NUMBERS if isinstance(told, dict) else ():
            if told.get(name) is not None:
                number(told[name])
    except json.JSONDecodeError:
        return False
    except ValueError as error:
        return "substring not found" not in str(error)
    except STRANGE:
        return True
    return not isinstance(told, dict)
