"""The room that a campaign needs for its results, asked before anything is started.

A directory that runs full in the middle of a run costs its evidence, and often the cluster: with
the backend local the brokers keep their logs there, too.
"""

import shutil
from pathlib import Path

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.problems.sizes import bytes_of_a_run
from ackproof.infra.api.interface import InfraError

_MB = 1_000_000
LEAST_MB = 256
"""Logs, histories and reports of the smallest campaign, with room to spare: ZooKeeper alone sets
64 MB aside for each of its logs."""


def require(campaign: Campaign, directory: Path) -> None:
    """Raise InfraError where the file system of ``directory``, which need not be there yet, has
    less room than ``campaign`` needs for its results."""
    there = directory.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free // _MB
    needed = LEAST_MB + int(bytes_of_a_run(campaign)) // _MB
    if free < needed:
        raise InfraError(
            f"{directory} has {free:,} MB of free space, and {campaign.name} needs about "
            f"{needed:,} MB: make room, or give another directory with --out"
        )
