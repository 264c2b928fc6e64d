"""The integrity of the files that were collected from the servers.

Brokers' raw logs and state-change logs are evidence like the history. A flipped bit in a copy can
look like divergent replicas; the CRC of a batch does not cover its leader epoch, for example. The
step ``collect`` therefore records a digest of each file, and an altered file is not read. Results
from before there were digests are trusted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ackproof.history import storage
from ackproof.history.manifest import PlannedRun
from ackproof.history.storage import AnyPath, StoredPath, directories, each

TOLD_MAX = 5
"""The greatest number of findings about single files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedFiles:
    """The collected files of a run.

    Attributes:
        altered: The problem of each altered or missing file.
        absent: The directories of collected files that are missing as a whole.
    """

    altered: Mapping[AnyPath, str]
    absent: tuple[str, ...] = ()

    @property
    def findings(self) -> Iterator[str]:
        """The sentences that a reader of the report must know."""
        for name in self.absent:
            yield f"the files that were collected into {name} are missing"
        for path, words in islice(self.altered.items(), TOLD_MAX):
            yield f"{path} {words}, so it is not read"
        if (more := len(self.altered) - TOLD_MAX) > 0:
            yield f"{more} further collected files are missing or altered, so they are not read"

    def is_whole(self, directory: AnyPath) -> bool:
        """Return whether no file in a log's directory, or in the directory above it with the
        checkpoints, was altered."""
        return not any(path.parent in (directory, directory.parent) for path in self.altered)


def collected_files(
    directory: AnyPath, planned: PlannedRun, rows: Iterable[Mapping[str, Any]]
) -> CollectedFiles:
    """Compare the collected files with their digests.

    Args:
        directory: The directory of the run.
        planned: If the manifest plans the table ``collected``, a file without a digest is one that
            was not collected.
        rows: The rows of that table.
    """
    has_digests = any(writer.table == "collected" for writer in planned.writers)
    tops = [top for top in ("replicas", "logs") if (directory / top).is_dir()]
    there = [path for top in tops for path in storage.files_below(directory / top)]
    named = {str(row["file"]): row["digest"] for row in rows}
    # The results may have been copied without the servers' files.
    collected = dict.fromkeys(name.partition("/")[0] for name in named)
    digests = {
        directory / name: digest for name, digest in named.items() if name.partition("/")[0] in tops
    }
    looks = [(path, digests.get(path)) for path in there if has_digests and _counts(path)]
    stored = isinstance(directory, StoredPath)
    found = zip(looks, each(_altered, looks, stored=stored), strict=True)
    altered = {path: words for (path, _), words in found if words is not None}
    missing = dict.fromkeys(digests.keys() - set(there), "is missing")
    absent = tuple(top for top in collected if top not in tops)
    return CollectedFiles(altered={**altered, **missing}, absent=absent)


def _counts(path: AnyPath) -> bool:
    """Return whether a check reads this file. The harness continues to write its own log after
    copying."""
    return path.parent.name != "logs"


def _altered(look: tuple[AnyPath, str | None]) -> str | None:
    path, digest = look
    if digest is None:
        return "was not collected"
    try:
        return (
            None if storage.digest(path) == digest else "differs from the file that was collected"
        )
    except OSError as error:
        return str(error)


# --- directories ----------------------------------------------------------------------------------
#
# The directories of the collected logs of a partition. They are below ``broker-<id>``, or below the
# number of one of a broker's log directories there.
#
# They are listed once for all partitions. In a store each lookup is a request, and there may be
# thousands of partitions on every broker.


Logs = Mapping[str, Sequence[tuple[int, AnyPath]]]
"""For each log directory name (``t-0``), the brokers in order and the place of their copies."""


def logs_of(replicas: AnyPath, is_whole: Callable[[AnyPath], bool]) -> Logs | None:
    """Return the intact logs below a directory, or None if the directory does not exist.
    Directories that cannot be read are skipped."""
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
