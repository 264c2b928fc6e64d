from pathlib import Path

import pytest

from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Memory, memory_cluster


@pytest.fixture
def memory() -> Memory:
    return memory_cluster()


@pytest.fixture
def nemesis(memory: Memory, tmp_path: Path) -> Nemesis:
    return Nemesis(memory, tmp_path / "ledger.jsonl")
