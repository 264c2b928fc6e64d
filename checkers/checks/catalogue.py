"""The catalogue of all checkers, and the conditions that a plug-in's checker must meet."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from ackproof.checkers.checks.acks import (
    acked_below_min_isr,
    nonmonotonic_send,
    stale_leader_ack,
    watermark_regressed,
)
from ackproof.checkers.checks.read_anomalies import (
    COMMIT_LOST,
    COMMIT_REGRESSED,
    INCONSISTENT,
    NONMONOTONIC,
    SKIPPED,
    SKIPPED_BY_COMMIT,
    UNSEEN,
    VANISHED,
)
from ackproof.checkers.checks.records import (
    deleted_too_early,
    duplicated,
    epoch_regressed,
    failed_but_present,
    lost,
    offset_gap,
    offset_mismatch,
    phantom,
    reordered,
    two_leaders,
)
from ackproof.checkers.checks.replicas import DIVERGENT
from ackproof.checkers.checks.share_groups import SHARE_CHECKERS
from ackproof.checkers.checks.transaction_history import (
    ABORTED_READ,
    G1C,
    LOST_COMMIT,
    OFFSETS_ALONE,
    PRECOMMITTED_READ,
    RECORDS_ALONE,
    RESURRECTED,
    SUMMARIES,
    TORN,
    TWICE,
    ZOMBIE,
)
from ackproof.checkers.index.partition_history import PartitionHistory
from ackproof.checkers.interface import Extent, PluginChecker, Promised
from ackproof.history.schema import TABLES
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
# Plug-ins add others under the entry-point group ``ackproof.checkers``.


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRule:
    """A rule for the history of one partition, with one line that says what it finds."""

    rule: Callable[[PartitionHistory], pa.Table]
    summary: str


CHECKERS: Mapping[str, PartitionRule] = {
    "lost": PartitionRule(rule=lost, summary="acked, but absent from the partition's final log"),
    "deleted-too-early": PartitionRule(
        rule=deleted_too_early,
        summary="deleted by retention before retention.ms and retention.bytes allowed it",
    ),
    "offset-mismatch": PartitionRule(
        rule=offset_mismatch,
        summary=(
            "acked at one offset, but present only at others, or another record was acked there"
        ),
    ),
    "duplicated": PartitionRule(
        rule=duplicated, summary="one sent record at two or more offsets of the final log"
    ),
    "reordered": PartitionRule(
        rule=reordered, summary="in the log behind a record that its producer sent later"
    ),
    "phantom": PartitionRule(
        rule=phantom,
        summary=("in the final log, but never sent to that partition; or an undecodable payload"),
    ),
    "failed-but-present": PartitionRule(
        rule=failed_but_present, summary="certainly failed, but present in the final log"
    ),
    "offset-gap": PartitionRule(
        rule=offset_gap,
        summary=("offsets between the start and end of the final log that hold no record"),
    ),
    "nonmonotonic-send": PartitionRule(
        rule=nonmonotonic_send,
        summary="acked at a lower offset than a record that its producer sent before",
    ),
    "watermark-regressed": PartitionRule(
        rule=watermark_regressed,
        summary=(
            "acked by all in-sync replicas, but the log of a later leader, or the end "
            "that ListOffsets returned later, was below it"
        ),
    ),
    "epoch-regressed": PartitionRule(
        rule=epoch_regressed,
        summary="a leader epoch that went back: in ZooKeeper, at a broker, or in the final log",
    ),
    "two-leaders": PartitionRule(rule=two_leaders, summary="a leader epoch with two leaders"),
    "stale-leader-ack": PartitionRule(
        rule=stale_leader_ack,
        summary=("acked by a former leader that had been replaced before the record was sent"),
    ),
    "acked-below-min-isr": PartitionRule(
        rule=acked_below_min_isr,
        summary="acked with acks=all while the ISR was smaller than min.insync.replicas",
    ),
}

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
}
"""The checkers of reads and commits, which examine one consumer or group after the other."""

BREAKS: Mapping[str, str] = {
    "lost": "no-acked-record-lost",
    "deleted-too-early": "kept-until-retention",
    "offset-mismatch": "acked-offset-kept",
    "duplicated": "no-duplicates",
    "reordered": "no-reordering",
    "phantom": "no-phantom",
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
    **{name: rule.summary for name, rule in CHECKERS.items()},
    **CONSUMPTION,
    **SUMMARIES,
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
