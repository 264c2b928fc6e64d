"""What is found in a broken broker is looked for in the sound one, too: once in a seed."""

import shutil
from pathlib import Path

import pytest

from ackproof.harness.children import Children
from ackproof.harness.selftest.attempt import Finding, Outcome
from ackproof.harness.selftest.simulator import Simulator
from ackproof.harness.selftest.sources import copy_sound

pytestmark = pytest.mark.simulation


def test_the_sound_broker_is_asked_once_about_a_seed(tmp_path: Path) -> None:
    sound = tmp_path / "sound"
    copy_sound(sound)
    simulator = Simulator(Children(), sound, seconds=60, jobs=1)
    found = Finding(outcome=Outcome.FOUND, by="AckedIsCommitted", where="seed 1")
    other = Finding(outcome=Outcome.FOUND, by="AckedIsCommitted", where="seed 3")
    assert simulator.confirmed(found, tmp_path / "first") == found
    shutil.rmtree(sound)
    assert simulator.confirmed(found, tmp_path / "again") == found
    assert simulator.confirmed(other, tmp_path / "other").outcome is Outcome.INCONCLUSIVE
