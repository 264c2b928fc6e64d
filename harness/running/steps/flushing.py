"""The step ``flush``: every client ends as it was told to, and closes its history.

Producers first. What they have under way is for the consumers to read, which are asked when nobody
sends any more, and go on until they have read to the end.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ackproof.harness.campaign.clients.producers import message_timeout_ms
from ackproof.harness.running import clients, sessions, watch
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.steps.setup import CLIENTS, SILENCE, compare_clocks, ended_otherwise
from ackproof.infra.interface import InfraError
from ackproof.workloads.interface import CATCH_UP_S, Role

CLOSE_HISTORIES_S = 20.0
_FETCH_HISTORIES_S = 20.0


def limit_s(run: Run) -> float:
    """How long it may take, given the clients that run."""
    there = {one.client.role for one in run.running}
    return _FETCH_HISTORIES_S + sum(_share_s(run, role) for role in there)


def flush(run: Run, deadline: Deadline) -> None:
    """Every client finishes what is under way, closes its history and ends."""
    watch.stop(run.watches, [CLIENTS, SILENCE])
    for role in (Role.PRODUCER, Role.CONSUMER):
        # Of its own: one producer that hangs would else leave the consumers no time, and each of
        # them would be killed for it.
        end = min(deadline.end, run.clock.monotonic() + _share_s(run, role))
        _stop(run, role, replace(deadline, end=end))
    for node in run.client_nodes:
        _tried(run, node.sync)
        if run.ended_well.get("workload") is not None:
            _tried(run, partial(compare_clocks, run, node, "end"))
    # What a client says last is here only now where its files are copied.
    sessions.look(run)


def _share_s(run: Run, role: Role) -> float:
    """Producers wait at most message.timeout.ms for what is under way, consumers so long for what
    there is to read."""
    sent_s = max(map(message_timeout_ms, run.cells)) / 1000
    return CLOSE_HISTORIES_S + (sent_s if role is Role.PRODUCER else CATCH_UP_S)


def _stop(run: Run, role: Role, deadline: Deadline) -> None:
    for one in clients.of_role(role, run.running):
        if not one.ended():
            _tried(run, partial(clients.ask_to_stop, one))
    while left := clients.of_role(role, run.running):
        one = left[-1]
        how = clients.wait(one, deadline)
        run.running.remove(one)
        if how and one.ended():
            ended_otherwise(run, one, how)
        elif how:
            run.finding("flush", f"the client {one.client.name} {how}")


def _tried(run: Run, act: Callable[[], None]) -> None:
    """A host that does not answer is a finding; what is left to do is done."""
    try:
        act()
    except InfraError as silence:
        run.finding("flush", str(silence))
