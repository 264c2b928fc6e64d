"""Runs one case on hosts: ``ssh_case.py <inventory> <scratch> <case>``."""

import sys
import warnings
from contextlib import closing
from pathlib import Path

from ackproof.infra.backends.ssh.backend import SshBackend
from ackproof.infra.backends.ssh.inventory import load
from tests.support.backends.all_cases import case_named

warnings.simplefilter("error")
scratch = Path(sys.argv[2])
with closing(SshBackend(load(Path(sys.argv[1])))) as backend:
    case_named(sys.argv[3])(backend, scratch)
