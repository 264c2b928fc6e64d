"""The coverage of a search: the number of events of each kind over all its runs.

A search without any truncation says nothing about truncation. An :func:`expected` event that never
happened is shown with a zero.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, get_args

from rich.table import Table

from ackproof.broker.controller import events as controller_events
from ackproof.broker.coordination import effects as coordination_effects
from ackproof.broker.coordination import events as coordination_events
from ackproof.broker.replication import events as replication_events
from ackproof.broker.replication.replica import STEPS
from simulation.plans import actions

Coverage = Counter[tuple[str, str]]
"""The counts by category (``replica event``, ``fault``, ...) and name."""

REPLICA_EVENT: Final = "replica event"
REPLICA_EFFECT: Final = "replica effect"
CONTROLLER_EVENT: Final = "controller event"
CONTROLLER_EFFECT: Final = "controller effect"
COORDINATION_EVENT: Final = "coordination event"
COORDINATION_EFFECT: Final = "coordination effect"
GROUP_EVENT: Final = "group event"
GROUP_EFFECT: Final = "group effect"
FAULT: Final = "fault"
ORDER: Final = "order"
CLIENT: Final = "client"
ZOOKEEPER: Final = "zookeeper"
ENDING: Final = "run"


def _names(category: str, union: object) -> list[tuple[str, str]]:
    return [(category, kind.__name__) for kind in get_args(union)]


_ALWAYS: Final = (
    *(
        (REPLICA_EVENT, f"{role.value}: {event.__name__}")
        for role, steps in STEPS.items()
        for event in steps
        if event is not replication_events.LogEndMoved  # a part of the step that truncates
    ),
    *_names(REPLICA_EFFECT, replication_events.Effect),
    *_names(FAULT, actions.Fault),
    *_names(ORDER, actions.Order),
)
_BY_CONTROLLER: Final = (
    *_names(CONTROLLER_EVENT, controller_events.Event),
    *_names(CONTROLLER_EFFECT, controller_events.Effect),
)
_BY_LEADERS: Final = (
    *_names(COORDINATION_EVENT, coordination_events.Event),
    *_names(COORDINATION_EFFECT, coordination_effects.Effect),
)


def expected(coverage: Coverage) -> tuple[tuple[str, str], ...]:
    """Return the events that a search should see, for the kinds of coordination that it has
    seen."""
    led = any(category == COORDINATION_EVENT for category, _ in coverage)
    controlled = not led or any(category == CONTROLLER_EVENT for category, _ in coverage)
    return (*_ALWAYS, *(_BY_CONTROLLER if controlled else ()), *(_BY_LEADERS if led else ()))


def table(coverage: Coverage) -> Table:
    """Return the table for the terminal, including the expected events that never happened."""
    shown = Table("what", "", "times", title="Coverage")
    shown.columns[2].justify = "right"
    last = ""
    for (category, name), count in _lines(coverage):
        style = "bold red" if count == 0 else None
        shown.add_row("" if category == last else category, name, f"{count:,}", style=style)
        last = category
    return shown


def _lines(coverage: Coverage) -> Iterator[tuple[tuple[str, str], int]]:
    wanted = expected(coverage)
    categories = list(dict.fromkeys(category for category, _ in (*wanted, *sorted(coverage))))
    for category in categories:
        names = {name for where, name in (*wanted, *coverage) if where == category}
        for name in sorted(names):
            yield (category, name), coverage[category, name]
