"""Tables of a campaign's consumers, groups and transactions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ackproof.checkers.checks.catalogue import TRANSACTION_CHECKERS
from ackproof.checkers.checks.read_counts import added
from ackproof.checkers.verdict import CampaignResult, ClientCounts, GroupCounts
from ackproof.harness.report.cell_names import CellKey
from ackproof.harness.report.rows import UNKNOWN, number

# --- consumers and groups -------------------------------------------------------------------------
#
# A missing figure is shown as unknown, and one that does not apply as a dash.

CLIENT_COUNTS = {
    "shown": "read",
    "again": "again",
    "nonmonotonic": "nonmonotonic",
    "skipped": "skipped",
    "foreign": "foreign",
    "inconsistent": "inconsistent",
    "vanished": "vanished",
    "unseen": "unseen",
    "unread": "unread",
}
"""The counts of a client, and their headings."""

GROUP_COUNTS = {
    "committed": "committed",
    "commit_errors": "errors",
    "commits_lost": "lost",
    "commits_regressed": "regressed",
    "skipped_by_commit": "skipped by commit",
}

OF_TAIL_READERS = ("unseen", "unread")
Counts = TypeVar("Counts", ClientCounts, GroupCounts)

NOTHING = "-"
TAIL_READER = "tail reader"

IN_SHORT = (
    *("shown", "again", "nonmonotonic", "skipped", "foreign", "inconsistent", "vanished"),
    "unseen",
)
"""The counts of clients that are added up in the short table."""

CONSUMER_MEANINGS = {
    "read": "records that the client read, counted once for each read",
    "again": "offsets read in several assignments, for example after a rebalance",
    "nonmonotonic": (
        "anomalies nonmonotonic-poll: offsets that were not higher than the "
        "offset before, without a rebalance between them"
    ),
    "skipped": (
        "anomalies poll-skip: records of the final log that were skipped without a "
        "rebalance in between"
    ),
    "foreign": "offsets whose payload was not sent by any client, or is damaged",
    "inconsistent": (
        "anomalies inconsistent-read, for the reads of this client: offsets at "
        "which the final log, or an ack, has another record"
    ),
    "vanished": "anomalies vanished-read: offsets at which the final log holds nothing",
    "unseen": (
        "anomalies unseen, for a tail reader: acked records of the final log that it "
        "never read, below the highest offset that it read"
    ),
    "unread": "for a tail reader: offsets of the final log above the highest offset that it read",
    "committed": "commits of a partition that were answered without an error",
    "errors": "commits that ended with an error, so that it is unknown whether they were kept",
    "lost": (
        "anomalies commit-lost: times that a member read back no committed offset after "
        "a commit had been answered"
    ),
    "regressed": "anomalies commit-regressed: times that a member read back an older offset",
    "skipped by commit": (
        "anomalies skipped-by-commit, for an at-least-once group: records "
        "that it committed past, but that no member had read"
    ),
}
"""The meanings of the headings, for the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """Headings and lines, as text. ``names`` is the number of columns that are not counts."""

    headings: tuple[str, ...]
    names: int
    lines: tuple[tuple[str, ...], ...]


def consumer_tables(result: CampaignResult, titles: Mapping[CellKey, str]) -> tuple[TextTable, ...]:
    """Return the tables of the clients and of the groups, without empty ones. ``titles`` are the
    names of the cells for readers."""
    clients = [_titled(one, titles) for one in result.consumption.clients]
    groups = [_titled(one, titles) for one in result.consumption.groups]
    several = len({one.run for one in clients}) > 1
    found = (
        _table(("cell", "client", "group"), CLIENT_COUNTS, map(_client, clients), several),
        _table(("cell", "group"), GROUP_COUNTS, map(_group, groups), several),
    )
    return tuple(table for table in found if table.lines)


def _titled(one: Counts, titles: Mapping[CellKey, str]) -> Counts:
    return replace(one, cell=titles.get((one.run, one.cell), one.cell))


def consumers_in_short(result: CampaignResult) -> TextTable | None:
    """Return a table with one line for a cell's tail readers together and one for each group, or
    None without consumers."""
    clients = result.consumption.clients
    several = len({one.run for one in clients}) > 1
    lines = []
    by_group: dict[tuple[int, str, str], list[ClientCounts]] = {}
    for one in clients:
        by_group.setdefault((one.run, one.cell, _group_of(one)), []).append(one)
    groups = {(one.run, one.cell, one.group): one for one in result.consumption.groups}
    for key, of in by_group.items():
        run, cell, name = key
        told = (_together(of, count) for count in IN_SHORT)
        group = groups.get(key)
        # The commits of a group are unknown if its members are unknown.
        committed = (
            number(getattr(group, count, None)) if of[0].member else NOTHING
            for count in GROUP_COUNTS
        )
        lines.append((str(run), cell, name, *told, *committed))
    headings = {name: CLIENT_COUNTS[name] for name in IN_SHORT} | GROUP_COUNTS
    return _table(("cell", "consumers"), headings, lines, several) if lines else None


def _group_of(one: ClientCounts) -> str:
    return (one.group or UNKNOWN) if one.member else TAIL_READER


def _together(of: Sequence[ClientCounts], name: str) -> str:
    if of[0].member and name in OF_TAIL_READERS:
        return NOTHING
    return number(added(getattr(one, name) for one in of))


def _table(
    names: Sequence[str],
    counts: Mapping[str, str],
    lines: Iterable[tuple[str, ...]],
    several: bool,
) -> TextTable:
    """Return a table. ``lines`` begin with the run, which is shown if there are ``several``."""
    first = 0 if several else 1
    headings = ("run", *names, *counts.values())[first:]
    return TextTable(
        headings=headings,
        names=1 + len(names) - first,
        lines=tuple(line[first:] for line in lines),
    )


def _client(one: ClientCounts) -> tuple[str, ...]:
    told = (_together([one], name) for name in CLIENT_COUNTS)
    return str(one.run), one.cell, one.client, _group_of(one), *told


def _group(one: GroupCounts) -> tuple[str, ...]:
    told = (number(getattr(one, name)) for name in GROUP_COUNTS)
    return str(one.run), one.cell, one.group, *told


# --- transactions ---------------------------------------------------------------------------------

TRANSACTION_MEANINGS: Mapping[str, str] = {
    "committed": "their commit was answered",
    "not committed": "aborted, or the commit was not requested, or the producer had been fenced",
    "of unknown outcome": "the client does not know the outcome; only the final log shows it",
    **TRANSACTION_CHECKERS,
}
"""The meanings of the headings, for the page."""


def transactions_table(result: CampaignResult, titles: Mapping[CellKey, str]) -> TextTable | None:
    """Return the table of transactions, or None if no cell has any."""
    lines = [
        (
            str(cell.run),
            titles.get((cell.run, cell.cell), cell.cell),
            cell.settings.isolation,
            *map(number, (told.committed, told.not_committed, told.unknown)),
            *(number(told.found.get(anomaly)) for anomaly in TRANSACTION_CHECKERS),
        )
        for cell in result.cells
        if (told := cell.transactions) is not None
    ]
    headings = ("run", "cell", "isolation.level", *TRANSACTION_MEANINGS)
    return TextTable(headings=headings, names=3, lines=tuple(lines)) if lines else None
