"""The brokers' own state-change logs: leaders, leader epochs, ISRs, and truncations of followers.

The logs that were collected from the servers are evidence like the history. A flipped bit in a copy
can look like divergent replicas; the CRC of a batch does not cover its leader epoch, for example.
The step ``collect`` therefore records a digest of each file, and an altered file is not read.
Results from before there were digests are trusted.
"""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from ackproof.checkers.context.faults import BROKER, Partition
from ackproof.history import storage
from ackproof.history.manifest import PlannedRun
from ackproof.history.storage import AnyPath, StoredPath, directories, each, matching

# --- collected files ------------------------------------------------------------------------------

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


# --- state-change logs ----------------------------------------------------------------------------

PARSE_ERRORS = (KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""The exceptions that parsing a line without meaning raises."""

_EVENTS = ('"completed"', '"received"', '"Truncate"')
"""The marks of those lines of the bundled broker that are JSON objects."""

_NUMBERS = ("broker", "leader", "leader_epoch", "leader_epoch_start_offset", "high_watermark")
_NUMBER_MAX = 2**63

_T = TypeVar("_T")


def parsed(
    logs: AnyPath,
    understand: Callable[[Iterable[str]], Iterator[_T]],
    without: Container[AnyPath] = (),
) -> Iterator[_T]:
    """Yield what ``understand`` returns for the lines of each broker's log, one broker after the
    other. The files ``without`` are skipped."""
    for path in _files(logs, without):
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                yield from understand(lines)
        except OSError:
            continue


def unreadable_lines(logs: AnyPath, without: Container[AnyPath] = ()) -> Iterator[str]:
    """Yield a sentence for each log that has lines which no broker writes.

    Half a line is not one of these, because a broker that was killed leaves one.
    """
    for path in _files(logs, without):
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                strange = [number for number, line in enumerate(lines, 1) if _is_unreadable(line)]
        except OSError:
            continue
        if strange:
            where = f"{path.parent.name}/{path.name}"
            yield (
                f"{where}: skipped {len(strange)} unreadable line(s), the first is line "
                f"{strange[0]}"
            )


def object_in(line: str) -> Mapping[str, Any]:
    """Return the JSON object between the first and the last brace of a line, or an empty one. A
    broker that was killed may have left half a line, and its next process continues on the same
    line."""
    try:
        entry = _object(line)
    except PARSE_ERRORS:
        return {}
    return entry if isinstance(entry, dict) else {}


def partition_in(entry: Mapping[str, Any]) -> Partition:
    """Return the partition that an object names. Raises as :func:`number`."""
    topic, _, partition = str(entry["partition"]).rpartition("-")
    return topic, number(partition)


def number(entry: Any) -> int:
    """Return a whole number of at most 63 bits. Raises one of :data:`PARSE_ERRORS` for any other
    value."""
    found = int(entry)
    if abs(found) >= _NUMBER_MAX:
        raise OverflowError(f"{found:.3g} is larger than any number that Kafka uses")
    return found


def _files(logs: AnyPath, without: Container[AnyPath]) -> Iterator[AnyPath]:
    nodes = [path for path in matching(logs, "broker-*") if BROKER.fullmatch(path.name)]
    return (path for node in nodes for path in matching(node, "*.log") if path not in without)


def _object(line: str) -> Any:
    return json.loads(line[line.index("{") : line.rindex("}") + 1])


def _is_unreadable(line: str) -> bool:
    if not any(mark in line for mark in _EVENTS):
        return False
    try:
        entry = _object(line)
        for name in _NUMBERS if isinstance(entry, dict) else ():
            if entry.get(name) is not None:
                number(entry[name])
    except json.JSONDecodeError:
        return False
    except ValueError as error:
        return "substring not found" not in str(error)
    except PARSE_ERRORS:
        return True
    return not isinstance(entry, dict)


# --- words ----------------------------------------------------------------------------------------
#
# The roles of brokers, from the lines of their state-change logs as the step ``collect`` copied
# them.
#
# A broker writes a line whenever it takes a role (Kafka's ``state.change.logger``). The line has
# the partition, its leader and the leader epoch. If the broker itself is the leader, the line also
# has the log end offset at which that epoch began. The bundled broker's lines are one JSON object
# each. Apache Kafka's are sentences, of which those of leaders are read, e.g. ::
#
#     [Broker id=1] Leader t-0 with topic id Some(QcD) starts at leader epoch 3 from offset 9 ...
#     [Partition t-0 broker=1] t-0 starts at Leader Epoch 3 from offset 9. ...
#
# The bundled broker first writes what the controller told it, as ``received``.
#
# A broker of KRaft answers requests once it has registered, and takes roles before. It may begin to
# lead in an epoch in which it was elected while it was down, because its session had not expired.
# If it learns of the next leader before it answers any request, it never led in any way that others
# see (:func:`_with_effect`).
#
# The times of these lines are not used. They come from the broker's clock, which was not compared
# and which faults may set, in the broker's time zone. Only the order within one process counts, and
# which broker says what about an epoch.


_ORDER = "LeaderAndIsr"
_ROLES = frozenset({_ORDER, "LeaderChange"})
"""The sources of a broker's role: the controller, or the metadata that it read where leaders
coordinate themselves."""
_BEGINNING = re.compile(r"\bconnecting to ZooKeeper at|\b[Rr]egistered broker \d")
"""The first line of a process, and the line of each registration. Where leaders coordinate
themselves, a broker takes roles before it registers, and may be asked for one that its former
process had left long before."""
_STARTS, _ANSWERS = (
    re.compile(r"\[BrokerServer id=\d+\] Transition from SHUTDOWN to STARTING"),
    re.compile(r"\[SocketServer listenerType=BROKER, .*?Enabling request processing"),
)
"""The line with which a process of a KRaft broker begins, and that from which on it answers."""
_KAFKA = (
    re.compile(
        r"\[Broker id=(?P<broker>\d+)\] Leader (?P<partition>\S+) .*?"
        r"starts at leader epoch (?P<epoch>\d+) from offset (?P<end>\d+) "
        r"(?:with .*?high watermark (?P<watermark>\d+))?"
    ),
    re.compile(
        r"\[Partition (?P<partition>\S+) broker=(?P<broker>\d+)\] \S+ "
        r"starts at Leader Epoch (?P<epoch>\d+) from offset (?P<end>\d+)\."
        r"(?: .*?[Hh]igh [Ww]atermark:? (?P<watermark>\d+))?"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One role that a broker took.

    Attributes:
        broker: The id of the broker.
        life: The number of the broker's process, from 0. State that is lost with a process is lost
            between two of these.
        leader: The leader as the broker knows it: itself, the broker that it follows, or -1 for
            none.
        leader_epoch: The leader epoch.
        log_end: The log end offset if the broker leads and reports it, otherwise None.
        high_watermark: The high watermark at that moment, under the same condition.
    """

    broker: int
    life: int
    leader: int
    leader_epoch: int
    log_end: int | None = None
    high_watermark: int | None = None

    @property
    def leads(self) -> bool:
        """Whether the broker itself is the leader."""
        return self.leader == self.broker


def roles_of(logs: AnyPath, without: Container[AnyPath] = ()) -> dict[Partition, tuple[Role, ...]]:
    """Return the roles that brokers took for each partition, those of each broker in their order.

    Args:
        logs: The directory of the nodes' logs, which need not exist. Unreadable files are skipped.
        without: Files to skip.
    """
    found: dict[Partition, list[Role]] = {}
    for partition, word in parsed(logs, _words, without):
        found.setdefault(partition, []).append(word)
    return {partition: tuple(entry) for partition, entry in found.items()}


def orders_of(
    logs: AnyPath, without: Container[AnyPath] = ()
) -> dict[Partition, dict[int, list[int]]]:
    """Return the leader epochs in which each broker acted, or was told to, by partition and broker,
    in the order of the broker's log.

    The bundled broker writes a line (``received``) before it acts, and Apache Kafka's brokers when
    they begin to lead or, from 3.0 on, to follow. So none led in an epoch without a line.

    Args:
        logs, without: As in :func:`roles_of`.
    """
    found: dict[Partition, dict[int, list[int]]] = {}
    for partition, broker, epoch in parsed(logs, _orders, without):
        found.setdefault(partition, {}).setdefault(broker, []).append(epoch)
    return found


def _words(lines: Iterable[str]) -> Iterator[tuple[Partition, Role]]:
    life = 0
    for line in _with_effect(lines):
        if _BEGINNING.search(line):
            life += 1
        elif " starts at " in line:
            with suppress(*PARSE_ERRORS):
                yield from _kafka_word(line, life)
        elif '"completed"' in line and _is_one_of(entry := object_in(line), _ROLES):
            try:
                yield _word(entry, life)
            except PARSE_ERRORS:
                continue


def _orders(lines: Iterable[str]) -> Iterator[tuple[Partition, int, int]]:
    for line in _with_effect(lines):
        if " starts at " in line:
            with suppress(*PARSE_ERRORS):
                yield from _kafka_order(line)
        # The last object is complete even after half a line. An order must not seem to be absent
        # because its line was not understood.
        entry = object_in(line[line.rfind("{") :]) if '"received"' in line else {}
        if entry.get("event") == "received" and entry.get("change") == _ORDER:
            try:
                partition, word = _word(entry, 0)
            except PARSE_ERRORS:
                continue
            yield partition, word.broker, word.leader_epoch


def _with_effect(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines but those of leaders that were deposed before they answered any request.

    Example: brokers 2 and 3 lose power. The controller hears of the loss from 2 first, and elects
    3, which is still starting. Broker 3 begins to lead with what is left of its log, registers, and
    follows broker 4, which has everything. Without this, its epoch seems to begin below the high
    watermark. A process that ended before it answered led in no epoch; a release whose processes
    never say that they answer is not known to do so.
    """
    held: list[str] | None = None
    says_so = False
    for line in lines:
        if _STARTS.search(line):
            yield from (one for one in held or () if not says_so or not _leads(one))
            held = []
        if held is None:
            yield line
            continue
        held.append(line)
        if _ANSWERS.search(line):
            yield from _not_overtaken(held)
            held, says_so = None, True
    yield from held or ()


def _leads(line: str) -> bool:
    return any(pattern.search(line) for pattern in _KAFKA)


def _not_overtaken(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines but those of leaders whose broker later took a role in a later epoch."""
    latest: dict[Partition, int] = {}
    kept = []
    for line in reversed(lines):
        with suppress(*PARSE_ERRORS):
            for partition, _, epoch in _kafka_order(line):
                latest[partition] = max(epoch, latest.get(partition, epoch))
            if any(
                role.leader_epoch < latest[partition] for partition, role in _kafka_word(line, 0)
            ):
                continue
        kept.append(line)
    yield from reversed(kept)


def _kafka_word(line: str, life: int) -> Iterator[tuple[Partition, Role]]:
    for found in filter(None, (pattern.search(line) for pattern in _KAFKA)):
        topic, _, partition = found["partition"].rpartition("-")
        if partition.isdecimal():
            broker = number(found["broker"])
            word = Role(
                broker=broker,
                life=life,
                leader=broker,
                leader_epoch=number(found["epoch"]),
                log_end=number(found["end"]),
                high_watermark=_number(found["watermark"]),
            )
            yield (topic, number(partition)), word


def _kafka_order(line: str) -> Iterator[tuple[Partition, int, int]]:
    for found in filter(None, (pattern.search(line) for pattern in (*_KAFKA, _FOLLOWS))):
        partition = partition_in(found.groupdict())
        yield partition, number(found["broker"]), number(found["epoch"])


def _is_one_of(entry: Mapping[str, Any], changes: frozenset[str]) -> bool:
    change = entry.get("change")
    return isinstance(change, str) and change in changes


def _word(entry: Mapping[str, Any], life: int) -> tuple[Partition, Role]:
    word = Role(
        broker=number(entry["broker"]),
        life=life,
        leader=number(entry["leader"]),
        leader_epoch=number(entry["leader_epoch"]),
        log_end=_number(entry.get("leader_epoch_start_offset")),
        high_watermark=_number(entry.get("high_watermark")),
    )
    return partition_in(entry), word


def _number(entry: Any) -> int | None:
    return None if entry is None else number(entry)


# --- truncations ----------------------------------------------------------------------------------
#
# Truncations, as the brokers' own logs report them and the step ``collect`` copied them.
#
# A follower truncates what its leader does not have. The bundled broker then writes a line of its
# state-change log, one JSON object (``change``: Truncate). Apache Kafka's followers write
# sentences, e.g. ::
#
#     [ReplicaFetcher replicaId=1, leaderId=3, fetcherId=0] Truncating partition t-0 with
#     TruncationState(offset=9, completed=true) due to leader epoch and offset EpochEndOffset(...)
#
# (``AbstractFetcherThread``). These name neither the epoch in which the follower follows nor its
# former log end offset. The epoch is in the earlier line with which it became a follower. The log
# end offset is unknown.


_FOLLOWS = re.compile(
    r"\[Broker id=(?P<broker>\d+)\] Follower (?P<partition>\S+) .*?"
    r"starts at leader epoch (?P<epoch>\d+) .*?Current leader is (?P<leader>-?\d+)"
)
_TRUNCATES = re.compile(
    r"replicaId=(?P<broker>\d+), leaderId=(?P<leader>\d+)[^\]]*\] "
    r"Truncating partition (?P<partition>\S+) with \w+\(offset=(?P<offset>\d+), "
    r".*? due to (?P<grounds>.*)"
)
_EPOCH_END = re.compile(r"leaderEpoch=(?P<epoch>-?\d+), endOffset=(?P<end>-?\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTruncation:
    """A truncation of a broker's log of a partition to ``offset``.

    Attributes:
        broker: The id of the broker.
        leader, leader_epoch: The leader that it followed, and its epoch; -1 if unknown.
        log_end: The log end offset before the truncation. None if it is unknown; then it is also
            unknown whether the broker discarded any record.
        offset: The log end offset after the truncation.
        due_to: The reason, as the broker states it.
    """

    broker: int
    leader: int
    leader_epoch: int
    log_end: int | None
    offset: int
    due_to: str


def truncations_of(
    logs: AnyPath, without: Container[AnyPath] = ()
) -> dict[Partition, tuple[ReplicaTruncation, ...]]:
    """Return the truncations that brokers report by partition, those of each broker in their order.

    Args:
        logs: The directory of the nodes' logs, which need not exist.
        without: Files to skip.
    """
    found: dict[Partition, list[ReplicaTruncation]] = {}
    for partition, truncation in parsed(logs, _truncations, without):
        found.setdefault(partition, []).append(truncation)
    return {partition: tuple(entry) for partition, entry in found.items()}


def _truncations(lines: Iterable[str]) -> Iterator[tuple[Partition, ReplicaTruncation]]:
    following: dict[str, int] = {}
    for line in lines:
        if '"Truncate"' in line:
            try:
                yield _truncation(object_in(line))
            except PARSE_ERRORS:
                continue
        elif "Follower" in line and (follows := _FOLLOWS.search(line)):
            with suppress(*PARSE_ERRORS):
                following[follows["partition"]] = number(follows["epoch"])
        elif "Truncating partition" in line and (truncates := _TRUNCATES.search(line)):
            with suppress(*PARSE_ERRORS):
                yield from _kafka_truncation(truncates, following.get(truncates["partition"], -1))


def _truncation(entry: Mapping[str, Any]) -> tuple[Partition, ReplicaTruncation]:
    truncation = ReplicaTruncation(
        broker=number(entry["broker"]),
        leader=number(entry["leader"]),
        leader_epoch=number(entry["leader_epoch"]),
        log_end=number(entry["log_end_offset"]),
        offset=number(entry["offset"]),
        due_to=str(entry["due_to"]),
    )
    return partition_in(entry), truncation


def _kafka_truncation(
    truncates: re.Match[str], epoch: int
) -> Iterator[tuple[Partition, ReplicaTruncation]]:
    topic, _, partition = truncates["partition"].rpartition("-")
    if partition.isdecimal():
        truncation = ReplicaTruncation(
            broker=number(truncates["broker"]),
            leader=number(truncates["leader"]),
            leader_epoch=epoch,
            log_end=None,
            offset=number(truncates["offset"]),
            due_to=_grounds(truncates["grounds"]),
        )
        yield (topic, number(partition)), truncation


def _grounds(words: str) -> str:
    """Return the leader's answer in short: ``leader epoch 2 and offset 9``."""
    if entry := _EPOCH_END.search(words):
        return f"leader epoch {entry['epoch']} and offset {entry['end']}"
    return "local high watermark" if "high watermark" in words else words.strip()
