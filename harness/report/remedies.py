"""Advice against root causes: a setting, if there is one, and else who has to mend them.

The advice follows from the kind of the root cause and from the settings of its cell. It is what
Kafka's documentation says of the settings, and no run has confirmed it for this cluster.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.history.cell import Cell, Value

ORDERED = "elect-unclean"
"""The fault in which an administrator orders the election of a replica outside the ISR."""

LOSE_UNFLUSHED = ("power-failure", "disk-failure", "read-only")
"""The faults in which brokers lose what they had not flushed."""

_NEEDED = frozenset({"acks", "min.insync.replicas"})


def _always(_cell: Cell, _faults: Sequence[str]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Remedy:
    """One advice against a kind of root cause.

    Attributes:
        advice: It, in one to three sentences.
        source: Where it is documented: a property of Kafka's configuration, a KIP or an issue.
        applies: Whether it applies to a cell in which these faults were involved.
    """

    advice: str
    source: str
    applies: Callable[[Cell, Sequence[str]], bool] = _always


def remedy(kind: str, settings: Mapping[str, Value], faults: Sequence[str]) -> str:
    """Return what prevents a root cause in a cell with these settings.

    Args:
        kind: A :class:`CauseKind`. For any other text the result is empty, as it is for settings
            without ``acks`` or ``min.insync.replicas``.
        settings: The settings of the cell, with those of its cluster that vary.
        faults: The faults that were involved, as ``kill#4``.
    """
    if not settings.keys() >= _NEEDED:
        return ""
    cell = Cell(name="", topic="", settings=settings)
    found = (one for one in REMEDIES.get(kind, ()) if one.applies(cell, faults))
    return next((f"{one.advice} ({one.source})" for one in found), "")


def remedies(
    kind: str, cells: Iterable[Mapping[str, Value]], faults: Sequence[str]
) -> tuple[str, ...]:
    """Return the different remedies of a root cause in several cells."""
    found = dict.fromkeys(remedy(kind, settings, faults) for settings in cells)
    return tuple(one for one in found if one)


def _leader_alone(cell: Cell, _faults: Sequence[str]) -> bool:
    """Return whether acks do not wait for the followers."""
    return cell.acks != "all"


def _isr_of_one(cell: Cell, _faults: Sequence[str]) -> bool:
    """Return whether acks can come from a leader whose followers have all left the ISR."""
    return cell.min_insync_replicas < 2


def _unclean(cell: Cell, _faults: Sequence[str]) -> bool:
    return cell.unclean_leader_election


def _ordered(_cell: Cell, faults: Sequence[str]) -> bool:
    return any(name.partition("#")[0] == ORDERED for name in faults)


def _unflushed_lost(_cell: Cell, faults: Sequence[str]) -> bool:
    return any(name.partition("#")[0] in LOSE_UNFLUSHED for name in faults)


_WAIT = Remedy(
    "acks=all with min.insync.replicas=2: then at least two replicas have a record before its ack.",
    "producer acks, topic min.insync.replicas",
    _leader_alone,
)
_ALONE = Remedy(
    "acks=all with min.insync.replicas=2: until then the leader acknowledges alone, which permits "
    "a loss whatever its cause.",
    "producer acks, topic min.insync.replicas",
    _leader_alone,
)
_TWO = Remedy(
    "min.insync.replicas=2: with 1, the ISR can shrink to the leader, and its acks then rest on "
    "one replica.",
    "topic min.insync.replicas",
    _isr_of_one,
)
_DISKS = Remedy(
    "Replicas that do not lose their disks together (broker.rack); Kafka acknowledges before it "
    "flushes, unless flush.messages=1. If only the last replica of the ISR lost its disk: eligible "
    "leader replicas, from Kafka 4.0 on.",
    "KIP-966, topic flush.messages",
)
_IDEMPOTENT = Remedy(
    "enable.idempotence=true: the leader then recognises records that are sent again.", "KIP-98"
)
_SEVERAL_SESSIONS = Remedy(
    "Transactions, or consumers that skip repetitions: idempotence ends with the session of the "
    "producer.",
    "KIP-98",
)


def _defect(rule: str, source: str) -> Remedy:
    """Return the remedy of what no setting permits."""
    return Remedy(
        f"No setting: this is a defect. {rule} Try another release, or report it.", source
    )


_KEPT = _defect(
    "Retention must not delete a segment before retention.ms or retention.bytes allow it.",
    "topic retention.ms, retention.bytes",
)
_TOMBSTONES_KEPT = _defect(
    "A cleaner must keep a tombstone for delete.retention.ms after it first passed it.",
    "KIP-534, topic delete.retention.ms",
)

REMEDIES: Mapping[str, Sequence[Remedy]] = {
    CauseKind.DEPOSED_LEADER: (
        _WAIT,
        _defect("A deposed leader must not complete a write with acks=all.", "KIP-101, KIP-497"),
    ),
    CauseKind.UNCLEAN_ELECTION: (
        Remedy(
            "unclean.leader.election.enable=false: the partition then waits for a replica of the "
            "ISR.",
            "topic unclean.leader.election.enable",
            _unclean,
        ),
        Remedy(
            "No unclean election by an administrator while a replica of the ISR can come back.",
            "KIP-460",
            _ordered,
        ),
        Remedy(
            "flush.messages=1: records that no replica had flushed are lost with its disk. While "
            "the ISR is empty, one of the eligible leader replicas or the last leader may be "
            "elected (new clusters of Kafka 4.1 or newer).",
            "topic flush.messages, KIP-966",
            _unflushed_lost,
        ),
        _defect(
            "With unclean.leader.election.enable=false only an order "
            "(kafka-leader-election --election-type unclean) elects a broker outside the ISR: ask "
            "whether an administrator gave one.",
            "KIP-460, topic unclean.leader.election.enable",
        ),
    ),
    CauseKind.LOST_FROM_DISK: (_WAIT, _TWO, _DISKS),
    CauseKind.TRUNCATED_BEFORE_LEADING: (
        _WAIT,
        _defect("A follower must not truncate committed records.", "KIP-101, KIP-279"),
    ),
    CauseKind.ISR_EXPANDED_TOO_EARLY: (
        _WAIT,
        _defect(
            "A replica may join the ISR only with everything before the leader's epoch, as in "
            "Kafka from 2.0.1 on.",
            "KAFKA-7128",
        ),
    ),
    CauseKind.NOT_REPLICATED: (
        _WAIT,
        _defect("With acks=all an ack must wait for every replica of the ISR.", "producer acks"),
    ),
    CauseKind.UNANSWERED: (
        Remedy(
            "acks=all with min.insync.replicas=2: with acks=0 no broker says whether it has a "
            "record.",
            "producer acks, topic min.insync.replicas",
        ),
    ),
    CauseKind.DEDUPLICATED: (
        _defect(
            "Either the client numbered new records like earlier ones, or the broker confused "
            "them: try another client library as well.",
            "KIP-98",
        ),
    ),
    CauseKind.BELOW_LOG_START: (
        Remedy(
            "A longer retention.ms or larger retention.bytes, and no DeleteRecords above what is "
            "still needed.",
            "topic retention.ms, retention.bytes",
        ),
    ),
    CauseKind.DELETED_TOO_EARLY: (_KEPT,),
    CauseKind.TOMBSTONE_TOO_EARLY: (_TOMBSTONES_KEPT,),
    CauseKind.RETRIED: (_IDEMPOTENT,),
    CauseKind.RETRIED_AT_NEXT_LEADER: (_IDEMPOTENT,),
    CauseKind.NEW_SESSION: (_SEVERAL_SESSIONS,),
    CauseKind.RENUMBERED: (
        _defect(
            "A client must keep the sequence numbers of a batch that it sends again: try "
            "another client library.",
            "KIP-98",
        ),
    ),
    CauseKind.FORGOTTEN: (_TWO, _DISKS),
    CauseKind.NOT_TRUNCATED: (
        _defect("A follower must truncate its log to the leader's epochs.", "KIP-101, KIP-279"),
    ),
    CauseKind.REFILLED: (_TWO, _DISKS),
    CauseKind.TWO_LEADERS: (_defect("A leader epoch must have one leader.", "KIP-101"),),
    CauseKind.DAMAGED: (
        Remedy(
            "No setting. Delete the damaged log of that replica while another one in the ISR has "
            "the records, and it fetches them again.",
            "KIP-112",
        ),
    ),
    CauseKind.NOT_FETCHED: (
        _defect("A follower must fetch what it lacks before it joins the ISR.", "KIP-101"),
    ),
    CauseKind.UNEXPLAINED: (_ALONE,),
    CauseKind.UNKNOWN: (_ALONE,),
}
"""The remedies of each kind of root cause. The first that applies counts. Where the cause is not
known, nothing is advised but the setting without which any leader may lose what it acknowledged."""

_TRANSACTION = _defect(
    "A transaction must become visible as a whole or not at all, and a fenced producer must add "
    "nothing to it.",
    "KIP-98, KIP-890",
)
_WITH_OFFSETS = _defect(
    "The output of a transaction and the offsets of its input must be committed together.",
    "KIP-98, KIP-447",
)
_ONE_LEADER = _defect("A leader epoch must have one leader, and epochs must rise.", "KIP-101")
_ORDER = _defect(
    "An idempotent producer's batches must be appended in the order of their sequence numbers; "
    "client and broker both number them.",
    "KIP-98",
)
_FETCH = _defect(
    "A fetch must return the records from the requested offset on, in order; client and broker "
    "both follow that offset.",
    "Kafka protocol, Fetch",
)
_COMMIT = _defect(
    "A coordinator must answer with the last offset whose commit it answered, also after it was "
    "replaced.",
    "Kafka documentation, Distribution, Consumer Offset Tracking",
)

RULES: Mapping[str, Remedy] = {
    "deleted-too-early": _KEPT,
    "tombstone-too-early": _TOMBSTONES_KEPT,
    "resurrected-value": _defect(
        "Cleaners and replicas must not bring back a value after its key was deleted.",
        "Kafka documentation, Log Compaction",
    ),
    "unseen-tombstone": _defect(
        "A consumer that reads to the end of the log within delete.retention.ms must read every "
        "tombstone of a key that it has read.",
        "Kafka documentation, Log Compaction",
    ),
    "offset-mismatch": _defect("A record must stay at the offset of its ack.", "KIP-101"),
    "reordered": _ORDER,
    "nonmonotonic-send": _ORDER,
    "phantom": _defect("A log must contain only records that clients sent.", "KIP-98"),
    "wrong-topic": _defect(
        "A batch must be appended only to the partition that it was made for.", "KAFKA-19012"
    ),
    "failed-but-present": _defect(
        "A record that was refused with a final error must not be appended.", "producer retries"
    ),
    "offset-gap": _defect(
        "A log without compaction must not skip offsets.", "topic cleanup.policy"
    ),
    "watermark-regressed": _defect(
        "A leader must have every record below the high watermark of the one before it.", "KIP-101"
    ),
    "epoch-regressed": _ONE_LEADER,
    "two-leaders": _ONE_LEADER,
    "stale-leader-ack": _defect(
        "A deposed leader must not complete a write with acks=all.", "KIP-101, KIP-497"
    ),
    "acked-below-min-isr": _defect(
        "A write with acks=all must be refused while the ISR is too small.",
        "topic min.insync.replicas",
    ),
    "poll-skip": _FETCH,
    "nonmonotonic-poll": _FETCH,
    "unseen": _FETCH,
    "commit-lost": _COMMIT,
    "commit-regressed": Remedy(
        "Just after a failover of Kafka 4's coordinator: isolation.level=read_committed, with "
        "which it waits until it has the last commit. At any other time this is a defect: try "
        "another release, or report it.",
        "KIP-447, OffsetFetch",
    ),
    "skipped-by-commit": _defect(
        "A client must not commit an offset beyond the records that it returned to its "
        "application: try another client library as well.",
        "consumer enable.auto.commit",
    ),
    "lost-commit": _TRANSACTION,
    "torn-transaction": _TRANSACTION,
    "resurrected-write": _TRANSACTION,
    "zombie-write": _TRANSACTION,
    "aborted-read": _TRANSACTION,
    "precommitted-read": _TRANSACTION,
    "G1c": _TRANSACTION,
    "offsets-without-records": _WITH_OFFSETS,
    "records-without-offsets": _WITH_OFFSETS,
    "transformed-twice": _WITH_OFFSETS,
}
"""The rule that was broken by each anomaly that has no root cause, where it is promised. The
settings promise it, so that hardly any prevents it."""


_OF_LIBRARIES: Mapping[tuple[str, str], Remedy] = {
    ("commit-lost", "aiokafka"): Remedy(
        "If a member of the group with aiokafka found no commit, it may be that library: aiokafka "
        "0.14 ignores the error with which a coordinator that is still loading answers, and takes "
        "it for no commit. Run the group with another library: if the anomaly stays, it is the "
        "coordinator's.",
        "aiokafka, OffsetFetch",
    ),
}
"""Another explanation of an anomaly, by the client library of a group of the cell."""


def advice_against(anomaly: str, libraries: Iterable[str] = ()) -> tuple[str, ...]:
    """Return what prevents an anomaly without a root cause, where a guarantee excludes it. There is
    nothing for the anomalies of plug-ins and those that have root causes. ``libraries`` has those
    of the consumer groups, of which one may be to blame as well."""
    rules = [RULES.get(anomaly), *(_OF_LIBRARIES.get((anomaly, one)) for one in libraries)]
    return tuple(f"{one.advice} ({one.source})" for one in rules if one is not None)
