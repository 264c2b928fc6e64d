"""The steps in which things break and are mended: faults, heal.

``heal`` works through what the ledger still holds, whatever became of the schedule.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from ackproof.harness.campaign.plan.faults import Act, lanes
from ackproof.harness.campaign.plan.scheduler import duration_ms
from ackproof.harness.running.context import Run, record_zookeeper_counters
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.servers import NothingLeft, brokers_are_gone, check_brokers_left
from ackproof.harness.running.steps import injection, story
from ackproof.harness.running.steps.injection import not_struck, strike
from ackproof.harness.running.steps.recovery import unwhole, whole
from ackproof.nemesis.execution.ledger import OpenFault
from ackproof.nemesis.targets.bounds import Count

# --- how many servers are affected at once --------------------------------------------------------
#
# The plan keeps to it already. But what takes longer to heal than planned is still on when the next
# one is due, which then waits.


class NoRoom(Exception):
    """It would have befallen more servers than may suffer at once, until it was too late."""


class Room:
    """Which acts are on, by what each befalls at the most. Thread-safe.

    Args:
        limit: How many servers may suffer.
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
        """Wait until there is room for ``act``, and keep it until it is over; if that is later,
        until all of it is proven to be healed. Where only what could not be healed is left to wait
        for, that is healed once more first. Raises NoRoom."""
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
        """Whether there is room by now, or as soon as some act is over that still goes on."""
        deadline.until(lambda: self._enter(act) or not self._goes_on(), at_most=at_most_s)
        return self._enter(act)

    def _enter(self, act: Act) -> bool:
        with self._lock:
            self._let_out()
            befallen = sum((one.befalls for one in self._inside.values()), act.befalls)
            # Alone it has room: whatever has not is refused with the campaign file.
            if self._inside and act.label not in self._inside and not befallen.within(self._limit):
                return False
            self._inside[act.label] = act
            return True

    def _goes_on(self) -> bool:
        with self._lock:
            return bool(self._inside.keys() - self._over)

    def _heal_what_is_left(self, act: Act, deadline: Deadline) -> None:
        # Nobody else would before the end: a broker that once took too long to come back would
        # have every later fault of the campaign wait for it in vain.
        # One lane at a time; the others find that there is room, or that there is none.
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
"""Between two looks whether a broker is left."""


class Ended(Exception):
    """The campaign asks for no more faults."""


def faults(run: Run, deadline: Deadline) -> None:
    """Strike with every planned fault: lane by lane those that come one after the other, each lane
    in a thread of its own, and each fault or story in one that has a time."""
    record_zookeeper_counters(run, "faults")
    began = run.clock.monotonic()
    room = Room(run, run.room)
    sequences = [partial(_lane, run, lane, room, began, deadline) for lane in lanes(run.plan)]
    _together(sequences, deadline)
    if not run.plan:
        deadline.wait(run.campaign.schedule.warmup / 1000)


def heal(run: Run, deadline: Deadline) -> None:
    """Break nothing from now on, and heal whatever the ledger still holds.

    Servers that died by themselves are not looked for here: the watch (:mod:`harness.running.
    servers`) has them from deploy to the final read, and a failed step ``heal`` would take their
    evidence from cells that the dead server had nothing to do with."""
    run.executor.close()
    for entry in run.ledger.still_open():
        injection.heal(run, entry, deadline)
    for entry in run.ledger.still_open():
        run.finding("heal", f"{entry.label} is not proven to be healed")


def _together(sequences: Sequence[Callable[[], None]], deadline: Deadline) -> None:
    """Carry out all of ``sequences`` at once; raise the first thing that any of them raised."""
    if len(sequences) == 1:
        sequences[0]()
        return
    crew = _Crew(sequences)
    for thread in crew.threads:
        while thread.is_alive():
            thread.join(_TICK_S)
            deadline.check()
    crew.raise_first()


class _Crew:
    """Threads, and what they raise."""

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


def _lane(run: Run, acts: Sequence[Act], room: Room, began: float, deadline: Deadline) -> None:
    """One act after the other; an act with a time of its own is alone in its lane."""
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
        except (Ended, NothingLeft, NoRoom) as why:
            for planned in act.faults:
                not_struck(run, planned, why, deadline)


def _wait(run: Run, seconds: float, deadline: Deadline) -> None:
    """Let ``seconds`` pass, or less when no broker is left."""
    end = run.clock.monotonic() + seconds
    if not deadline.until(lambda: brokers_are_gone(run), at_most=seconds, poll=_LOOK_S):
        deadline.wait(max(0.0, end - run.clock.monotonic()))


def _settle(run: Run, act: Act, deadline: Deadline) -> None:
    """Wait until every partition is led and every ISR full, at most as long as the campaign allows.
    If that is not enough, say so, and keep what is missing for the record of the act's first
    fault."""
    limit_s = run.campaign.schedule.settle / 1000
    if not limit_s or deadline.until(lambda: whole(run) or brokers_are_gone(run), at_most=limit_s):
        return
    if missing := unwhole(run):
        run.unsettled[act.faults[0].fault_id] = {f"not settled after {limit_s:g} s": missing}
        run.progress.note(f"{act.label}: the cluster has not settled in {limit_s:g} s: {missing}")


def _play(run: Run, act: Act, deadline: Deadline) -> None:
    if act.faults[0].part is None:
        strike(run, act.faults[0], deadline)
        return
    crew = _Crew(story.steps_of(run, act, deadline), name=f"faults-{act.label}")
    deadline.until(lambda: not any(thread.is_alive() for thread in crew.threads))
    deadline.check()
    crew.raise_first()


def _check_end(run: Run) -> None:
    """Raise NothingLeft when no broker is left, and Ended when the campaign's schedule is to end
    with the first broken guarantee, and one is broken that can be seen now."""
    check_brokers_left(run)
    if run.campaign.schedule.until == "first-broken-guarantee" and run.ended_by_themselves:
        raise Ended(f"{run.ended_by_themselves[0]} had ended by itself, and no more was asked for")


def _patience_s(run: Run) -> float:
    """How long one waits for room: as long as all that is planned may take."""
    return duration_ms(run.campaign, run.plan) / 1000 + injection.limit_s(run)
