"""Where the collected logs of a partition are: below ``broker-<id>``, or below the number of one of
a broker's log directories there.

Listed once for all partitions: in a store each look is a request, and there may be thousands of
partitions on as many brokers as there are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ackproof.history.storage import AnyPath, directories

Logs = Mapping[str, Sequence[tuple[int, AnyPath]]]
"""By the name of a log's directory, ``t-0``: brokers, in order, and where each has one."""


def logs_of(replicas: AnyPath, is_whole: Callable[[AnyPath], bool]) -> Logs | None:
    """Return the logs below a directory, as far as they are whole; None where there is no such
    directory. Nothing is said of what cannot be looked into."""
    if not replicas.is_dir():
        return None
    found: dict[str, list[tuple[int, AnyPath]]] = {}
    for broker, top in sorted(_brokers(replicas)):
        for path in filter(is_whole, _logs(top)):
            found.setdefault(path.name, []).append((broker, path))
    return found


def _brokers(replicas: AnyPath) -> Iterator[tuple[int, AnyPath]]:
    for path in directories(replicas):
        kind, _, number = path.name.rpartition("-")
        if kind == "broker" and number.isdecimal():
            yield int(number), path


def _logs(top: AnyPath) -> Iterator[AnyPath]:
    for path in directories(top):
        if path.name.isdecimal():
            yield from directories(path)
        else:
            yield path
