"""The steps in which faults are injected and healed: faults and heal.

``heal`` works through the faults that the ledger still holds, even if the schedule failed.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from ackproof.harness.campaign.plan.faults import Act, lanes
from ackproof.harness.campaign.plan.scheduler import duration_ms
from ackproof.harness.running.context import Run, record_zookeeper_counters
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.servers import AllBrokersEnded, brokers_are_gone, check_brokers_left
from ackproof.harness.running.steps import injection, story
from ackproof.harness.running.steps.injection import not_struck, strike
from ackproof.harness.running.steps.recovery import unwhole, whole
from ackproof.nemesis.execution import OpenFault
from ackproof.nemesis.targets.resolution import Count

# --- how many servers are affected at once --------------------------------------------------------
#
# The plan already keeps to the limit. But a fault that takes longer to heal than planned is still
# active when the next one is due, which must then wait.


class NoRoom(Exception):
    """The failure of a fault to begin in time, because too many servers would have been
    affected."""


class ActiveActs:
    """The active acts, with the largest number of servers that each affects. It is thread-safe.

    Args:
        limit: The number of servers that may be affected at once.
    """

    def __init__(self, run: Run, limit: Count) -> None:
        self._run = run
        self._limit = limit
        self._lock = threading.Lock()
        self._inside: dict[str, Act] = {}
        self._over: set[str] = set()
        self._healing = threading.Lock()

    @contextmanager
    def for_act(self, act: Act, deadline: Deadline, at_most_s: float) -> Iterator[None]:
        """Wait until there is room for ``act``, and keep it until the act is over and proven to be
        healed.

        If only faults that could not be healed are left to wait for, they are healed once more
        first. Raises NoRoom.
        """
        if not self._waited(act, deadline, at_most_s):
            self._heal_what_is_left(act, deadline)
        if not self._waited(act, deadline, at_most_s):
            raise NoRoom(f"{', '.join(self._inside)} left no room for {act.label}")
        try:
            yield
        finally:
            with self._lock:
                self._over.add(act.label)

    def _waited(self, act: Act, deadline: Deadline, at_most_s: float) -> bool:
        """Return whether there is room by now, or as soon as an act that still goes on is over."""
        deadline.until(lambda: self._enter(act) or not self._goes_on(), at_most=at_most_s)
        return self._enter(act)

    def _enter(self, act: Act) -> bool:
        with self._lock:
            self._let_out()
            affected = sum((one.affected for one in self._inside.values()), act.affected)
            # An act alone always has room, because a campaign file with a larger one is refused.
            if self._inside and act.label not in self._inside and not affected.within(self._limit):
                return False
            self._inside[act.label] = act
            return True

    def _goes_on(self) -> bool:
        with self._lock:
            return bool(self._inside.keys() - self._over)

    def _heal_what_is_left(self, act: Act, deadline: Deadline) -> None:
        # Otherwise they would be healed only at the end. A broker that once took too long to come
        # back would make every later fault of the campaign wait for nothing. One lane heals at a
        # time. The others then find that there is room, or that there is none.
        if not deadline.until(lambda: self._healing.acquire(blocking=False)):
            return
        try:
            for entry in self._left_open():
                if not self._enter(act):
                    injection.heal(self._run, entry, deadline)
        finally:
            self._healing.release()

    def _left_open(self) -> list[OpenFault]:
        with self._lock:
            over = {f.fault_id for label in self._over for f in self._inside[label].faults}
        return [entry for entry in self._run.ledger.still_open() if entry.fault_id in over]

    def _let_out(self) -> None:
        unhealed = {entry.fault_id for entry in self._run.ledger.still_open()}
        for label in list(self._over):
            if not unhealed & {fault.fault_id for fault in self._inside[label].faults}:
                del self._inside[label]
                self._over.remove(label)


# --- the steps ------------------------------------------------------------------------------------

_TICK_S = 0.2
_LOOK_S = 1.0
"""The seconds between two looks at whether a broker is left."""


class ScheduleEnded(Exception):
    """The end of the schedule: the campaign asks for no more faults."""


def faults(run: Run, deadline: Deadline) -> None:
    """Inject every planned fault. Each lane has a thread of its own, in which its faults follow one
    another. So has each fault or story with a time."""
    record_zookeeper_counters(run, "faults")
    began = run.clock.monotonic()
    room = ActiveActs(run, run.room)
    sequences = [partial(_lane, run, lane, room, began, deadline) for lane in lanes(run.plan)]
    _together(sequences, deadline)
    if not run.plan:
        deadline.wait(run.campaign.schedule.warmup / 1000)


def heal(run: Run, deadline: Deadline) -> None:
    """Inject nothing from now on, and heal all faults that the ledger still holds.

    Servers that died by themselves are not searched for here. The watch
    (:mod:`harness.running.servers`) has them from deployment to the final read. A failed step
    ``heal`` would take the evidence from cells that the dead server did not affect.
    """
    run.executor.close()
    for entry in run.ledger.still_open():
        injection.heal(run, entry, deadline)
    for entry in run.ledger.still_open():
        run.finding("heal", f"{entry.label} is not proven to be healed")


def _together(sequences: Sequence[Callable[[], None]], deadline: Deadline) -> None:
    """Carry out all of ``sequences`` at once, and raise the first exception of any of them."""
    if len(sequences) == 1:
        sequences[0]()
        return
    crew = _ThreadGroup(sequences)
    for thread in crew.threads:
        while thread.is_alive():
            thread.join(_TICK_S)
            deadline.check()
    crew.raise_first()


class _ThreadGroup:
    """Threads, and the exceptions that they raise."""

    def __init__(self, acts: Sequence[Callable[[], None]], name: str = "faults") -> None:
        self._raised: list[Exception] = []
        self.threads = [
            threading.Thread(
                target=self._carry_out, args=(act,), name=f"{name}-{number}", daemon=True
            )
            for number, act in enumerate(acts, start=1)
        ]
        for thread in self.threads:
            thread.start()

    def raise_first(self) -> None:
        if self._raised:
            raise self._raised[0]

    def _carry_out(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - carried over to the step's thread
            self._raised.append(error)


def _lane(
    run: Run, acts: Sequence[Act], room: ActiveActs, began: float, deadline: Deadline
) -> None:
    """Carry out one act after the other. An act with a time of its own is alone in its lane."""
    for act in acts:
        until_start = act.start_ms / 1000 - (run.clock.monotonic() - began)
        gap_s = 0.0 if act is acts[0] else (act.gap_ms or 0) / 1000
        _wait(run, max(until_start, gap_s if until_start < 0 else 0.0), deadline)
        try:
            with room.for_act(act, deadline, _patience_s(run)):
                if act.gap_ms is not None:
                    _settle(run, act, deadline)
                _check_end(run)
                _play(run, act, deadline)
        except (ScheduleEnded, AllBrokersEnded, NoRoom) as why:
            for planned in act.faults:
                not_struck(run, planned, why, deadline)


def _wait(run: Run, seconds: float, deadline: Deadline) -> None:
    """Wait for ``seconds``, or less if no broker is left."""
    end = run.clock.monotonic() + seconds
    if not deadline.until(lambda: brokers_are_gone(run), at_most=seconds, poll=_LOOK_S):
        deadline.wait(max(0.0, end - run.clock.monotonic()))


def _settle(run: Run, act: Act, deadline: Deadline) -> None:
    """Wait until every partition has a leader and every ISR is full, at most as long as the
    campaign allows. If that is not enough, report it, and keep the missing conditions for the
    record of the act's first fault."""
    limit_s = run.campaign.schedule.settle / 1000
    if not limit_s or deadline.until(lambda: whole(run) or brokers_are_gone(run), at_most=limit_s):
        return
    if missing := unwhole(run):
        run.unsettled[act.faults[0].fault_id] = {f"not settled after {limit_s:g} s": missing}
        run.progress.note(
            f"{act.label}: the cluster did not settle within {limit_s:g} s: {missing}"
        )


def _play(run: Run, act: Act, deadline: Deadline) -> None:
    if act.faults[0].part is None:
        strike(run, act.faults[0], deadline)
        return
    crew = _ThreadGroup(story.steps_of(run, act, deadline), name=f"faults-{act.label}")
    deadline.until(lambda: not any(thread.is_alive() for thread in crew.threads))
    deadline.check()
    crew.raise_first()


def _check_end(run: Run) -> None:
    """Raise NothingLeft if no broker is left. Raise Ended if the campaign's schedule ends with the
    first broken guarantee, and a visible one is broken."""
    check_brokers_left(run)
    if run.campaign.schedule.until == "first-broken-guarantee" and run.ended_by_themselves:
        raise ScheduleEnded(
            f"{run.ended_by_themselves[0]} had ended by itself, and the campaign "
            "stops at that point"
        )


def _patience_s(run: Run) -> float:
    """Return how long an act waits for room, in seconds: as long as the whole plan may take."""
    return duration_ms(run.campaign, run.plan) / 1000 + injection.limit_s(run)
