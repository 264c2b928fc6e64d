"""A simulated disk with a log directory on it."""

from pathlib import Path
from random import Random

from simulation.machines.disk import SimulatedDisk

LOGS = Path("/logs")


def log_disk() -> SimulatedDisk:
    """An empty one, with power."""
    made = SimulatedDisk(Random(1))
    made.make_directory(LOGS)
    return made
