"""Reports of an observer of the metadata log about times without an answer."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from ackproof.infra.api.capabilities import MigrationState
from ackproof.infra.api.interface import ClusterView, PartitionView, ViewUnavailable
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.systems.kafka.kraft.image import Image
from ackproof.infra.systems.kafka.kraft.log import ReadingOrigin, log_observer
from ackproof.infra.systems.kafka.kraft.records import (
    Partition,
    PartitionChange,
    RegisterBroker,
    Topic,
)
from ackproof.infra.systems.kafka.migration import MigrationObserver
from tests.support.processes.deadlines import PATIENCE_S

SECOND = 1_000_000_000
LOST, BACK = ChangeKind.ZOOKEEPER_LOST, ChangeKind.ZOOKEEPER_BACK


class Log:
    """Answers as it was told, a reading each, and the last one for ever: after how many seconds,
    and whether at all. It keeps the time."""

    def __init__(self, answers: Sequence[tuple[float, bool]]) -> None:
        self._answers = list(answers)
        self._now = 100 * SECOND
        self.over = threading.Event()

    def clock(self) -> int:
        return self._now

    def read(self, _timeout_s: float, on_part: Callable[[Image, ReadingOrigin], None]) -> None:
        if not self._answers:
            self.over.set()
            return
        after_s, answered = self._answers.pop(0)
        self._now += int(after_s * SECOND)
        if not answered:
            raise ViewUnavailable("silence")
        on_part(Image(), ReadingOrigin(controller=101, epoch=1))

    def close(self) -> None: ...


def told(*answers: tuple[float, bool]) -> list[tuple[ChangeKind, float]]:
    log, seen = Log(answers), list[ClusterChange]()
    observer = log_observer(log, seen.append, log.clock)
    observer.start()
    assert log.over.wait(PATIENCE_S)
    observer.close()
    rows = sorted(seen, key=lambda one: one.time_ns)
    return [(one.kind, one.time_ns / SECOND - 100) for one in rows if one.kind in (LOST, BACK)]


@pytest.mark.parametrize(
    ("answers", "rows"),
    [
        (((0.1, True), (0.1, True)), []),
        # Lost since it answered last: what was written then may be told later.
        (((0.1, True), (2.0, False), (0.1, True)), [(LOST, 0.0), (BACK, 2.2)]),
        # An answer, and too late; and what was written while it was on its way is told with the
        # next, a second after it was asked for.
        (
            ((0.1, True), (0.9, True), (0.1, True), (0.1, True)),
            [(LOST, 0.0), (BACK, 1.0), (LOST, 1.0), (BACK, 1.1)],
        ),
        (((2.0, False), (2.0, False), (0.1, True)), [(LOST, 0.0), (BACK, 4.1)]),
    ],
)
def test_a_hole_is_from_the_last_answer_to_the_next(
    answers: tuple[tuple[float, bool], ...], rows: list[tuple[ChangeKind, float]]
) -> None:
    assert told(*answers) == [(kind, pytest.approx(time)) for kind, time in rows]


def test_a_second_hole_begins_behind_the_first() -> None:
    """Asked at 0.1, answered at 1.0, asked then and answered at 1.9: told as of 0.1, the second
    would be within the first, and end with it."""
    found = told((0.1, True), (0.9, True), (0.9, True), (0.1, True))
    assert [kind for kind, _ in found] == [LOST, BACK] * 3


class MigratingLog(Log):
    """A metadata log that waits for brokers, and takes over with its third answer. Its brokers have
    epochs 5 and 6, and the first change by its controller is an election, in the same answer."""

    def read(self, _timeout_s: float, on_part: Callable[[Image, ReadingOrigin], None]) -> None:
        last = len(self._answers) == 1

        def with_state(_image: Image, moment: ReadingOrigin) -> None:
            if not last:
                on_part(Image(migration=MigrationState.PRE_MIGRATION), moment)
                return
            image = Image(migration=MigrationState.MIGRATION)
            copied = Partition(
                partition_id=0, topic_id=None, replicas=(1, 2), isr=(1, 2), leader=1,
                leader_epoch=7, partition_epoch=9,
            )  # fmt: skip
            brokers = [
                RegisterBroker(broker_id=n, broker_epoch=n + 4, fenced=False) for n in (1, 2)
            ]
            records = (Topic(name="orders", topic_id=None), copied, *brokers)
            image.apply(records, epoch=1)
            on_part(image, moment)
            elected = PartitionChange(partition_id=0, topic_id=None, leader=2)
            image.apply((elected,), epoch=1)
            on_part(image, moment)

        super().read(_timeout_s, with_state)


def test_metadata_log_continues_the_observation_of_zookeeper_with_a_gap_and_no_absence() -> None:
    """The states, epochs and versions are those of one partition; brokers never were away."""
    log, seen = MigratingLog([(0.1, True)] * 3), list[ClusterChange]()
    one = PartitionView(
        topic="orders", partition=0, leader=1, isr=(1, 2), replicas=(1, 2), leader_epoch=7,
        controller_epoch=3, version=9,
    )  # fmt: skip
    view = ClusterView(
        brokers={1: 111, 2: 222}, controller=1, controller_epoch=3, partitions={("orders", 0): one}
    )
    observer = MigrationObserver(
        lambda: view,
        log,
        lambda: True,
        lambda: False,
        seen.append,
        log.clock,  # type: ignore[arg-type]
    )
    observer.start()
    assert log.over.wait(PATIENCE_S)
    observer.close()
    kinds = [change.kind for change in seen]
    partition, controller = ChangeKind.PARTITION, ChangeKind.CONTROLLER
    by_zookeeper = [ChangeKind.BROKER_UP, ChangeKind.BROKER_UP, controller, partition]
    assert kinds == [*by_zookeeper, LOST, controller, partition, partition, BACK]
    epochs = [(change.leader_epoch, change.version) for change in seen if change.kind is partition]
    assert epochs == [(7, 9), (7, 9), (8, 10)]
    assert [change.broker for change in seen if change.kind is controller] == [1, 101]
    # From the last reading of ZooKeeper that was sure to be its truth.
    assert [change.time_ns / SECOND - 100 for change in seen if change.kind in (LOST, BACK)] == [
        pytest.approx(0.1),
        pytest.approx(0.3),
    ]


def test_zookeeper_continues_the_observation_once_a_broker_is_controller_again() -> None:
    """The znode was written less often than the metadata log: its versions are kept apart."""
    log, seen = MigratingLog([(0.1, True)]), list[ClusterChange]()
    one = PartitionView(
        topic="orders", partition=0, leader=2, isr=(1, 2), replicas=(1, 2), leader_epoch=8,
        controller_epoch=4, version=9,
    )  # fmt: skip
    shrunk = replace(one, isr=(2,), version=10)
    answers: list[tuple[int | None, PartitionView]] = [(101, one), (None, one), (1, one)]
    answers += [(1, shrunk)]
    removed = iter((False,))

    def view() -> ClusterView:
        if not seen:  # before the controllers took over
            controller, partition = 1, replace(one, leader=1, leader_epoch=7)
        elif answers:
            controller, partition = answers.pop(0)
        else:
            log.over.set()
            controller, partition = 1, shrunk
        return ClusterView(
            brokers={1: 111, 2: 222}, controller=controller, controller_epoch=4,
            partitions={("orders", 0): partition},
        )  # fmt: skip

    observer = MigrationObserver(
        view, log, lambda: True, lambda: next(removed, True), seen.append, log.clock
    )
    observer.start()
    assert log.over.wait(PATIENCE_S)
    observer.close()
    kinds = [change.kind for change in seen]
    partition, controller = ChangeKind.PARTITION, ChangeKind.CONTROLLER
    up = ChangeKind.BROKER_UP
    by_log = [LOST, up, up, controller, partition, partition, BACK]
    assert kinds == [*by_log, LOST, controller, partition, BACK, partition]
    versions = [change.version for change in seen if change.kind is partition]
    assert versions[:2] == [9, 10]
    assert versions[2] is not None
    assert versions[2] > versions[1] + 1, "nothing says that no change was between them"
    assert versions[3] == versions[2] + 1
    assert [change.broker for change in seen if change.kind is controller] == [101, 1]


def test_silent_controllers_are_a_gap_as_soon_as_they_may_decide() -> None:
    view = ClusterView(brokers={}, controller=None, controller_epoch=0, partitions={})
    for may_have_begun, kinds in ((False, []), (True, [LOST])):
        log, seen = MigratingLog([(0.1, False)]), list[ClusterChange]()
        looks = iter((False, may_have_begun))

        def asked(log: Log = log, looks: Iterator[bool] = looks) -> bool:
            if (now := next(looks, None)) is None:
                log.over.set()
            return bool(now)

        observer = MigrationObserver(
            lambda: view,
            log,
            asked,
            lambda: False,
            seen.append,
            log.clock,  # type: ignore[arg-type]
        )
        observer.start()
        assert log.over.wait(PATIENCE_S)
        observer.close()
        assert [change.kind for change in seen if change.kind in (LOST, BACK)][:1] == kinds


def test_exception_in_on_change_ends_the_observer() -> None:
    def refuse(_change: ClusterChange) -> None:
        raise RuntimeError("full")

    log = Log([(0.1, True)])
    observer = log_observer(log, refuse, log.clock)
    observer.start()
    with pytest.raises(RuntimeError, match="full"):
        observer.close()
    observer.close()
