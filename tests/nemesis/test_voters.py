"""Controllers that leave the metadata quorum: order, proofs, and the way back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from ackproof.infra.api.capabilities import OrderRefused
from ackproof.infra.api.interface import ProcessState
from ackproof.nemesis.effects import EffectNotBegun
from ackproof.nemesis.execution import HealFailed
from ackproof.nemesis.interface import Unplannable
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Memory, memory_cluster


@dataclass
class MemoryVoters:
    """The voters of a quorum in memory: a directory id for each controller."""

    memory: Memory
    directories: dict[int, str] = field(default_factory=lambda: {1: "a1", 2: "a2", 3: "a3"})
    voting: dict[int, str] = field(default_factory=lambda: {1: "a1", 2: "a2", 3: "a3"})
    refusal: OrderRefused | None = None
    deaf: bool = False

    def now(self) -> Mapping[int, str]:
        return dict(self.voting)

    def directory(self, controller: int) -> str:
        return self.directories[controller]

    def remove(self, controller: int, within_s: float) -> None:
        assert within_s > 0
        if not self.deaf:
            self.voting.pop(controller)

    def add(self, controller: int, within_s: float) -> None:
        assert within_s > 0
        assert self._state(controller) is ProcessState.RUNNING
        if self.refusal is not None:
            raise self.refusal
        self.voting[controller] = self.directories[controller]

    def empty(self, controller: int) -> None:
        assert self._state(controller) is ProcessState.EXITED
        assert controller not in self.voting
        self.directories[controller] = f"b{controller}"

    def _state(self, controller: int) -> ProcessState:
        return self.memory.system.zookeepers[controller - 1].process.state()


@pytest.fixture
def memory() -> Memory:
    made = memory_cluster(zookeepers=3)
    made.system.voters = MemoryVoters(made)
    return made


@pytest.fixture
def voters(memory: Memory) -> MemoryVoters:
    assert isinstance(memory.system.voters, MemoryVoters)
    return memory.system.voters


def test_removed_voter_votes_again_at_the_end(nemesis: Nemesis, voters: MemoryVoters) -> None:
    entry = nemesis.through("remove-voter", "zookeeper-2")
    assert voters.voting == {1: "a1", 2: "a2", 3: "a3"}
    assert len(entry.plan.effects) == 1


def test_replaced_controller_votes_with_its_new_directory(
    nemesis: Nemesis, voters: MemoryVoters
) -> None:
    nemesis.through("remove-voter", "zookeeper-2", replace=True)
    assert voters.voting == {1: "a1", 2: "b2", 3: "a3"}


def test_voter_that_still_votes_is_not_proven_removed(
    nemesis: Nemesis, voters: MemoryVoters
) -> None:
    voters.deaf = True
    entry = nemesis.strike("remove-voter", "zookeeper-2")
    assert not nemesis.bitten(entry).proven


def test_vote_with_the_former_directory_is_not_proven_healed(
    nemesis: Nemesis, voters: MemoryVoters
) -> None:
    entry = nemesis.strike("remove-voter", "zookeeper-2", replace=True)
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven
    voters.voting[2] = "a2"
    assert not nemesis.healed(entry).proven


def test_controller_that_is_not_added_fails_the_heal(
    nemesis: Nemesis, voters: MemoryVoters
) -> None:
    entry = nemesis.strike("remove-voter", "zookeeper-2")
    voters.refusal = OrderRefused("not caught up")
    with pytest.raises(HealFailed, match="not caught up"):
        nemesis.executor.heal(entry)
    voters.refusal = None
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven


def test_removal_of_all_voters_or_of_brokers_is_refused(nemesis: Nemesis) -> None:
    with pytest.raises(Unplannable, match="would leave no voter"):
        nemesis.aim("remove-voter", "zookeeper")
    with pytest.raises(Unplannable, match="is for controllers, not for broker-1"):
        nemesis.aim("remove-voter", "broker-1 + zookeeper-1")


def test_fixed_quorum_keeps_its_voters(nemesis: Nemesis) -> None:
    nemesis.memory.system.voters = None
    with pytest.raises(EffectNotBegun, match="the metadata quorum of memory is fixed"):
        nemesis.strike("remove-voter", "zookeeper-2")
