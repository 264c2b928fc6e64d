"""Problems of upgrades: faults that change the release of servers, and the two releases."""

from collections.abc import Iterator

from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.schedule import Entry, FaultEntry, StoryEntry
from ackproof.harness.campaign.plan.faults import parameters_of
from ackproof.harness.campaign.plan.needs import faults_of
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.infra.systems import parse
from ackproof.infra.systems.product import is_external
from ackproof.nemesis.process.rolling import DOWNGRADE, ROLLS, UPGRADE, Upgraded

_SYSTEM = "cluster.system"
_NAMES = frozenset(one.name for one in ROLLS)
_PROTOCOL = "inter.broker.protocol.version"
_EXAMPLE = f"{_SYSTEM}: {{from: kafka:3.9.2, to: kafka:4.4.0}}"

_Rolls = list[tuple[int, Entry, str]]
"""The entries that roll servers: each with its index, and the name of the fault."""


def upgrade_problems(draft: Draft) -> Iterator[Problem]:
    """Yield the problems of the rolls of valid sections, and of a system with two releases."""
    if draft.cluster is None or draft.faults is None or is_external(draft.cluster.system):
        return  # those of an external cluster are refused as all faults that it lacks
    build = parse(draft.cluster.system)
    rolls = [
        (index, entry, name)
        for index, entry in enumerate(draft.faults)
        for name in faults_of(entry)
        if name in _NAMES
    ]
    if not build.is_upgrade:
        for index, entry, name in rolls:
            reason = f"{name} needs two releases ({_EXAMPLE}), but there is only {build.text}"
            yield Problem(field=_field(index, entry), reason=reason)
        return
    if not any(name == UPGRADE.name for _, _, name in rolls):
        servers = "all + quorum" if draft.cluster.largest.kraft else "all"
        reason = (
            f"{build.text} has two releases, but no fault changes servers to the newer one: add "
            f"{{fault: upgrade, target: {servers}}}, or name one release"
        )
        yield Problem(field=_SYSTEM, reason=reason)
        return
    if _PROTOCOL in draft.cluster.properties:
        reason = "is set by the upgrade itself, to that of the older release until it is final"
        yield Problem(field=f"cluster.properties.{_PROTOCOL}", reason=reason, key=True)
    yield from _of_order(draft, rolls)


def _of_order(draft: Draft, rolls: _Rolls) -> Iterator[Problem]:
    """Yield the problems of rolls that come in a wrong order, or in one that is not certain."""
    schedule = draft.schedule
    if schedule is None:
        return
    waiting = [index for index, entry, _ in rolls if entry.at is None]
    if len(rolls) > 1 and (len(waiting) < len(rolls)):
        reason = (
            "the order of several rolls must be certain: let all of them follow the schedule, "
            "without `at`"
        )
        yield from (
            Problem(field=f"faults[{index}].at", reason=reason)
            for index, entry, _ in rolls
            if entry.at is not None
        )
    elif len(waiting) > 1 and (schedule.order != "listed" or schedule.lanes > 1):
        field = "order" if schedule.order != "listed" else "lanes"
        reason = "several rolls need `order: listed` and one lane, so that their order is certain"
        yield Problem(field=f"schedule.{field}", reason=reason)
    else:
        again = bool(waiting) and (schedule.rounds > 1 or schedule.lasts is not None)
        yield from _of_sequence(rolls, again=again)
        if again and not any(name == DOWNGRADE.name for _, _, name in rolls):
            field = "lasts" if schedule.lasts is not None else "rounds"
            reason = (
                f"repeats the faults, but a second {UPGRADE.name} has nothing to change: leave it "
                f"out, or list {DOWNGRADE.name} after it"
            )
            yield Problem(field=f"schedule.{field}", reason=reason)


def _of_sequence(rolls: _Rolls, *, again: bool) -> Iterator[Problem]:
    """Yield the problems of a certain sequence of rolls.

    ``again`` is whether the sequence may be repeated.
    """
    upgraded = final = False
    finals = any(_is_final(entry, name) for _, entry, name in rolls)
    for index, entry, name in rolls:
        if name == UPGRADE.name:
            upgraded, final = True, final or _is_final(entry, name)
        elif final or (again and finals):
            reason = (
                f"{DOWNGRADE.name} comes after an upgrade with finalize: true, and Kafka does not "
                "go back from there: finalize later, or not at all"
            )
            yield Problem(field=_field(index, entry), reason=reason)
        elif not upgraded:
            reason = f"{DOWNGRADE.name} has nothing to take back: list {UPGRADE.name} before it"
            yield Problem(field=_field(index, entry), reason=reason)


def _is_final(entry: Entry, name: str) -> bool:
    if name != UPGRADE.name or not isinstance(entry, FaultEntry):
        return False
    parameters = parameters_of(name, entry.parameters)
    return isinstance(parameters, Upgraded) and parameters.finalize


def _field(index: int, entry: Entry) -> str:
    return f"faults[{index}].{'story' if isinstance(entry, StoryEntry) else 'fault'}"
