"""How many servers suffer at once, kept to while the faults are on.

The plan keeps to it already. But what takes longer to heal than planned is still on when the next
one is due, which then waits.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ackproof.harness.campaign.plan.faults import Act
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.steps import striking
from ackproof.nemesis.execution.ledger import OpenFault
from ackproof.nemesis.targets.bounds import Count


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
                    striking.heal(self._run, entry, deadline)
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
