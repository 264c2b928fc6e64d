from pathlib import Path

import pytest
from memory_cluster import Memory, memory_cluster
from struck import Nemesis


@pytest.fixture
def memory() -> Memory:
    return memory_cluster()


@pytest.fixture
def nemesis(memory: Memory, tmp_path: Path) -> Nemesis:
    return Nemesis(memory, tmp_path / "ledger.jsonl")
