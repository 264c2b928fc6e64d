"""A simulated disk with a log directory on it."""

from pathlib import Path
from random import Random

from simulation.machines.disk import MemoryDisk

LOGS = Path("/logs")


def log_disk() -> MemoryDisk:
    """An empty one, with power."""
    made = MemoryDisk(Random(1))
    made.make_directory(LOGS)
    return made
