"""Which copies of a partition's log can be compared, and up to where.

All that was committed is the same in the logs of all of the ISR. So what is compared is

- the logs of those who were in the ISR as long as logs were being copied, under one leader in one
  leader epoch. Who was out of it (down, cut off, catching up) may hold anything.
- up to the end of the final read: a consumer is given nothing that is not committed, and what was
  committed then every member of the ISR had then, and whoever entered it later. What stands behind
  that may be under way, and may differ. Where the final read tells no end, as when what it was
  given ended its client, up to the largest high watermark that a member has written down: those
  are up to five seconds old, and lower.
- from the later of the two log starts on.

So what is found below the end is no race of the copying: nothing there is written any more. What
cannot be seen: copies that are all wrong in the same way, and those of brokers out of the ISR.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof.checkers.cluster.faults import FOREVER, Partition
from ackproof.checkers.cluster.observed import OBSERVATION_LAG_NS, Span
from ackproof.checkers.evidence.run import RunEvidence
from ackproof.checkers.raw_logs.checkpoints import high_watermark
from ackproof.history.cell import Cell
from ackproof.history.storage import AnyPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The collected logs of a partition that can be compared.

    Attributes:
        brokers: Their ids, the leader's first.
        directories: Where the log of each is.
        end: Up to where (exclusive) they are to be the same.
        untold: Why others cannot be, a sentence each.
    """

    brokers: tuple[int, ...] = ()
    directories: tuple[AnyPath, ...] = ()
    end: int = 0
    untold: tuple[str, ...] = ()


def copies(run: RunEvidence, cell: Cell, partition: Partition) -> Copies:
    """Those of one partition; none, and nothing told of it, where the run as a whole has none."""
    if run.collected is None or run.logs is None:
        return Copies()
    if "cluster" in run.incomplete:
        why = "rows of the table cluster are missing, which tell who was in the ISR"
        return Copies(untold=(f"replicas not compared: {why}",))
    observed = run.observation.of(partition)
    # A change that took place while logs were copied may be in the table a moment later.
    lagging = min(run.collected.end + OBSERVATION_LAG_NS, FOREVER)
    states = observed.during(Span(run.collected.start, lagging))
    if not states or observed.blind(run.collected):
        why = "nobody watched who was in the ISR while logs were collected"
        return Copies(untold=(f"replicas not compared: {why}",))
    if len({(state.leader, state.leader_epoch) for state in states}) > 1:
        return Copies(untold=("replicas not compared: an election while logs were collected",))
    members = set.intersection(*(set(state.isr) for state in states))
    (leader,) = {state.leader for state in states}
    logs = run.logs.get(f"{partition[0]}-{partition[1]}", ())
    found = {broker: [path for holder, path in logs if holder == broker] for broker in members}
    whole = [broker for broker in sorted(found) if len(found[broker]) == 1]
    whole.sort(key=lambda broker: broker != leader)
    end = _committed(run, partition, [found[broker][0] for broker in whole])
    if end is None:
        return Copies(untold=("replicas not compared: no final read tells what was committed",))
    return Copies(
        brokers=tuple(whole),
        directories=tuple(found[broker][0] for broker in whole),
        end=end,
        untold=tuple(_untold(cell, found)),
    )


def _committed(run: RunEvidence, partition: Partition, logs: Sequence[AnyPath]) -> int | None:
    """Up to where the log is committed for certain; None where nothing tells."""
    read = run.reads.get(partition)
    if read is not None and read.read.end is not None:
        return read.read.end
    marks = (high_watermark(log, partition) for log in logs)
    return max((mark for mark in marks if mark is not None), default=None)


def _untold(cell: Cell, found: Mapping[int, list[AnyPath]]) -> Iterator[str]:
    for broker, logs in sorted(found.items()):
        if len(logs) != 1:
            why = "was collected from several log directories" if logs else "was not collected"
            yield f"the log of broker-{broker} not compared: it {why}"
    if len(found) < cell.replication_factor:
        isr = ", ".join(f"broker-{broker}" for broker in sorted(found)) or "nobody"
        yield f"replicas not compared: while logs were collected only {isr} was in the ISR"
