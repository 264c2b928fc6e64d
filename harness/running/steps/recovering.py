"""The step ``recover``: whether the healed cluster comes to serve again, partition by partition."""

from collections.abc import Callable, Iterator, Mapping

from harness.running.context import Run
from harness.running.deadline import Deadline, StepTimeout
from harness.running.steps.counting import counted
from infra.interface import PartitionView, ViewUnavailable

_SILENT = "the metadata cannot be read"

Views = Mapping[tuple[str, int], PartitionView]


def recover(run: Run, deadline: Deadline) -> None:
    """Wait until the cluster is whole again, then let the clients send for the tail.

    What every partition has come to is recorded when it is, or when the time for it is over. That
    it is not whole is for the checkers to judge; here it is a step that failed.
    """
    last: Views = {}

    def recovered() -> bool:
        nonlocal last
        last = {}
        last = run.system.view().partitions
        return not any(_lacking(run, last))

    in_time = deadline.until(_answered(recovered), at_most=run.campaign.limits.recover / 1000)
    # The very look that ended the waiting: a partition that is whole in one look and shrinks
    # before the next would else be recorded as never having come back.
    _record(run, last)
    if not in_time:
        raise StepTimeout(f"did not recover: {'; '.join(_lacking(run, last)) if last else _SILENT}")
    deadline.wait(run.campaign.schedule.tail / 1000)
    counted(run, "recovered")


def whole(run: Run) -> bool:
    """Whether every partition of every cell is led and its ISR full, as ZooKeeper tells."""
    return not unwhole(run)


def unwhole(run: Run) -> str:
    """What keeps the cluster from being whole, in words; empty when it is."""
    try:
        views = run.system.view().partitions
    except ViewUnavailable as silence:
        return f"{_SILENT} ({silence})"
    return "; ".join(_lacking(run, views))


def _answered(look: Callable[[], bool]) -> Callable[[], bool]:
    """``look``, which is false while the metadata cannot be read."""

    def looked() -> bool:
        try:
            return look()
        except ViewUnavailable:
            return False

    return looked


def _lacking(run: Run, views: Views) -> Iterator[str]:
    for (topic, number), replicas in _partitions(run):
        view = views.get((topic, number))
        if view is None or view.leader == -1:
            yield f"{topic}-{number} has no leader"
        elif len(view.isr) < replicas:
            yield f"{topic}-{number} has the ISR {list(view.isr)}"


def _record(run: Run, views: Views) -> None:
    if not views:
        # No rows: of a ZooKeeper that we cannot ask nobody knows whether its brokers serve.
        return
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
