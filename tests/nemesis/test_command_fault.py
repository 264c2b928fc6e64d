"""Faults by commands of the user's own: proven by a command, healed by one, and shared with the
other faults as any fault is."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from ackproof.infra.api.interface import InfraError, ProcessState
from ackproof.nemesis import FAULTS
from ackproof.nemesis.effects import EffectNotBegun
from ackproof.nemesis.execution import HealFailed
from ackproof.testing.faults import Nemesis
from tests.support.fakes.remote_probe import FromOutside
from tests.support.faults.own_commands import by_file

TARGETS = ["leader(orders, 0)", "all", "zookeeper", "clients", "all + zookeeper"]


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.mark.parametrize("expression", TARGETS)
@pytest.mark.parametrize("effects", [[], ["stops", "cuts-off"]])
def test_command_takes_effect_and_heals(
    nemesis: Nemesis, mark: Path, expression: str, effects: list[str]
) -> None:
    nemesis.through("command", expression, **by_file(mark, effects=effects))
    assert not mark.exists()


def test_without_its_own_proof_the_heal_command_counts(nemesis: Nemesis, mark: Path) -> None:
    given = by_file(mark, healed=[])
    nemesis.through("command", "broker-1", **given)


def test_failed_verify_command_disproves_the_fault(nemesis: Nemesis, mark: Path) -> None:
    lying = by_file(mark, verify=["sh", "-c", "echo nothing is broken; exit 1"])
    proof = nemesis.bitten(nemesis.strike("command", "broker-1", **lying))
    assert not proof.proven
    assert proof.observations["verify ended with 0"] == {
        "verify": "ended with 1: nothing is broken"
    }


def test_program_that_is_not_there_has_changed_nothing(nemesis: Nemesis, mark: Path) -> None:
    entry = nemesis.aim("command", "broker-1", **by_file(mark, inject=["no-such-program"]))
    with pytest.raises(EffectNotBegun, match="no-such-program cannot be started"):
        nemesis.executor.inject(entry)
    assert not nemesis.bitten(entry).proven
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven


def test_command_that_fails_is_undone(nemesis: Nemesis, mark: Path) -> None:
    given = by_file(mark, inject=["sh", "-c", f"touch {mark}; echo no rights; exit 1"])
    entry = nemesis.aim("command", "broker-1", **given)
    with pytest.raises(InfraError, match="ended with 1: no rights"):
        nemesis.executor.inject(entry)
    assert mark.exists()
    nemesis.executor.heal(entry)
    assert not mark.exists()


def test_heal_that_fails_is_tried_again(nemesis: Nemesis, mark: Path, tmp_path: Path) -> None:
    cure = tmp_path / "cure"
    given = by_file(mark, heal=["sh", "-c", f"test -e {cure} && rm -f {mark}"])
    entry = nemesis.strike("command", "broker-1", **given)
    with pytest.raises(HealFailed, match="ended with 1"):
        nemesis.executor.heal(entry)
    assert not nemesis.healed(entry).proven
    cure.touch()
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven


def test_effect_that_lasts_is_not_healed(nemesis: Nemesis, mark: Path) -> None:
    entry = nemesis.strike("command", "broker-1", **by_file(mark, heal=["true"]))
    nemesis.executor.heal(entry)
    assert not nemesis.healed(entry).proven


def test_same_command_twice_is_injected_once_and_healed_by_the_last(
    nemesis: Nemesis, mark: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    given = by_file(mark, inject=["sh", "-c", f"touch {mark}; echo in >> {log}"])
    first = nemesis.strike("command", "broker-1", **given)
    second = nemesis.strike("command", "broker-1", **given)
    assert log.read_text() == "in\n"
    assert nemesis.bitten(first).proven
    assert not nemesis.bitten(second).proven, "it has changed nothing"
    nemesis.executor.heal(first)
    assert mark.exists()
    assert nemesis.healed(first).proven, "the other one is on"
    nemesis.ledger.close(1)
    nemesis.executor.heal(second)
    assert not mark.exists()
    assert nemesis.healed(second).proven


def test_target_is_in_the_environment(nemesis: Nemesis, tmp_path: Path) -> None:
    told = tmp_path / "told"
    given = by_file(inject=["sh", "-c", f"env > {told}"], verify=["true"], heal=["true"])
    nemesis.strike("command", "broker-1 + zookeeper-1", **given)
    lines = told.read_text().splitlines()
    address = nemesis.memory.system.brokers[0].node.address
    assert {
        "ACKPROOF_TARGET=broker-1 + zookeeper-1",
        "ACKPROOF_BROKER_IDS=1",
        f"ACKPROOF_BROKERS=1={address}:9092",
        "ACKPROOF_RUN=0",
    } <= set(lines)


class TestServerThatTheCommandStops:
    def test_stopped_server_with_a_declared_effect_is_held_by_the_fault(
        self, nemesis: Nemesis, mark: Path
    ) -> None:
        stopping = nemesis.strike("command", "broker-1", **by_file(mark, effects=["stops"]))
        assert nemesis.ledger.holding("broker-1") == stopping.fault_id
        nemesis.memory.system.brokers[0].process.signal(9)
        nemesis.executor.heal(stopping)
        assert nemesis.memory.system.brokers[0].starts == 1
        assert nemesis.healed(stopping).proven

    def test_stopped_server_without_a_declared_effect_has_ended_by_itself(
        self, nemesis: Nemesis, mark: Path
    ) -> None:
        entry = nemesis.strike("command", "broker-1", **by_file(mark))
        assert nemesis.ledger.holding("broker-1") is None
        nemesis.memory.system.brokers[0].process.signal(9)
        nemesis.executor.heal(entry)
        assert not nemesis.healed(entry).proven

    @pytest.mark.parametrize("first", ["command", "kill"])
    def test_stays_down_until_the_last_fault_on_it_is_healed(
        self, nemesis: Nemesis, mark: Path, first: str
    ) -> None:
        struck = {
            "command": nemesis.strike("command", "broker-1", **by_file(mark, effects=["stops"])),
            "kill": nemesis.strike("kill", "broker-1"),
        }
        (second,) = struck.keys() - {first}
        process = nemesis.memory.system.brokers[0]
        nemesis.executor.heal(struck[first])
        assert process.process.state() is ProcessState.EXITED
        nemesis.executor.heal(struck[second])
        assert process.process.state() is ProcessState.RUNNING
        assert not mark.exists()


@pytest.mark.parametrize("effects", [[], ["stops", "cuts-off"]])
def test_brokers_of_ones_own_must_serve_again_and_are_not_started(
    nemesis: Nemesis, mark: Path, effects: list[str]
) -> None:
    """They are brought back by the command that heals, and by nothing else."""
    server = nemesis.memory.system.brokers[0]
    for one in nemesis.memory.system.brokers:
        one.distant = FromOutside(one)
    entry = nemesis.through("command", "broker-1", **by_file(mark, effects=effects))
    nemesis.ledger.close(entry.fault_id)
    entry = nemesis.strike("command", "broker-1", **by_file(mark, effects=effects))
    server.process.signal(9)
    nemesis.executor.heal(entry)
    assert not nemesis.healed(entry).proven
    assert server.starts == 0


def test_cut_that_is_declared_accounts_for_links_of_other_faults(
    nemesis: Nemesis, mark: Path
) -> None:
    for effects, accounted in (["cuts-off"], True), ([], False):
        command = nemesis.strike("command", "broker-1", **by_file(mark, effects=effects))
        cut = nemesis.strike("cut", "broker-1 <-> broker-2")
        nemesis.executor.heal(cut)
        left_out = nemesis.healed(cut).observations.get("not observed", {})
        assert ("links open" in left_out) is accounted
        nemesis.ledger.close(cut.fault_id)
        nemesis.executor.heal(command)
        nemesis.ledger.close(command.fault_id)


@pytest.mark.parametrize(
    ("effects", "destroys"),
    [([], None), (["stops"], None), (["loses-unsynced"], "unsynced"), (["loses-all"], "all")],
)
def test_command_destroys_its_declared_effects(
    nemesis: Nemesis, effects: list[str], destroys: str | None
) -> None:
    assert nemesis.aim("command", "all", **by_file(effects=effects)).destroys == destroys


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inject": "kubectl apply -f x"}, "must be a list of words"),
        ({"inject": []}, "at least 1"),
        ({"heal": ["rm", 1]}, "valid string"),
        ({"verify": [""]}, "at least 1 character"),
        ({"effects": ["everything"]}, "stops"),
        ({"name": "A B"}, "pattern"),
        ({"within_ms": 0}, "greater than or equal to 1"),
        ({"healed": "x"}, "must be a list of words"),
    ],
)
def test_wrong_parameters_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FAULTS["command"].parameters.model_validate(by_file(**change))


@pytest.mark.parametrize("missing", ["inject", "verify", "heal"])
def test_command_that_is_required_is_missed(missing: str) -> None:
    given = by_file()
    del given[missing]
    with pytest.raises(ValidationError, match=f"{missing}\n.*required"):
        FAULTS["command"].parameters.model_validate(given)
