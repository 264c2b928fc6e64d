"""Reports of an observer of the metadata log about times without an answer."""

import threading
from collections.abc import Callable, Sequence

import pytest

from ackproof.infra.api.interface import ViewUnavailable
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.systems.kafka.kraft.image import Image
from ackproof.infra.systems.kafka.kraft.log import ReadingOrigin, log_observer
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
    observer = log_observer(log, seen.append, log.clock)  # type: ignore[arg-type]
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


def test_exception_in_on_change_ends_the_observer() -> None:
    def refuse(_change: ClusterChange) -> None:
        raise RuntimeError("full")

    log = Log([(0.1, True)])
    observer = log_observer(log, refuse, log.clock)  # type: ignore[arg-type]
    observer.start()
    with pytest.raises(RuntimeError, match="full"):
        observer.close()
    observer.close()
