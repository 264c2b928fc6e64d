"""Effects are counted, half an injection is healed, and nothing is broken once healing began."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import pytest

from ackproof.infra.api.interface import InfraError, Node, ProcessState
from ackproof.infra.machine.waiting import wait_until
from ackproof.nemesis.execution import HealFailed, HealingBegun, OpenFault
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Memory
from ackproof.testing.memory.servers import MemoryBackend, MemoryProcess
from tests.support.processes.deadlines import PATIENCE_S


def counted(memory: Memory, verb: str) -> dict[tuple[str, str], int]:
    calls = [(source, target) for name, source, target in memory.backend.calls if name == verb]
    return {link: calls.count(link) for link in calls}


class TestCounting:
    def test_healing_one_does_not_take_the_others_cut(self, nemesis: Nemesis) -> None:
        one = nemesis.strike("isolate", "broker-1")
        other = nemesis.strike("cut", "broker-1 <-> zookeeper")
        nemesis.executor.heal(one)
        assert nemesis.memory.backend.links_cut == {
            ("broker-1", "zookeeper-1"),
            ("zookeeper-1", "broker-1"),
        }
        assert nemesis.healed(one).proven
        nemesis.executor.heal(other)
        assert not nemesis.memory.backend.links_cut

    @pytest.mark.parametrize("order", list(permutations(range(3))))
    def test_cut_at_the_first_healed_at_the_last(
        self, nemesis: Nemesis, order: tuple[int, ...]
    ) -> None:
        open_faults = [nemesis.strike("cut", "broker-1 -> broker-2") for _ in range(3)]
        for number in order:
            assert nemesis.memory.backend.links_cut
            nemesis.executor.heal(open_faults[number])
            nemesis.executor.heal(open_faults[number])
        link = ("broker-1", "broker-2")
        assert counted(nemesis.memory, "cut") == {link: 1}
        assert counted(nemesis.memory, "heal") == {link: 1}

    def test_struck_again_after_all_let_go(self, nemesis: Nemesis) -> None:
        for _ in range(2):
            entry = nemesis.strike("cut", "broker-1 -> broker-2")
            assert nemesis.bitten(entry).proven
            nemesis.executor.heal(entry)
            nemesis.ledger.close(entry.fault_id)
        assert not nemesis.memory.backend.links_cut


class TestTwoFaultsOnOneProcess:
    """A process runs again when the last fault that holds it lets go."""

    @pytest.mark.parametrize("names", [("kill", "pause"), ("pause", "kill")])
    @pytest.mark.parametrize("first_healed", [0, 1])
    def test_killed_and_paused(
        self, nemesis: Nemesis, names: tuple[str, str], first_healed: int
    ) -> None:
        broker = nemesis.memory.system.brokers[0]
        entries = [nemesis.strike(name, "broker-1") for name in names]
        assert broker.process.state() is ProcessState.EXITED
        nemesis.executor.heal(entries.pop(first_healed))
        assert broker.process.state() is ProcessState.EXITED
        assert broker.starts == 0
        nemesis.executor.heal(entries.pop())
        assert broker.process.state() is ProcessState.RUNNING
        assert broker.starts == 1

    def test_paused_twice(self, nemesis: Nemesis) -> None:
        broker = nemesis.memory.system.brokers[0]
        entries = [nemesis.strike("pause", "broker-1") for _ in range(2)]
        nemesis.executor.heal(entries[0])
        assert broker.process.state() is ProcessState.STOPPED
        nemesis.executor.heal(entries[1])
        assert broker.process.state() is ProcessState.RUNNING

    def test_the_kill_accounts_for_the_end(self, nemesis: Nemesis) -> None:
        nemesis.strike("pause", "broker-1")
        assert nemesis.ledger.holding("broker-1") is None
        killed = nemesis.strike("kill", "broker-1")
        assert nemesis.ledger.holding("broker-1") == killed.fault_id
        assert nemesis.ledger.holding("broker-2") is None
        nemesis.executor.heal(killed)
        nemesis.ledger.close(killed.fault_id)
        assert nemesis.ledger.holding("broker-1") is None


class TestKeptFromZooKeeperAfterItsStart:
    """A broker that does not reach ZooKeeper in time after its start ends with status 1."""

    def over(self, nemesis: Nemesis, entry: OpenFault) -> None:
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven
        nemesis.executor.pass_on(entry)
        nemesis.ledger.close(entry.fault_id)

    @pytest.mark.parametrize("order", list(permutations(["kill", "cut"])))
    @pytest.mark.parametrize("cut", ["broker-1 <-> zookeeper", "broker-1 -> zookeeper"])
    def test_fault_that_kept_a_server_down_starts_it_again(
        self, nemesis: Nemesis, order: tuple[str, ...], cut: str
    ) -> None:
        broker = nemesis.memory.system.brokers[0]
        targets = {"kill": "broker-1", "cut": cut}
        entries = {name: nemesis.strike(name, targets[name]) for name in order}
        self.over(nemesis, entries["kill"])
        assert broker.starts == 1
        assert nemesis.ledger.holding("broker-1") == entries["cut"].fault_id
        broker.process.current, broker.process.code = ProcessState.EXITED, 1
        self.over(nemesis, entries["cut"])
        assert broker.process.state() is ProcessState.RUNNING
        assert broker.starts == 2
        assert nemesis.ledger.holding("broker-1") is None

    def test_server_may_end_while_the_fault_that_kept_it_is_healed(self, nemesis: Nemesis) -> None:
        """ZooKeeper runs again, and gives no answers yet."""
        broker, other = nemesis.memory.system.brokers[:2]
        kept = nemesis.strike("pause", "zookeeper-1")
        self.over(nemesis, nemesis.strike("kill", "broker-1"))
        nemesis.executor.heal(kept)
        nemesis.executor.start_again(kept)
        assert broker.starts == 1
        for one in (broker, other):
            one.process.current, one.process.code = ProcessState.EXITED, 1
        nemesis.executor.start_again(kept)
        assert broker.starts == 2
        assert other.starts == 0, "it has ended by itself"

    def test_killed_again_it_is_started_by_the_last_to_let_go(self, nemesis: Nemesis) -> None:
        broker = nemesis.memory.system.brokers[0]
        kept = nemesis.strike("pause", "zookeeper-1")
        self.over(nemesis, nemesis.strike("kill", "broker-1"))
        again = nemesis.strike("kill", "broker-1")
        self.over(nemesis, kept)
        assert broker.starts == 1
        self.over(nemesis, again)
        assert broker.starts == 2

    @pytest.mark.parametrize(
        ("other", "target", "own"),
        [
            ("cut", "broker-1 <-> broker-2", "kill"),
            ("cut", "broker-3 <-> zookeeper", "kill"),
            ("cut", "broker-1 <-> zookeeper", "pause"),
        ],
    )
    def test_server_is_not_held_without_a_reason(
        self, nemesis: Nemesis, other: str, target: str, own: str
    ) -> None:
        nemesis.strike(other, target)
        self.over(nemesis, nemesis.strike(own, "broker-1"))
        assert nemesis.ledger.holding("broker-1") is None

    def test_fault_in_healing_holds_no_server(self, nemesis: Nemesis) -> None:
        kept, killed = nemesis.strike("isolate", "broker-1"), nemesis.strike("kill", "broker-1")
        nemesis.executor.heal(kept)
        self.over(nemesis, killed)
        assert nemesis.ledger.holding("broker-1") is None


@dataclass
class Breaking(MemoryBackend):
    """Raises at one of its verbs, the so manieth time; before doing it, or after."""

    verb: str = ""
    left: int = -1
    after: bool = False

    def cut(self, source: Node, target: Node) -> None:
        self._perhaps("cut", lambda: MemoryBackend.cut(self, source, target))

    def heal(self, source: Node, target: Node) -> None:
        self._perhaps("heal", lambda: MemoryBackend.heal(self, source, target))

    def _perhaps(self, verb: str, act: Callable[[], None]) -> None:
        breaks = verb == self.verb and self.left == 0
        self.left -= verb == self.verb
        if not breaks or self.after:
            act()
        if breaks:
            raise InfraError(f"{verb} failed")


def breaking(memory: Memory, verb: str, left: int, *, after: bool) -> None:
    memory.backend.__class__ = Breaking
    memory.backend.__dict__.update(verb=verb, left=left, after=after)


class TestHalfWay:
    @pytest.mark.parametrize("after", [False, True])
    @pytest.mark.parametrize("number", range(6))
    def test_each_effect_raises_in_turn(self, nemesis: Nemesis, number: int, after: bool) -> None:
        breaking(nemesis.memory, "cut", number, after=after)
        entry = nemesis.aim("isolate", "broker-1")
        with pytest.raises(InfraError, match="cut failed"):
            nemesis.executor.inject(entry)
        assert len(nemesis.memory.backend.links_cut) == number + after
        assert nemesis.ledger.still_open() == (entry,)
        nemesis.executor.heal(entry)
        assert not nemesis.memory.backend.links_cut
        assert nemesis.healed(entry).proven

    @pytest.mark.parametrize("after", [False, True])
    @pytest.mark.parametrize("number", range(6))
    def test_a_heal_that_fails_heals_the_rest_and_can_be_repeated(
        self, nemesis: Nemesis, number: int, after: bool
    ) -> None:
        breaking(nemesis.memory, "heal", number, after=after)
        entry = nemesis.strike("isolate", "broker-1")
        with pytest.raises(HealFailed, match="heal failed"):
            nemesis.executor.heal(entry)
        assert len(nemesis.memory.backend.links_cut) == (0 if after else 1)
        nemesis.executor.heal(entry)
        assert not nemesis.memory.backend.links_cut

    def test_effect_is_journaled_before_it_is_carried_out(
        self, nemesis: Nemesis, tmp_path: Path
    ) -> None:
        breaking(nemesis.memory, "cut", 1, after=False)
        entry = nemesis.aim("isolate", "broker-1")
        with pytest.raises(InfraError):
            nemesis.executor.inject(entry)
        lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
        assert lines[0]["effects"] == [str(effect) for effect in entry.plan.effects]
        assert [line["effect"] for line in lines[1:]] == lines[0]["effects"][:2]


@dataclass
class Hanging:
    """A gate that hangs from the given call on, until it is released."""

    at: int
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    calls: int = 0

    def pass_by(self) -> None:
        self.calls += 1
        if self.calls - 1 == self.at:
            self.reached.set()
            assert self.released.wait(PATIENCE_S)


@dataclass
class HangingBackend(MemoryBackend):
    hanging: Hanging = field(default_factory=lambda: Hanging(0))
    too_late: bool = False
    """It hangs before it cuts; else after."""

    def cut(self, source: Node, target: Node) -> None:
        if self.too_late:
            self.hanging.pass_by()
        MemoryBackend.cut(self, source, target)
        if not self.too_late:
            self.hanging.pass_by()


class TestTheGate:
    """An injection that is left behind applies nothing after healing began."""

    @pytest.mark.parametrize("too_late", [False, True])
    @pytest.mark.parametrize("at", [0, 3, 5])
    def test_an_injection_that_hangs_is_released_after_the_heal(
        self, memory: Memory, tmp_path: Path, at: int, too_late: bool
    ) -> None:
        nemesis = Nemesis(memory, tmp_path / "ledger.jsonl", patience_s=0.01)
        hanging = Hanging(at)
        memory.backend.__class__ = HangingBackend
        memory.backend.__dict__.update(hanging=hanging, too_late=too_late)
        entry = nemesis.aim("isolate", "broker-1")
        ends: list[BaseException] = []

        def inject() -> None:
            try:
                nemesis.executor.inject(entry)
            except HealingBegun as closed:
                ends.append(closed)

        injecting = threading.Thread(target=inject)
        injecting.start()
        assert hanging.reached.wait(PATIENCE_S)
        with pytest.raises(HealFailed, match="still in progress"):
            nemesis.executor.heal(entry)
        assert len(memory.backend.links_cut) == (0 if too_late else 1)
        hanging.released.set()
        injecting.join(PATIENCE_S)
        assert not memory.backend.links_cut
        # Of what came after the one that hung, nothing was tried. After the last there was nothing.
        assert hanging.calls == at + 1
        assert len(ends) == (0 if at == 5 else 1)
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_a_heal_waits_for_an_effect_that_is_under_way(
        self, memory: Memory, tmp_path: Path
    ) -> None:
        nemesis = Nemesis(memory, tmp_path / "ledger.jsonl")
        hanging = Hanging(2)
        memory.backend.__class__ = HangingBackend
        memory.backend.__dict__.update(hanging=hanging, too_late=True)
        entry = nemesis.aim("isolate", "broker-1")

        def inject() -> None:
            with pytest.raises(HealingBegun):
                nemesis.executor.inject(entry)

        injecting = threading.Thread(target=inject)
        healing = threading.Thread(target=nemesis.executor.heal, args=(entry,))
        injecting.start()
        assert hanging.reached.wait(PATIENCE_S)
        healing.start()
        # All that is free is healed, in the opposite order, before or after the one that hangs.
        hanging.released.set()
        for thread in (injecting, healing):
            thread.join(PATIENCE_S)
        wait_until(lambda: not memory.backend.links_cut, PATIENCE_S, "everything to be healed")

    def test_a_closed_gate_lets_nothing_in_and_opens_no_entry(self, nemesis: Nemesis) -> None:
        nemesis.executor.close()
        with pytest.raises(HealingBegun):
            nemesis.strike("kill", "broker-1")
        assert nemesis.ledger.still_open() == ()
        assert nemesis.memory.system.brokers[0].process.state() is ProcessState.RUNNING


@dataclass
class SlowlyDying(MemoryProcess):
    """Has not died yet when the signal has been sent."""

    def signal(self, signal_number: int) -> None:
        self.doomed = signal_number == 9

    def wait(self, timeout: float | None = None) -> int:
        if self.doomed:
            MemoryProcess.signal(self, 9)
        return MemoryProcess.wait(self, timeout)


def test_a_kill_that_is_healed_at_once_starts_the_server(nemesis: Nemesis) -> None:
    broker = nemesis.memory.system.brokers[0]
    broker.process = SlowlyDying(broker.name)
    nemesis.executor.heal(nemesis.strike("kill", "broker-1", hold_ms=0))
    assert broker.starts == 1
