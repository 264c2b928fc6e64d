"""A client of the workload that is paused, and goes on as if nothing had been."""

import pytest

from ackproof.harness.campaign.clients import message_timeout_ms
from ackproof.history.cell import Cell
from ackproof.infra.api.interface import ProcessState
from ackproof.nemesis import FAULTS
from ackproof.nemesis.process.clients import OUTLASTED_MS
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.servers import MemoryNode
from ackproof.workloads.configuration import CONSUMER_DEFAULTS

FIRST, SECOND = "producer-orders", "producer-payments"


def states(nemesis: Nemesis) -> list[str]:
    return [process.state().value for process in nemesis.memory.workload]


def test_paused_client_is_stopped_and_continues(nemesis: Nemesis) -> None:
    entry = nemesis.strike("pause-client", "clients", clients="all")
    assert nemesis.bitten(entry).observations == {"stopped": {FIRST: "stopped", SECOND: "stopped"}}
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).observations == {
        "not stopped": {FIRST: "running", SECOND: "running"}
    }
    assert states(nemesis) == ["running", "running"]


def test_single_drawn_client_is_paused(nemesis: Nemesis) -> None:
    nemesis.strike("pause-client", "clients")
    assert sorted(states(nemesis)) == ["running", "stopped"]


def test_only_those_of_the_target_s_nodes(nemesis: Nemesis) -> None:
    nemesis.memory.cluster.clients.append(MemoryNode("client-2", "client-2"))
    entry = nemesis.strike("pause-client", "client-2", clients="all")
    assert not nemesis.bitten(entry).proven, "no process runs there"
    assert entry.target.clients == ("client-2",)
    assert states(nemesis) == ["running", "running"]


def test_client_that_is_already_paused_belongs_to_the_other_fault(nemesis: Nemesis) -> None:
    first = nemesis.strike("pause-client", "clients", clients="all")
    second = nemesis.strike("pause-client", "clients", clients="all")
    assert not nemesis.bitten(second).proven
    nemesis.executor.heal(first)
    assert states(nemesis) == ["stopped", "stopped"], "the second still holds them"
    assert nemesis.healed(first).observations["not observed"] == {
        "not stopped": {FIRST: "pause-client#2 is active", SECOND: "pause-client#2 is active"}
    }
    nemesis.executor.heal(second)
    assert states(nemesis) == ["running", "running"]


def test_client_that_ended_during_a_pause_is_healed_and_has_ended_by_itself(
    nemesis: Nemesis,
) -> None:
    entry = nemesis.strike("pause-client", "clients", clients="all")
    nemesis.memory.workload[0].current = ProcessState.EXITED
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven
    assert nemesis.ledger.ending(FIRST) == frozenset()


@pytest.mark.parametrize("which", ["bite", "heal"])
def test_pause_without_effect_is_not_proven(nemesis: Nemesis, which: str) -> None:
    processes = nemesis.memory.workload
    for process in processes if which == "bite" else ():
        process.deaf = True
    entry = nemesis.strike("pause-client", "clients", clients="all")
    assert nemesis.bitten(entry).proven is (which == "heal")
    for process in processes:
        process.deaf = True
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven is (which == "bite")


def test_pause_outlasts_the_client_timeouts() -> None:
    cell = Cell(name="a", topic="a", settings={"acks": "all"})
    least_ms = FAULTS["pause-client"].hold_ms_min(None)
    assert least_ms == OUTLASTED_MS
    assert least_ms > max(message_timeout_ms(cell), CONSUMER_DEFAULTS["session.timeout.ms"])
