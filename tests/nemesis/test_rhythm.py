"""A plan with a rhythm: its effects come and go while it is held, and are gone when it is healed,
whatever became of the thread that carries them out."""

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ackproof.infra.api.interface import InfraError, Node
from ackproof.infra.machine.waiting import wait_until
from ackproof.nemesis.execution import HealFailed, HealingBegun, OpenFault
from ackproof.nemesis.interface import Rhythm
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Memory
from ackproof.testing.memory.servers import MemoryBackend
from tests.support.processes.deadlines import PATIENCE_S

QUICK = Rhythm(seed=1, on_ms=(1, 3), off_ms=(1, 3))
LINK = "broker-1 -> broker-2"


def flapping(nemesis: Nemesis, target: str = LINK, rhythm: Rhythm = QUICK) -> OpenFault:
    entry = nemesis.aim("flap", target)
    return replace(entry, plan=replace(entry.plan, rhythm=rhythm))


def cuts(memory: Memory) -> int:
    return Counter(verb for verb, _, _ in memory.backend.calls)["cut"]


def rhythms() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("rhythm-")]


def test_beats_repeat_until_the_heal(nemesis: Nemesis) -> None:
    entry = flapping(nemesis)
    nemesis.executor.inject(entry)
    wait_until(lambda: cuts(nemesis.memory) >= 10, PATIENCE_S, "ten beats")
    nemesis.executor.heal(entry)
    wait_until(lambda: not rhythms(), PATIENCE_S, "the rhythm to end")
    assert not nemesis.memory.backend.links_cut
    verbs = [verb for verb, _, _ in nemesis.memory.backend.calls]
    assert verbs == ["cut", "heal"] * (len(verbs) // 2), "each beat begins and ends"


def test_every_beat_is_written_down_before(nemesis: Nemesis, tmp_path: Path) -> None:
    entry = flapping(nemesis)
    nemesis.executor.inject(entry)
    wait_until(lambda: cuts(nemesis.memory) >= 5, PATIENCE_S, "five beats")
    nemesis.executor.heal(entry)
    lines = (tmp_path / "ledger.jsonl").read_text().splitlines()
    assert sum('"doing"' in line for line in lines) >= 5
    assert nemesis.ledger.done(entry.fault_id) == entry.plan.effects


def test_beat_does_not_release_the_effect_of_another_fault(nemesis: Nemesis) -> None:
    cut = nemesis.strike("cut", LINK)
    entry = flapping(nemesis)
    nemesis.executor.inject(entry)
    executor = nemesis.executor
    held = executor._held(entry.plan.effects[0].resource)
    wait_until(lambda: held.holders == {cut.fault_id}, PATIENCE_S, "a beat's end")
    assert nemesis.memory.backend.links_cut == {("broker-1", "broker-2")}
    wait_until(lambda: len(held.holders) == 2, PATIENCE_S, "the next beat")
    executor.heal(cut)
    executor.heal(entry)
    assert not nemesis.memory.backend.links_cut


def test_beat_continues_after_another_fault_releases_its_effect(
    nemesis: Nemesis, tmp_path: Path
) -> None:
    """Cut by another fault first: of its own beats, it does what is there to be done."""
    cut = nemesis.strike("cut", LINK)
    entry = flapping(nemesis)
    nemesis.executor.inject(entry)
    beats = (tmp_path / "ledger.jsonl").read_text
    wait_until(lambda: beats().count("changed nothing") >= 5, PATIENCE_S, "beats of nothing")
    assert cuts(nemesis.memory) == 1
    nemesis.executor.heal(cut)
    done = nemesis.ledger.done
    wait_until(lambda: cuts(nemesis.memory) >= 3, PATIENCE_S, "beats of its own")
    assert done(entry.fault_id) == entry.plan.effects
    nemesis.executor.heal(entry)
    assert not nemesis.memory.backend.links_cut


@dataclass
class Stuck(MemoryBackend):
    """Its third cut hangs, before it cuts, until it is released."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    left: int = 2

    def cut(self, source: Node, target: Node) -> None:
        self.left -= 1
        if self.left == -1:
            self.reached.set()
            assert self.released.wait(PATIENCE_S)
        MemoryBackend.cut(self, source, target)


def test_a_beat_that_hangs_is_undone_when_it_comes_back(memory: Memory, tmp_path: Path) -> None:
    nemesis = Nemesis(memory, tmp_path / "ledger.jsonl", patience_s=0.01)
    memory.backend.__class__ = Stuck
    stuck = Stuck()
    memory.backend.__dict__.update(reached=stuck.reached, released=stuck.released, left=2)
    entry = flapping(nemesis)
    nemesis.executor.inject(entry)
    assert stuck.reached.wait(PATIENCE_S)
    with pytest.raises(HealFailed, match="still in progress"):
        nemesis.executor.heal(entry)
    stuck.released.set()
    wait_until(lambda: not rhythms(), PATIENCE_S, "the rhythm to end")
    assert not memory.backend.links_cut
    nemesis.executor.heal(entry)
    assert not memory.backend.links_cut


@dataclass
class Failing(MemoryBackend):
    left: int = 1

    def cut(self, source: Node, target: Node) -> None:
        self.left -= 1
        if self.left == -1:
            raise InfraError("no answer")
        MemoryBackend.cut(self, source, target)


def test_a_beat_that_fails_is_tried_again(
    nemesis: Nemesis, caplog: pytest.LogCaptureFixture
) -> None:
    nemesis.memory.backend.__class__ = Failing
    nemesis.memory.backend.__dict__.update(left=1)
    entry = flapping(nemesis)
    nemesis.executor.inject(entry)
    wait_until(lambda: cuts(nemesis.memory) >= 4, PATIENCE_S, "the beats after it")
    nemesis.executor.heal(entry)
    wait_until(lambda: not rhythms(), PATIENCE_S, "the rhythm to end")
    assert not nemesis.memory.backend.links_cut
    assert "flap#1: a beat failed" in caplog.text


def test_a_closed_gate_ends_it(nemesis: Nemesis) -> None:
    entry = flapping(nemesis)
    nemesis.executor.inject(entry)
    nemesis.executor.close()
    wait_until(lambda: not rhythms(), PATIENCE_S, "the rhythm to end")
    assert not nemesis.memory.backend.links_cut, "it ends with a beat, or with the heal"
    with pytest.raises(HealingBegun):
        nemesis.executor.inject(flapping(nemesis, "broker-2 -> broker-3"))
    nemesis.executor.heal(entry)


def test_several_links_keep_time(nemesis: Nemesis) -> None:
    entry = flapping(nemesis, "broker-1 <-> all + zookeeper")
    nemesis.executor.inject(entry)
    count = len(entry.plan.effects)
    wait_until(lambda: cuts(nemesis.memory) >= 4 * count, PATIENCE_S, "four beats of all")
    nemesis.executor.heal(entry)
    wait_until(lambda: not rhythms(), PATIENCE_S, "the rhythm to end")
    assert not nemesis.memory.backend.links_cut
