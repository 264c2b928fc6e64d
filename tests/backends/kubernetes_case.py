"""Runs one case in pods: ``kubernetes_case.py <scratch> <case>``."""

import sys
import warnings
from contextlib import closing
from pathlib import Path

from ackproof.infra.backends.kubernetes.backend import KubernetesBackend
from tests.support.backends.all_cases import case_named

warnings.simplefilter("error")
with closing(KubernetesBackend(disks=True)) as backend:
    case_named(sys.argv[2])(backend, Path(sys.argv[1]))
