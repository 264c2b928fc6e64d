"""Histories of known truth that are damaged at random: no false pass, no false fail, no crash.

``make test`` tries some fifty of them, ``make tamper`` two thousand and more; both begin at the
same seeds, so that what fails in one fails in the other.
"""

import os
from pathlib import Path
from random import Random

import pytest

from tests.support.builders.checked_runs import checked
from tests.support.builders.tampering import (
    EXPECTED,
    KINDS,
    Kind,
    contradictions,
    tamper,
    write_world,
)

HISTORIES = int(os.environ.get("ACKPROOF_TAMPER", "48"))
BLOCKS = 4


@pytest.mark.parametrize("seed", range(3))
def test_undamaged_world_is_judged_as_it_is(tmp_path: Path, seed: int) -> None:
    result = checked(write_world(tmp_path / "world", Random(seed)))
    assert {found.cell: found.verdict for found in result.cells} == EXPECTED
    assert result.findings == ()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_single_damage_leaves_the_truth_or_inconclusive(tmp_path: Path, kind: Kind) -> None:
    for seed in range(2):
        random = Random(seed)
        directory = write_world(tmp_path / f"{seed}", random)
        what = kind.does(directory, random)
        assert not contradictions(checked(directory)), what


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_damage_leaves_the_truth_or_too_little(tmp_path: Path, block: int) -> None:
    for seed in range(block, HISTORIES, BLOCKS):
        random = Random(seed)
        directory = write_world(tmp_path / f"{seed}", random)
        what = tamper(directory, random)
        assert not contradictions(checked(directory)), (seed, what)
