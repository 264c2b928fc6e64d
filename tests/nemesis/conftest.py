import pytest
from memory_cluster import Memory, memory_cluster


@pytest.fixture
def memory() -> Memory:
    return memory_cluster()
