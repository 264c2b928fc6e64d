"""Limits on the totals of a campaign. Each value may be valid while their product is absurd."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from statistics import mean

from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import CELLS_MAX, Sweep, expand
from ackproof.harness.campaign.model.clusters import RUNS_MAX, ClusterSpec
from ackproof.harness.campaign.model.schedule import (
    FAULTS_MAX,
    Entry,
    FaultEntry,
    Schedule,
    StoryEntry,
)
from ackproof.harness.campaign.model.workload import clients_of, times_read
from ackproof.harness.campaign.plan import scheduler
from ackproof.harness.campaign.plan.context import CampaignTimings, hold_range, planned_members
from ackproof.harness.campaign.plan.needs import joining
from ackproof.harness.campaign.plan.stories import catalogue, unrolled
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.history.cell import Cell

_HOUR_MS = 3_600_000
_PROCESSES_MAX = 1_000
"""The most servers and clients of a run. A large campaign on purpose has 24 cells with 12 producers
and 6 consumers each, which are 432 clients. A thousand, with 70 MB of unshared memory each, fill a
large machine."""
_DISKS_MAX = 200
_MEGABYTES_MAX = 16 * 1024 * 1024


def _hours(duration_ms: float) -> str:
    return f"{duration_ms / _HOUR_MS:,.1f} h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A quantity that is summed over the campaign.

    Attributes:
        field: The field at which a problem is reported.
        what: The name of what is counted.
        of: Its amount; None if it is unknown.
        asked: The amount above which the user must confirm.
        most: The amount above which it is refused.
        shown: The amount as text.
        rather_at: A better field than ``field``, if this campaign has one.
    """

    field: str
    what: str
    of: Callable[[Draft], float | None]
    asked: float
    most: float
    shown: Callable[[float], str] = "{:,.0f}".format
    rather_at: Callable[[Draft], str | None] = lambda _draft: None

    def problem(self, draft: Draft, meant: bool) -> Problem | None:
        """Return a problem if the total is too large. ``meant`` says that the user has confirmed
        it."""
        total = self.of(draft)
        if total is None or total <= (self.most if meant else self.asked):
            return None
        reason = f"{self.what}: {self.shown(total)} in total, at most {self.shown(self.most)}"
        if total <= self.most:
            limit = self.shown(self.asked)
            reason = (
                f"{self.what}: {self.shown(total)} in total, above {limit}. To run it anyway: --yes"
            )
        return Problem(field=self.rather_at(draft) or self.field, reason=reason)


def _cells(draft: Draft) -> float | None:
    return draft.cells.size if draft.cells else None


def _runs(draft: Draft) -> float | None:
    return draft.cluster.size * _rounds_of(draft) if draft.cluster else None


def _rounds_of(draft: Draft) -> int:
    """Return the number of runs of each cluster."""
    alone = draft.cells is not None and draft.cells.alone
    return (draft.runs or 1) * (draft.cells.size if alone and draft.cells else 1)


def _faults(draft: Draft) -> float | None:
    """Return the faults of a run. Those drawn for as long as the schedule lasts are estimated from
    their average duration."""
    if draft.faults is None or draft.schedule is None:
        return None
    timed = sum(_steps(entry, draft) for entry in draft.faults if entry.at is not None)
    listed = [entry for entry in draft.faults if entry.at is None]
    if not listed:
        return timed
    steps = sum(_steps(entry, draft) for entry in listed)
    return timed + draft.schedule.lanes * steps * _rounds(draft.schedule, listed, draft)


def _rounds(schedule: Schedule, listed: Sequence[Entry], draft: Draft) -> float:
    """Return the rounds of one lane."""
    if schedule.lasts is None:
        return schedule.rounds
    round_ms = len(listed) * mean(schedule.gap) + sum(_held_ms(entry, draft) for entry in listed)
    return max(0, schedule.lasts - schedule.warmup) / round_ms if round_ms else inf


def _steps(entry: Entry, draft: Draft) -> int:
    """Return the number of faults of an entry. An unknown story counts as one."""
    if isinstance(entry, FaultEntry) or (story := catalogue().get(entry.story)) is None:
        return 1
    cluster = ClusterSpec(brokers=1) if draft.cluster is None else draft.cluster.largest
    return sum(1 for _ in unrolled(story, planned_members(cluster), seed=0))


def _held_ms(entry: Entry, draft: Draft) -> float:
    """Return the average duration of an entry, in milliseconds, as far as the file gives it. The
    steps of a story count as 0."""
    if isinstance(entry, StoryEntry):
        return 0
    if entry.hold is not None:
        return mean(entry.hold)
    if draft.cluster is None:
        return 0
    return mean(hold_range(entry.fault, CampaignTimings(draft.cluster.smallest)))


def _rate(draft: Draft) -> float | None:
    """Return the rate of all cells of a run, or None for flat-out, whose speed is unknown."""
    if draft.workload is None or draft.cells is None or draft.workload.flat_out:
        return None
    return draft.workload.rate * _at_once(draft.cells, lambda _: 1)


def _bytes(draft: Draft) -> float | None:
    copied = _bytes_copied(draft)
    if copied is None or draft.workload is None or draft.workload.flat_out:
        return None
    return draft.workload.rate * copied


def bytes_of_a_run(campaign: Campaign) -> float:
    """Return an upper bound of the bytes that the longest run writes to disk. Bytes that are only
    read are included. Return 0 if it is unknown, for clients that send flat out."""
    sections = {name: getattr(campaign, name) for name in Draft.__dataclass_fields__}
    return bytes_of_draft(Draft(**sections)) or 0


def bytes_of_draft(draft: Draft) -> float | None:
    """Return the bytes of :func:`bytes_of_a_run` for a campaign that is being read, or None if they
    are unknown."""
    copied, each = _bytes_copied(draft), _sends_of_a_cell(draft)
    return None if copied is None or each is None else each * copied


def longest_run_ms(draft: Draft) -> int:
    """Return the time from the first record of the longest run until all records were read back, in
    milliseconds, or 0 if it is unknown.

    It is twice the planned time, because faults may be injected and healed later than planned, and
    the limits of the steps that follow.
    """
    lasts = _durations_ms(draft)
    if not lasts or draft.limits is None:
        return 0
    return 2 * max(lasts) + draft.limits.recover + draft.limits.final_read


def _bytes_copied(draft: Draft) -> float | None:
    """Return the mean bytes of one record of each cell of a run, in all places to which it is
    copied."""
    if draft.workload is None or draft.cells is None:
        return None
    load_of = draft.workload.load_of
    copies = _at_once(draft.cells, lambda c: c.replication_factor + times_read(load_of(c)))
    return mean(draft.workload.record_bytes) * copies


def _at_once(cells: Sweep, of: Callable[[Cell], int]) -> int:
    """Return the total of all cells of a run. If each cell has a run of its own, return the
    maximum."""
    counts = [of(cell) for cell in expand(cells)]
    return max(counts, default=0) if cells.alone else sum(counts)


def _replicas(draft: Draft) -> float | None:
    """Return the replicas of all partitions, or None if there are too many cells, which is a
    problem of its own."""
    if draft.cells is None or draft.cells.size > CELLS_MAX:
        return None
    replicas = _at_once(draft.cells, lambda cell: cell.partitions * cell.replication_factor)
    if (failover := draft.failover) is not None:
        replicas += max(failover.partitions) * failover.replication_factor
    return replicas


def _clients(draft: Draft) -> int:
    """Return the clients of a cell that has all groups. An invalid workload counts as one
    client."""
    return 1 if draft.workload is None else draft.workload.clients_at_most


def _processes(draft: Draft) -> float | None:
    if draft.cluster is None or draft.cells is None:
        return None
    loads = {} if draft.workload is None else draft.workload.loads_of(expand(draft.cells))
    of_cells = {name: clients_of(load) for name, load in loads.items()}
    clients = _at_once(draft.cells, lambda cell: of_cells.get(cell.name, 1))
    cluster = draft.cluster.largest
    return len(cluster.servers) + joining(draft.faults or ()) + clients


def _disks(draft: Draft) -> float | None:
    """Return the disks of all servers. Each is a loop device, of which a machine has few."""
    if draft.cluster is None:
        return None
    spec = draft.cluster.disks
    largest = draft.cluster.largest
    brokers = largest.brokers + joining(draft.faults or ())
    return 0 if spec is None else brokers * spec.per_broker + len(largest.keepers_with_disks)


def _megabytes(draft: Draft) -> float | None:
    """Return the size of all disks. Only written data takes space, but a fault that fills a disk
    writes to its end."""
    if draft.cluster is None or (disks := _disks(draft)) is None:
        return None
    return 0 if draft.cluster.disks is None else disks * draft.cluster.disks.megabytes


def _limits_ms(draft: Draft) -> float | None:
    """Return the sum of all time limits, in milliseconds: each step once a run and, if the file
    limits proofs, two proofs of each fault."""
    if draft.limits is None or (runs := _runs(draft)) is None:
        return None
    own = draft.limits
    steps = (own.deploy, own.ready, own.recover, own.final_read, own.collect, own.teardown)
    proofs = 0 if own.fault is None else 2 * own.fault * (_faults(draft) or 0)
    return runs * (sum(steps) + proofs)


def _sends(draft: Draft) -> float | None:
    each = _sends_of_a_cell(draft)
    if draft.cells is None or each is None:
        return None
    return each * _at_once(draft.cells, lambda _: 1)


def _sends_of_a_cell(draft: Draft) -> float | None:
    """Return the records of a cell in a run, or None if nothing limits them, which is a problem of
    its own."""
    lasts = _durations_ms(draft)
    if draft.workload is None or not lasts:
        return None
    records = draft.workload.records_of(max(lasts))
    return None if records == inf else records


def _duration_ms(draft: Draft) -> float | None:
    lasts = _durations_ms(draft)
    return sum(lasts) * _rounds_of(draft) if lasts else None


def _durations_ms(draft: Draft) -> Sequence[int]:
    """Return the planned duration of a run of each cluster, in milliseconds; empty if it is
    unknown."""
    return [scheduler.duration_ms(draft.as_campaign, plan) for plan in draft.plans]


_FIRST: Sequence[Total] = (
    Total(field="cells", what="cells of a cluster", of=_cells, asked=100, most=CELLS_MAX),
    Total(
        field="workload",
        what="clients of a cell",
        of=_clients,
        asked=_PROCESSES_MAX,
        most=_PROCESSES_MAX,
    ),
    Total(field="runs", what="runs", of=_runs, asked=60, most=RUNS_MAX),
    Total(field="schedule.rounds", what="faults of a run", of=_faults, asked=500, most=FAULTS_MAX),
    Total(
        field="cells.partitions",
        what="replicas of partitions in a cluster",
        of=_replicas,
        asked=5_000,
        most=50_000,
    ),
)
"""The totals that are judged first. If they are too large, their cells and runs are not even
listed."""

_THEN: Sequence[Total] = (
    Total(
        field="schedule",
        what="time for which clients send",
        of=_duration_ms,
        asked=24 * _HOUR_MS,
        most=30 * 24 * _HOUR_MS,
        shown=_hours,
    ),
    Total(field="workload.rate", what="records per second", of=_rate, asked=50_000, most=1e6),
    Total(field="workload.rate", what="records of a run", of=_sends, asked=1e8, most=1e10),
    Total(
        field="workload.record.bytes",
        what="bytes per second, of all replicas and consumers",
        of=_bytes,
        asked=1e8,
        most=1e10,
    ),
    Total(
        field="workload.record.bytes",
        what="bytes of a run, of all replicas and consumers",
        of=bytes_of_draft,
        asked=2e10,
        most=1e13,
    ),
    Total(
        field="cluster.brokers",
        what="servers and clients of a run",
        of=_processes,
        asked=120,
        most=_PROCESSES_MAX,
        rather_at=lambda draft: "workload" if _clients(draft) > 1 else None,
    ),
    Total(field="cluster.disks", what="disks of servers", of=_disks, asked=40, most=_DISKS_MAX),
    Total(
        field="cluster.disks",
        what="megabytes of the brokers' disks",
        of=_megabytes,
        asked=1024 * 1024,
        most=_MEGABYTES_MAX,
    ),
    Total(
        field="limits",
        what="time that steps and proofs may take",
        of=_limits_ms,
        asked=7 * 24 * _HOUR_MS,
        most=30 * 24 * _HOUR_MS,
        shown=_hours,
    ),
)


def too_many(draft: Draft, *, meant: bool) -> Iterator[Problem]:
    """Yield a problem if there are too many cells, clients, runs, faults or replicas."""
    return _problems(_FIRST, draft, meant)


def too_much(draft: Draft, *, meant: bool) -> Iterator[Problem]:
    """Yield a problem if the campaign takes too much time, data, processes or disk space."""
    return _problems(_THEN, draft, meant)


def _problems(totals: Sequence[Total], draft: Draft, meant: bool) -> Iterator[Problem]:
    problems = (total.problem(draft, meant) for total in totals)
    return (problem for problem in problems if problem is not None)
