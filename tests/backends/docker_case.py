"""Runs one case on containers: ``docker_case.py <scratch> <case>``."""

import sys
import warnings
from contextlib import closing
from pathlib import Path

from ackproof.infra.backends.docker.backend import DockerBackend
from tests.support.backends.all_cases import case_named

warnings.simplefilter("error")
scratch = Path(sys.argv[1])
with closing(DockerBackend(scratch / "results", disks=True)) as backend:
    case_named(sys.argv[2])(backend, scratch)
