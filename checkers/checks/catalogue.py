"""The catalogue of all checkers, and the conditions that a plug-in's checker must meet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ackproof.checkers.checks.share_groups import SHARE_CHECKERS
from ackproof.checkers.interface import Extent, PluginChecker, Promised
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedCell, PlannedRun
from ackproof.history.names import PARTITIONED
from ackproof.plugins import Table
from ackproof.plugins.registration import NAME

_NAME_LENGTH_MAX = 60
_CALLED = ("examine", "concerns", "not_promised")


def as_checker(found: object, name: str, guarantees: Sequence[str] = ()) -> PluginChecker:
    """Return a registered object as the checker called ``name``. ``guarantees`` has the names of
    the built-in guarantees. Raises ValueError with a message that says what is wrong with the
    object."""
    if isinstance(found, type):
        raise ValueError(f"{found.__name__} is a class; register an instance of PluginChecker")
    if not isinstance(found, PluginChecker):
        raise ValueError(
            f"it has the type {type(found).__name__}; register an instance of "
            "ackproof.checkers.interface.PluginChecker"
        )
    for problem in _problems(found, name, guarantees):
        raise ValueError(problem)
    return found


def _problems(checker: PluginChecker, name: str, guarantees: Sequence[str]) -> Iterator[str]:
    if not NAME.fullmatch(name) or len(name) > _NAME_LENGTH_MAX:
        yield (
            f"{name!r} is not a valid name: use lower-case words joined by hyphens, with at "
            f"most {_NAME_LENGTH_MAX} characters"
        )
    if checker.name != name:
        yield f"it is registered as {name}, but its name is {checker.name!r}"
    if checker.breaks in guarantees:
        yield (
            f"its guarantee {checker.breaks!r} has the name of a built-in guarantee; choose "
            "another name"
        )
    for attribute in ("summary", "guarantee"):
        text = getattr(checker, attribute)
        if not isinstance(text, str) or len(text.splitlines()) != 1 or not text.strip():
            yield f"its {attribute} must be one line of text"
    if not isinstance(checker.extent, Extent):
        yield f"its extent must be one of {_members(Extent)}"
    if not isinstance(checker.promised, Promised):
        yield f"its promised must be one of {_members(Promised)}"
    uncallable = [one for one in _CALLED if not callable(getattr(checker, one))]
    if uncallable:
        yield f"{', '.join(uncallable)}: must be a function"
    yield from _table_problems(checker.reads)


def _table_problems(reads: object) -> Iterator[str]:
    from ackproof.history.schema import TABLES  # it imports Arrow

    if not isinstance(reads, Mapping) or not reads:
        yield "its reads must map each table to the columns that it reads"
        return
    for table, columns in reads.items():
        if table not in TABLES:
            yield (
                f"it reads the table {table!r}, which does not exist; the tables are "
                f"{', '.join(TABLES)}"
            )
            return
        if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
            yield f"it must give the columns of the table {table} as a list"
            return
        unknown = [one for one in columns if one not in TABLES[table].names]
        if unknown:
            known = ", ".join(TABLES[table].names)
            yield f"the table {table} has no column {unknown[0]!r}; its columns are {known}"


def _members(kind: type[Extent] | type[Promised]) -> str:
    return ", ".join(f"{kind.__name__}.{one.name}" for one in kind)


# --- catalogue ------------------------------------------------------------------------------------
#
# All checkers are in one explicit table. A new built-in checker is a function and a line here.
# Plug-ins add others under the entry-point group ``ackproof.checkers``. The functions are elsewhere
# (``partition_rules.py``), because commands that only list checkers must not import Arrow.


VANISHED = "vanished-read"
INCONSISTENT = "inconsistent-read"
SKIPPED = "poll-skip"
NONMONOTONIC = "nonmonotonic-poll"
UNSEEN = "unseen"
COMMIT_LOST = "commit-lost"
COMMIT_REGRESSED = "commit-regressed"
SKIPPED_BY_COMMIT = "skipped-by-commit"
UNSEEN_TOMBSTONE = "unseen-tombstone"

TOO_EARLY = "tombstone-too-early"
RESURRECTED_VALUE = "resurrected-value"

ABORTED_READ = "aborted-read"
PRECOMMITTED_READ = "precommitted-read"
LOST_COMMIT = "lost-commit"
TORN = "torn-transaction"
RESURRECTED = "resurrected-write"
ZOMBIE = "zombie-write"
OFFSETS_ALONE = "offsets-without-records"
RECORDS_ALONE = "records-without-offsets"
TWICE = "transformed-twice"
G0 = "G0"
G1C = "G1c"
DIVERGENT = "divergent-replicas"
"""The checker of raw logs. It is not a rule, because its input is not the history."""

PARTITIONS: Mapping[str, str] = {
    "lost": "acked, but absent from the partition's final log",
    "deleted-too-early": "deleted by retention before retention.ms and retention.bytes allowed it",
    TOO_EARLY: "a tombstone removed before delete.retention.ms had passed",
    RESURRECTED_VALUE: "last of its key in the final log, but a tombstone was acked behind it",
    "offset-mismatch": (
        "acked at one offset, but present only at others, or another record was acked there"
    ),
    "duplicated": "one sent record at two or more offsets of the final log",
    "reordered": "in the log behind a record that its producer sent later",
    "phantom": ("in the final log, but never sent to that partition; or an undecodable payload"),
    "wrong-topic": "in the final log of another topic than it was sent to",
    "failed-but-present": "certainly failed, but present in the final log",
    "offset-gap": ("offsets between the start and end of the final log that hold no record"),
    "nonmonotonic-send": "acked at a lower offset than a record that its producer sent before",
    "watermark-regressed": (
        "acked by all in-sync replicas, but the log of a later leader, or the end "
        "that ListOffsets returned later, was below it"
    ),
    "epoch-regressed": (
        "a leader epoch that went back: in ZooKeeper, at a broker, or in the final log"
    ),
    "two-leaders": "a leader epoch with two leaders",
    "stale-leader-ack": (
        "acked by a former leader that had been replaced before the record was sent"
    ),
    "acked-below-min-isr": "acked with acks=all while the ISR was smaller than min.insync.replicas",
}
"""The checkers of the history of one partition, whose rules are in
:data:`checkers.checks.partition_rules.CHECKERS`, each with what it finds."""

CONSUMPTION: Mapping[str, str] = {
    VANISHED: "read by a consumer, but the final log has no record at that offset",
    INCONSISTENT: "an offset at which two reads, or a read and an ack, contradict each other",
    SKIPPED: "in the final log, but skipped by a consumer that read on",
    NONMONOTONIC: "read by a consumer at or below the offset that it read just before",
    UNSEEN: "acked and in the final log, but never read by a tail reader that read past it",
    COMMIT_LOST: "an offset that a group committed, but a member later read back no commit",
    COMMIT_REGRESSED: "an offset that a group committed, but a member later read back an older one",
    SKIPPED_BY_COMMIT: (
        "in the final log, but an at-least-once group committed past it and no member had read it"
    ),
    UNSEEN_TOMBSTONE: "a tombstone that a consumer of an older value passed unread",
}
"""The checkers of reads and commits, which examine one consumer or group after the other."""

TRANSACTION_CHECKERS: Mapping[str, str] = {
    ABORTED_READ: "read by a consumer, but its transaction was not committed (G1a)",
    PRECOMMITTED_READ: "read by a read_committed consumer before its commit was requested",
    LOST_COMMIT: "a transaction whose commit was answered, but none of its records is committed",
    TORN: "a transaction with committed and uncommitted records",
    RESURRECTED: "committed in the final log, but its transaction was not committed",
    ZOMBIE: "committed in the final log, but sent by a producer that had been fenced",
    OFFSETS_ALONE: (
        "below the offset that a group committed, but no committed transaction processed it"
    ),
    RECORDS_ALONE: (
        "processed by a committed transaction, but its group has not committed its offset"
    ),
    TWICE: "processed by two committed transactions",
    G0: "a cycle of transactions that each wrote after the one before",
    G1C: "a cycle of transactions that each read the one before or followed it in its session",
}
"""The checkers of transactions."""

BREAKS: Mapping[str, str] = {
    "lost": "no-acked-record-lost",
    "deleted-too-early": "kept-until-retention",
    TOO_EARLY: "tombstones-kept",
    RESURRECTED_VALUE: "deleted-keys-stay-deleted",
    "offset-mismatch": "acked-offset-kept",
    "duplicated": "no-duplicates",
    "reordered": "no-reordering",
    "phantom": "no-phantom",
    "wrong-topic": "own-topic",
    "failed-but-present": "failed-records-absent",
    "offset-gap": "no-offset-gap",
    "nonmonotonic-send": "acks-in-order",
    "watermark-regressed": "committed-stays",
    "epoch-regressed": "epochs-rise",
    "two-leaders": "one-leader-an-epoch",
    "stale-leader-ack": "deposed-leaders-stop",
    "acked-below-min-isr": "min-isr-kept",
    VANISHED: "reads-stay",
    INCONSISTENT: "reads-agree",
    SKIPPED: "no-poll-skip",
    NONMONOTONIC: "polls-in-order",
    UNSEEN: "no-unseen",
    COMMIT_LOST: "commits-kept",
    COMMIT_REGRESSED: "commits-in-order",
    SKIPPED_BY_COMMIT: "nothing-skipped-by-commit",
    UNSEEN_TOMBSTONE: "deletions-read",
    LOST_COMMIT: "committed-transactions-kept",
    TORN: "transactions-whole",
    RESURRECTED: "aborted-stays-aborted",
    ZOMBIE: "zombies-fenced",
    ABORTED_READ: "no-aborted-read",
    PRECOMMITTED_READ: "no-precommitted-read",
    G1C: "no-circular-reads",
    OFFSETS_ALONE: "offsets-with-records",
    RECORDS_ALONE: "records-with-offsets",
    TWICE: "transformed-once",
    DIVERGENT: "replicas-agree",
}
"""The guarantee that an anomaly of a built-in checker violates; ``G0`` violates none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInChecker:
    """A built-in checker: what one of its anomalies is, and the guarantee that it violates."""

    summary: str
    breaks: str | None


_SUMMARIES: Mapping[str, str] = {
    **PARTITIONS,
    **CONSUMPTION,
    **TRANSACTION_CHECKERS,
    DIVERGENT: "in-sync replicas whose raw logs differ below the end of the final read",
}

CATALOGUE: Table[BuiltInChecker | PluginChecker] = Table(
    "ackproof.checkers",
    "checker",
    {
        **{
            name: BuiltInChecker(summary=summary, breaks=BREAKS.get(name))
            for name, summary in _SUMMARIES.items()
        },
        **SHARE_CHECKERS,
    },
    partial(as_checker, guarantees=tuple(BREAKS.values())),
)
"""Every checker, by the name of its anomalies."""


def provider(name: str) -> str | None:
    """Return the plug-in that provides a checker, with its version, or None for a built-in one."""
    plugin = CATALOGUE.plugin(name)
    return None if plugin is None else str(plugin)


def plugin_checkers() -> Mapping[str, PluginChecker]:
    """Return the usable checkers with the interface of plug-ins by name, and import all of them."""
    return {name: one for name, one in CATALOGUE.items() if isinstance(one, PluginChecker)}


def concerned(run: PlannedRun, planned: PlannedCell) -> Mapping[str, PluginChecker]:
    """Return the checkers of plug-ins that apply to a cell, by name: those for which all tables are
    recorded and whose ``concerns`` returns true. If ``concerns`` raises an exception, the checker
    applies."""
    return {
        name: checker
        for name, checker in plugin_checkers().items()
        if _is_recorded(checker, run, planned.cell) and _concerns(checker, planned.cell)
    }


def _is_recorded(checker: PluginChecker, run: PlannedRun, cell: Cell) -> bool:
    mine = set(cell.topic_partitions)
    recorded = {
        writer.table
        for writer in run.writers
        if writer.table not in PARTITIONED or mine.intersection(writer.partitions)
    }
    return recorded >= checker.reads.keys()


def _concerns(checker: PluginChecker, cell: Cell) -> bool:
    try:
        return bool(checker.concerns(cell))
    except (Exception, SystemExit):  # noqa: BLE001 - the examination reports it
        return True
