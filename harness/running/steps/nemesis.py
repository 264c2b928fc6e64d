"""The steps in which things break and are mended: faults, heal.

``heal`` works through what the ledger still holds, whatever became of the schedule.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial

from ackproof.harness.campaign.plan.faults import Act, lanes
from ackproof.harness.campaign.plan.scheduler import duration_ms
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.servers import NothingLeft, brokers_are_gone, check_brokers_left
from ackproof.harness.running.steps import story, striking
from ackproof.harness.running.steps.counting import counted
from ackproof.harness.running.steps.recovering import unwhole, whole
from ackproof.harness.running.steps.room import NoRoom, Room
from ackproof.harness.running.steps.striking import not_struck, strike

_TICK_S = 0.2
_LOOK_S = 1.0
"""Between two looks whether a broker is left."""


class Ended(Exception):
    """The campaign asks for no more faults."""


def faults(run: Run, deadline: Deadline) -> None:
    """Strike with every planned fault: lane by lane those that come one after the other, each lane
    in a thread of its own, and each fault or story in one that has a time."""
    counted(run, "faults")
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
        striking.heal(run, entry, deadline)
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
    return duration_ms(run.campaign, run.plan) / 1000 + striking.limit_s(run)
