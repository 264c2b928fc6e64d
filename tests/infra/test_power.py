"""Power loss during syncs."""

import os
import subprocess
import sys

import pytest

from ackproof.infra.api.interface import Capability
from ackproof.infra.backends.local.enter import undoable

pytestmark = pytest.mark.integration
LOSES = Capability.LOSE_UNSYNCED_WRITES
SYNCED = f"""
import os, subprocess, sys, tempfile
from ackproof.infra.agent import disks, privilege
from ackproof.infra.node import capability_probes
carry_out = privilege.as_root
def synced(argv, text=""):
    '''Before every program that takes part, the disk is synced.'''
    for disk in disks.below(tempfile.gettempdir()):
        subprocess.run(["sync", "--file-system", disk], stderr=subprocess.DEVNULL)
    return carry_out(argv, text)
privilege.as_root = synced
sys.exit(capability_probes.main({str(LOSES)!r}))
"""


def test_sync_during_the_failure_does_not_hide_the_power_loss() -> None:
    if obstacle := undoable(LOSES):
        pytest.skip(obstacle)
    private = ["unshare", "--mount", "--", sys.executable, "-c", SYNCED]
    done = subprocess.run(private, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
