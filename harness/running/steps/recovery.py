"""The step ``recover``: whether the healed cluster serves again, partition by partition, and its
groups continue, group by group.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby

from ackproof.harness.campaign.plan.context import group_recovery_ms
from ackproof.harness.running.client_health import SLACK_S
from ackproof.harness.running.clients import ClientProcess
from ackproof.harness.running.context import Run, record_zookeeper_counters
from ackproof.harness.running.deadline import Deadline, StepTimeout
from ackproof.harness.running.servers import brokers_are_gone, check_brokers_left
from ackproof.infra.api.interface import PartitionView, ViewUnavailable

_SILENT = "the metadata cannot be read"
_NAMED_MAX = 6
"""The number of incomplete partitions that a message names; the rest are counted."""

Views = Mapping[tuple[str, int], PartitionView]
Figures = Mapping[str, Mapping[str, int]]
"""The figures of the clients' progress files, by client."""


def recover(run: Run, deadline: Deadline) -> None:
    """Wait until all partitions of the cluster are complete and its groups continue, then let the
    clients send for the tail. If something else restarts brokers meanwhile, do both again, as far
    as the time of the step allows: the groups are judged by the time after it.

    Raises as :func:`_await_partitions`.
    """
    _await_partitions(run, deadline)
    _let_groups_go_on(run, deadline)
    before, tail_s = run.pod_restarts.count, run.campaign.schedule.tail / 1000
    deadline.wait(tail_s)
    if run.pod_restarts.count > before:
        deadline.until(lambda: run.pod_restarts.over, at_most=run.campaign.limits.recover / 1000)
        _await_partitions(run, deadline)
        _let_groups_go_on(run, deadline)
        deadline.wait(deadline.remaining(at_most=tail_s))
    record_zookeeper_counters(run, "recovered")


def _await_partitions(run: Run, deadline: Deadline) -> None:
    """Wait until all partitions of the cluster are complete.

    The state of every partition is recorded when all are complete, or when the time for it is over.
    Incomplete partitions are judged by the checkers; here they fail the step. Raises
    AllBrokersEnded as soon as all brokers are down for good, because then no partition has a
    leader, even if stale metadata name one.
    """
    last: Views = {}

    def recovered() -> bool:
        nonlocal last
        last = {}
        last = run.system.view().partitions
        return not any(_lacking(run, last))

    at_most = run.campaign.limits.recover / 1000
    in_time = deadline.until(_or_gone(run, _answered(recovered)), at_most=at_most)
    if brokers_are_gone(run):
        _record(run, {})
        check_brokers_left(run)
    if last:
        # This is the look that ended the waiting. Otherwise a partition that is complete in one
        # look and shrinks before the next would be recorded as never recovered. There are no rows
        # if the metadata could not be read, because it is unknown whether the brokers serve.
        _record(run, last)
    if not in_time:
        raise StepTimeout(f"did not recover: {_listed(_lacking(run, last)) if last else _SILENT}")


def groups_limit_s(run: Run) -> float:
    """Return how long groups may take to continue after the cluster has recovered, in seconds. The
    slowest group decides."""
    recover_ms = run.campaign.limits.recover
    configs = [one.client.specification["consumer_config"] for one in _members(tuple(run.running))]
    longest = [
        group_recovery_ms(recover_ms, config, cluster.properties)
        for config in configs
        if isinstance(config, Mapping)
        for cluster, _ in run.campaign.cluster.points()
    ]
    return max(longest) / 1000 + SLACK_S if longest else 0.0


def _let_groups_go_on(run: Run, deadline: Deadline) -> None:
    """Wait until every group continues, or its time is over. Stuck groups are judged by the
    checkers, which can blame a group only if it had all of its time."""
    if run.ledger.still_open():
        return
    begun, before = run.clock.monotonic(), _figures(run)
    stuck: set[str] = set()

    def go_on() -> bool:
        nonlocal stuck
        quiet = run.clock.monotonic() - begun > SLACK_S
        stuck = set(_stuck(run, before, _figures(run), quiet=quiet))
        return not stuck

    if not deadline.until(_or_gone(run, go_on), at_most=groups_limit_s(run)):
        run.tell(f"recover: groups that make no progress: {', '.join(sorted(stuck))}")
    check_brokers_left(run)


def _stuck(run: Run, before: Figures, now: Figures, *, quiet: bool) -> Iterator[str]:
    """Yield the groups that are stuck. In a stuck group, a partition has no member, or a member has
    partitions and has read nothing since ``before``. The latter does not count in a cell without
    acknowledged records in that time, once it has been ``quiet``."""

    def more(name: str, figure: str) -> bool:
        return now[name].get(figure, 0) > before.get(name, {}).get(figure, 0)

    reporting = [one for one in tuple(run.running) if one.client.name in now]
    acked = {one.client.cell for one in reporting if more(one.client.name, "acked")}
    for group, some in groupby(_members(reporting), key=_group):
        mine = list(some)
        cell = next(cell for cell in run.cells if cell.name == mine[0].client.cell)
        held = [name for one in mine if now[name := one.client.name].get("assigned")]
        waits = cell.name in acked or not quiet
        shared_out = sum(now[name]["assigned"] for name in held) >= cell.partitions
        if not shared_out or (waits and not all(more(name, "shown") for name in held)):
            yield group


def _figures(run: Run) -> Figures:
    return {one.client.name: one.counts() for one in tuple(run.running)}


def _members(running: Iterable[ClientProcess]) -> list[ClientProcess]:
    """Return the members of groups, group by group, without transformers."""
    found = [one for one in running if "delivery" in one.client.specification]
    return sorted(found, key=_group)


def _group(one: ClientProcess) -> str:
    return str(one.client.specification["group"])


def whole(run: Run) -> bool:
    """Return whether every partition of every cell has a leader and a full ISR, according to the
    metadata."""
    return not unwhole(run)


def unwhole(run: Run) -> str:
    """Return the reason why partitions are incomplete, in words, or an empty text if none is."""
    try:
        views = run.system.view().partitions
    except ViewUnavailable as silence:
        return f"{_SILENT} ({silence})"
    return _listed(_lacking(run, views))


def _answered(look: Callable[[], bool]) -> Callable[[], bool]:
    """Return ``look``, made false while the metadata cannot be read."""

    def looked() -> bool:
        try:
            return look()
        except ViewUnavailable:
            return False

    return looked


def _or_gone(run: Run, condition: Callable[[], bool]) -> Callable[[], bool]:
    """Return ``condition``, made true once all brokers are down for good."""
    return lambda: brokers_are_gone(run) or condition()


def _lacking(run: Run, views: Views) -> Iterator[str]:
    for (topic, number), replicas in _partitions(run):
        view = views.get((topic, number))
        if view is None or view.leader == -1:
            yield f"{topic}-{number} has no leader"
        elif len(view.isr) < replicas:
            yield f"{topic}-{number} has the ISR {list(view.isr)}"


def _listed(lacking: Iterable[str]) -> str:
    """Return the defects of partitions, one after the other, with the number of those left out."""
    every = list(lacking)
    if len(every) <= _NAMED_MAX:
        return "; ".join(every)
    return f"{'; '.join(every[:_NAMED_MAX])}; and {len(every) - _NAMED_MAX} more partitions"


def _record(run: Run, views: Views) -> None:
    for (topic, number), replicas in _partitions(run):
        view = views.get((topic, number))
        leader, isr = (-1, ()) if view is None else (view.leader, view.isr)
        whole = leader != -1 and len(isr) >= replicas
        run.recorder.recovery(topic, number, leader, isr, whole)


def _partitions(run: Run) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield every partition of every cell, with its number of replicas."""
    for cell in run.cells:
        for partition in cell.topic_partitions:
            yield partition, cell.replication_factor
