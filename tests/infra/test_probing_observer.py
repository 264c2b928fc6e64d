"""The observer of a cluster that was there before: what it tells, and when it was blind."""

import threading
from collections.abc import Callable

from ackproof.infra.api.interface import ClusterView, PartitionView, ViewUnavailable
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.systems.external.probes import UNTOLD
from ackproof.infra.systems.external.system import looking_observer
from tests.support.processes.deadlines import PATIENCE_S


def view(leader: int) -> ClusterView:
    partition = PartitionView(
        topic="t",
        partition=0,
        leader=leader,
        isr=(leader,),
        replicas=(1, 2),
        leader_epoch=UNTOLD,
        controller_epoch=0,
    )
    return ClusterView(
        brokers={1: 0, 2: 0}, controller=None, controller_epoch=0, partitions={("t", 0): partition}
    )


def observed(*looks: Callable[[], ClusterView]) -> list[ClusterChange]:
    """Return the changes reported for these views, the last of which is repeated."""
    found: list[ClusterChange] = []
    left = list(looks)
    enough = threading.Event()

    def look() -> ClusterView:
        if len(left) == 1:
            enough.set()
            return left[0]()
        return left.pop(0)()

    ticks = iter(range(0, 10**12, 1_000_000))
    observer = looking_observer(look, found.append, lambda: next(ticks))
    observer.start()
    assert enough.wait(PATIENCE_S)
    observer.close()
    return found


def silent() -> ClusterView:
    raise ViewUnavailable("no answer")


def test_probing_observer_reports_changes_without_epochs() -> None:
    found = observed(lambda: view(1), lambda: view(2))
    partitions = [change for change in found if change.kind is ChangeKind.PARTITION]
    assert [change.leader for change in partitions] == [1, 2]
    assert {change.leader_epoch for change in found} == {None}
    assert {change.version for change in found} == {None}


def test_probing_observer_is_blind_since_its_last_answer() -> None:
    found = observed(lambda: view(1), silent, lambda: view(2))
    kinds = [change.kind for change in found]
    lost, back = kinds.index(ChangeKind.ZOOKEEPER_LOST), kinds.index(ChangeKind.ZOOKEEPER_BACK)
    seen = [change for change in found if change.kind is ChangeKind.PARTITION]
    assert lost < back
    assert found[lost].time_ns < seen[0].time_ns, "what changed since that look may be unseen"
    assert seen[1].time_ns <= found[back].time_ns
