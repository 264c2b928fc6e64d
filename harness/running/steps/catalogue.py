"""The steps of a run, in order, as data: their prerequisites and their time limits."""

from collections.abc import Callable
from dataclasses import dataclass

from ackproof.harness.campaign.model.workload import clients_of
from ackproof.harness.campaign.plan import scheduler
from ackproof.harness.campaign.plan.context import fault_limit_ms
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.steps import closing, failover, nemesis, recovery, setup, story
from ackproof.history.cell import LIBRDKAFKA
from ackproof.nemesis.process.commands import CommandParameters
from ackproof.nemesis.process.pods import (
    Drained,
    OperatorRolled,
    drain_limit_ms,
    operator_roll_limit_ms,
)
from ackproof.nemesis.process.rolling import Rolled, roll_limit_ms

_START_CLIENTS_S = 30.0
_START_A_CLIENT_S = 1.0
"""The seconds that each client may add to that, on a machine with few cores."""
_START_A_PROGRAM_S = 4.0
"""The further seconds of a program under test, which may be a Java virtual machine."""
_LAST_LOOK_S = 5.0
"""The seconds that the look at the end of the time for recovery may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One step of a run.

    Attributes:
        name: Its name as in :data:`history.schema.PHASES`.
        limit_s: The seconds that it may take, derived from the campaign.
        needs: The step that must have ended well for this one to make sense.
        cleans_up: Whether it also runs after Ctrl-C.
        planned: Whether the campaign asks for it.
    """

    name: str
    act: Callable[[Run, Deadline], None]
    limit_s: Callable[[Run], float]
    needs: str | None = None
    cleans_up: bool = False
    planned: Callable[[Run], bool] = lambda _run: True


def _start_s(run: Run) -> float:
    spec = run.campaign.workload
    loads = spec.loads_of(run.cells)
    each = sum(map(clients_of, loads.values()))
    programs = sum(loads[one.name].producers for one in run.cells if one.client != LIBRDKAFKA)
    return _START_CLIENTS_S + each * _START_A_CLIENT_S + programs * _START_A_PROGRAM_S


def _faults_s(run: Run) -> float:
    limit_ms = fault_limit_ms(run.campaign, run.system)
    each_s = (run.campaign.schedule.settle + 3 * limit_ms) / 1000
    planned_s = scheduler.duration_ms(run.campaign, run.plan) / 1000
    # Each fault that takes longer than planned delays everything that waits for it.
    cues_s = sum(2 * story.cue_limit_s(run) for planned in run.plan if planned.part is not None)
    # The three limits are for the injection, the heal, and twice the last look, which begins within
    # the time for a proof.
    return (
        planned_s
        + len(run.plan) * each_s
        + cues_s
        + _commands_s(run, 4)
        + _rolls_and_drains_s(run)
        + 1
    )


def _rolls_and_drains_s(run: Run) -> float:
    """Return how long the rolls of servers to another release, and the drains of their nodes, may
    take, in seconds."""
    servers = len({one.name for one in (*run.system.zookeepers, *run.system.brokers)})
    own = [one.parameters for one in run.plan]
    rolls_ms = sum(roll_limit_ms(one, servers) for one in own if isinstance(one, Rolled))
    drains_ms = sum(drain_limit_ms(one, servers) for one in own if isinstance(one, Drained))
    by_operator_ms = sum(
        operator_roll_limit_ms(one, servers) for one in own if isinstance(one, OperatorRolled)
    )
    return (rolls_ms + by_operator_ms + drains_ms) / 1000


def _commands_s(run: Run, each: int) -> float:
    """Return how long the commands of the campaign's own faults may take, in seconds, with ``each``
    commands for each fault."""
    own = (one.parameters for one in run.plan if isinstance(one.parameters, CommandParameters))
    return sum(each * commands.within_ms for commands in own) / 1000


def _recover_s(run: Run) -> float:
    cluster_s = (run.campaign.limits.recover + run.campaign.schedule.tail) / 1000
    return cluster_s + recovery.groups_limit_s(run)


def _heal_s(run: Run) -> float:
    looks_s = (1 + len(run.plan)) * fault_limit_ms(run.campaign, run.system) / 1000
    return looks_s + _commands_s(run, 2)


def _failover_s(run: Run) -> float:
    """Return the seconds for all failovers. Each takes at most four times its limit (to grow, to
    fill the ISRs, to warm up, to fail over), and the return of its broker."""
    spec = run.campaign.failover
    back_ms = fault_limit_ms(run.campaign, run.system)
    return len(run.failovers) * (4 * (spec.limit if spec else 0) + back_ms) / 1000


STEPS: tuple[RunStep, ...] = (
    RunStep(name="deploy", act=setup.deploy, limit_s=lambda run: run.campaign.limits.deploy / 1000),
    RunStep(
        name="ready",
        act=setup.ready,
        limit_s=lambda run: run.campaign.limits.ready / 1000,
        needs="deploy",
    ),
    RunStep(
        name="workload",
        act=setup.start_workload,
        limit_s=_start_s,
        needs="ready",
    ),
    RunStep(name="faults", act=nemesis.faults, limit_s=_faults_s, needs="workload"),
    RunStep(
        name="heal",
        act=nemesis.heal,
        limit_s=_heal_s,
        needs="deploy",
        cleans_up=True,
    ),
    RunStep(
        name="recover",
        act=recovery.recover,
        limit_s=lambda run: _LAST_LOOK_S + _recover_s(run),
        needs="ready",
    ),
    RunStep(
        name="flush",
        act=closing.flush,
        limit_s=closing.flush_limit_s,
        needs="ready",
        cleans_up=True,
    ),
    RunStep(
        name="final-read",
        act=closing.final_read,
        limit_s=lambda run: run.campaign.limits.final_read / 1000 + closing.CLOSE_HISTORIES_S,
        needs="ready",
    ),
    RunStep(
        name="failover",
        act=failover.failover,
        limit_s=_failover_s,
        needs="ready",
        planned=lambda run: bool(run.failovers),
    ),
    RunStep(
        name="collect",
        act=closing.collect,
        limit_s=lambda run: run.campaign.limits.collect / 1000,
        cleans_up=True,
    ),
    RunStep(
        name="teardown",
        act=closing.teardown,
        limit_s=lambda run: run.campaign.limits.teardown / 1000,
        cleans_up=True,
    ),
)
