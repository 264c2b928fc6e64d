"""A client of the workload that is paused, and goes on as if nothing had been."""

import pytest

from ackproof.harness.campaign.clients import message_timeout_ms
from ackproof.history.cell import Cell
from ackproof.infra.api.interface import ProcessState
from ackproof.nemesis import FAULTS
from ackproof.nemesis.process.clients import OUTLASTED_MS
from ackproof.testing.memory.nodes import MemoryNode
from ackproof.testing.nemesis import Nemesis
from ackproof.workloads.configuration import CONSUMER_DEFAULTS

FIRST, SECOND = "producer-orders", "producer-payments"


def states(nemesis: Nemesis) -> list[str]:
    return [process.state().value for process in nemesis.memory.workload]


def test_it_is_stopped_as_the_kernel_tells_and_goes_on(nemesis: Nemesis) -> None:
    entry = nemesis.strike("pause-client", "clients", clients="all")
    assert nemesis.bitten(entry).observations == {"stopped": {FIRST: "stopped", SECOND: "stopped"}}
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).observations == {
        "not stopped": {FIRST: "running", SECOND: "running"}
    }
    assert states(nemesis) == ["running", "running"]


def test_one_is_drawn_and_the_other_goes_on(nemesis: Nemesis) -> None:
    nemesis.strike("pause-client", "clients")
    assert sorted(states(nemesis)) == ["running", "stopped"]


def test_only_those_of_the_target_s_nodes(nemesis: Nemesis) -> None:
    nemesis.memory.cluster.clients.append(MemoryNode("client-2", "client-2"))
    entry = nemesis.strike("pause-client", "client-2", clients="all")
    assert not nemesis.bitten(entry).proven, "no process runs there"
    assert entry.target.clients == ("client-2",)
    assert states(nemesis) == ["running", "running"]


def test_one_that_is_paused_already_is_the_other_fault_s(nemesis: Nemesis) -> None:
    first = nemesis.strike("pause-client", "clients", clients="all")
    second = nemesis.strike("pause-client", "clients", clients="all")
    assert not nemesis.bitten(second).proven
    nemesis.executor.heal(first)
    assert states(nemesis) == ["stopped", "stopped"], "the second still holds them"
    assert nemesis.healed(first).observations["not looked at"] == {
        "not stopped": {FIRST: "pause-client#2 is on", SECOND: "pause-client#2 is on"}
    }
    nemesis.executor.heal(second)
    assert states(nemesis) == ["running", "running"]


def test_one_that_has_not_lived_through_it_is_healed_and_has_ended_by_itself(
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


def test_it_is_held_for_longer_than_clients_limits() -> None:
    cell = Cell(name="a", topic="a", settings={"acks": "all"})
    least_ms = FAULTS["pause-client"].hold_ms_min(None)
    assert least_ms == OUTLASTED_MS
    assert least_ms > max(message_timeout_ms(cell), CONSUMER_DEFAULTS["session.timeout.ms"])
