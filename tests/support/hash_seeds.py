"""What a program prints must not depend on how Python hashes."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def printed(*arguments: str, seeds: int = 2) -> set[str]:
    """What a Python with these arguments prints, under as many seeds of its hashes."""
    return {_printed(arguments, str(seed)) for seed in range(1, seeds + 1)}


def _printed(arguments: tuple[str, ...], hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
