"""Runs one conformance case on containers: ``docker_case.py <scratch> <case>``."""

import sys
import warnings
from contextlib import closing
from pathlib import Path

import conformance

from infra.docker.backend import DockerBackend

warnings.simplefilter("error")
scratch = Path(sys.argv[1])
with closing(DockerBackend(scratch / "results")) as backend:
    getattr(conformance, sys.argv[2])(backend, scratch)
