"""What a search has met: how often which kind of thing happened, over all its runs.

A search that met no truncation has said nothing about truncation. What is in :data:`EXPECTED` and
was never met is shown with a zero.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, get_args

from rich.table import Table

from broker.controller import events as controller_events
from broker.replication import events as replication_events
from broker.replication.replica import STEPS
from simulation import actions

Coverage = Counter[tuple[str, str]]
"""By room (``replica event``, ``fault``, ...) and name."""

REPLICA_EVENT: Final = "replica event"
REPLICA_EFFECT: Final = "replica effect"
CONTROLLER_EVENT: Final = "controller event"
CONTROLLER_EFFECT: Final = "controller effect"
GROUP_EVENT: Final = "group event"
GROUP_EFFECT: Final = "group effect"
FAULT: Final = "fault"
ORDER: Final = "order"
CLIENT: Final = "client"
ZOOKEEPER: Final = "zookeeper"
ENDING: Final = "run"


def _names(room: str, union: object) -> list[tuple[str, str]]:
    return [(room, kind.__name__) for kind in get_args(union)]


EXPECTED: Final = (
    *(
        (REPLICA_EVENT, f"{role.value}: {event.__name__}")
        for role, steps in STEPS.items()
        for event in steps
    ),
    *_names(REPLICA_EFFECT, replication_events.Effect),
    *_names(CONTROLLER_EVENT, controller_events.Event),
    *_names(CONTROLLER_EFFECT, controller_events.Effect),
    *_names(FAULT, actions.Fault),
    *_names(ORDER, actions.Order),
)


def table(coverage: Coverage) -> Table:
    """For the terminal: a line for each thing, those never met included."""
    shown = Table("what", "", "times", title="Coverage")
    shown.columns[2].justify = "right"
    last = ""
    for (room, name), count in _lines(coverage):
        style = "bold red" if count == 0 else None
        shown.add_row("" if room == last else room, name, f"{count:,}", style=style)
        last = room
    return shown


def never_met(coverage: Coverage) -> list[tuple[str, str]]:
    """What was to be expected."""
    return [what for what in EXPECTED if not coverage[what]]


def _lines(coverage: Coverage) -> Iterator[tuple[tuple[str, str], int]]:
    rooms = list(dict.fromkeys(room for room, _ in (*EXPECTED, *sorted(coverage))))
    for room in rooms:
        names = {name for where, name in (*EXPECTED, *coverage) if where == room}
        for name in sorted(names):
            yield (room, name), coverage[room, name]
