"""The step ``recover``: whether the healed cluster comes to serve again, partition by partition,
and its groups go on, group by group.
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
"""Of the clients' progress files, by client."""


def recover(run: Run, deadline: Deadline) -> None:
    """Wait until the cluster is whole again and its groups go on, then let the clients send for
    the tail.

    What every partition has come to is recorded when it is, or when the time for it is over. That
    it is not whole is for the checkers to judge; here it is a step that failed. Raises NothingLeft
    as soon as all brokers are down for good: then no partition has a leader, even if stale metadata
    name one.
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
        # The very look that ended the waiting: a partition that is whole in one look and shrinks
        # before the next would else be recorded as never having come back. No rows where the
        # metadata could not be read: whether the brokers serve is unknown.
        _record(run, last)
    if not in_time:
        raise StepTimeout(f"did not recover: {_listed(_lacking(run, last)) if last else _SILENT}")
    _let_groups_go_on(run, deadline)
    deadline.wait(run.campaign.schedule.tail / 1000)
    record_zookeeper_counters(run, "recovered")


def groups_limit_s(run: Run) -> float:
    """How long groups may take to go on, when the cluster has recovered; the slowest of them."""
    recover_ms = run.campaign.limits.recover
    configs = [one.client.specification["consumer_config"] for one in _members(tuple(run.running))]
    longest = [group_recovery_ms(recover_ms, one) for one in configs if isinstance(one, Mapping)]
    return max(longest) / 1000 + SLACK_S if longest else 0.0


def _let_groups_go_on(run: Run, deadline: Deadline) -> None:
    """Wait until every group goes on, or its time is over. That it does not is for the checkers to
    judge, who can blame a group only when it had all of its time."""
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
        run.tell(f"recover: groups that do not go on: {', '.join(sorted(stuck))}")
    check_brokers_left(run)


def _stuck(run: Run, before: Figures, now: Figures, *, quiet: bool) -> Iterator[str]:
    """The groups of which a partition has no member, or a member has partitions and was shown
    nothing since ``before``; in a cell where nothing was acknowledged meanwhile, not when it has
    been ``quiet``."""

    def more(name: str, figure: str) -> bool:
        return now[name].get(figure, 0) > before.get(name, {}).get(figure, 0)

    told = [one for one in tuple(run.running) if one.client.name in now]
    acked = {one.client.cell for one in told if more(one.client.name, "acked")}
    for group, some in groupby(_members(told), key=_group):
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
    """The members of groups, group by group; none of those that transform."""
    found = [one for one in running if "delivery" in one.client.specification]
    return sorted(found, key=_group)


def _group(one: ClientProcess) -> str:
    return str(one.client.specification["group"])


def whole(run: Run) -> bool:
    """Whether every partition of every cell is led and its ISR full, as ZooKeeper tells."""
    return not unwhole(run)


def unwhole(run: Run) -> str:
    """What keeps the cluster from being whole, in words; empty when it is."""
    try:
        views = run.system.view().partitions
    except ViewUnavailable as silence:
        return f"{_SILENT} ({silence})"
    return _listed(_lacking(run, views))


def _answered(look: Callable[[], bool]) -> Callable[[], bool]:
    """``look``, which is false while the metadata cannot be read."""

    def looked() -> bool:
        try:
            return look()
        except ViewUnavailable:
            return False

    return looked


def _or_gone(run: Run, condition: Callable[[], bool]) -> Callable[[], bool]:
    """Return ``condition``, which is not waited for once all brokers are down for good."""
    return lambda: brokers_are_gone(run) or condition()


def _lacking(run: Run, views: Views) -> Iterator[str]:
    for (topic, number), replicas in _partitions(run):
        view = views.get((topic, number))
        if view is None or view.leader == -1:
            yield f"{topic}-{number} has no leader"
        elif len(view.isr) < replicas:
            yield f"{topic}-{number} has the ISR {list(view.isr)}"


def _listed(lacking: Iterable[str]) -> str:
    """Return what partitions lack, one after the other; of many, how many more there are."""
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
    """Every partition of every cell, with its number of replicas."""
    for cell in run.cells:
        for partition in cell.topic_partitions:
            yield partition, cell.replication_factor
