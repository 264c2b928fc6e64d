"""Where Java is: ZooKeeper needs 17 or newer, as Spark does."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ackproof.infra.agent.facts import release
from ackproof.infra.interface import InfraError

JAVA_VERSION_MIN = 17
_REMEDY = (
    f"install Java {JAVA_VERSION_MIN} or newer (Debian, Ubuntu: apt-get install "
    "default-jre-headless) or point JAVA_HOME at one"
)


def find_java(environ: Mapping[str, str] | None = None) -> Path:
    """The ``java`` program: of JAVA_HOME, else of PATH (``environ``, by default the process's).

    Raises InfraError where there is none, it does not run, or it is too old.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH"))
    if program is None:
        raise InfraError(f"no java in PATH and no JAVA_HOME: {_REMEDY}")
    version = _version(program)
    if version < JAVA_VERSION_MIN:
        raise InfraError(f"{program} is Java {version}: {_REMEDY}")
    return Path(program)


@cache
def _version(program: str) -> int:
    try:
        return parse_version(_told_version(program))
    except (OSError, subprocess.SubprocessError) as error:
        raise InfraError(f"{program} does not run ({error}): {_REMEDY}") from error


def _told_version(program: str) -> str:
    if (kept := release(program)) is not None:
        return kept
    answer = subprocess.run(
        [program, "-version"], capture_output=True, text=True, timeout=30, check=True
    )
    return answer.stderr + answer.stdout


def parse_version(told: str) -> int:
    """The feature release in what ``java -version`` or the file ``release`` tells: 17 of
    ``"17.0.15"``, 8 of ``"1.8.0_402"``. Raises InfraError where there is no version in it."""
    found = re.search(r'(?:version |^JAVA_VERSION=)"(?:1\.)?(\d+)', told, re.MULTILINE)
    if found is None:
        raise InfraError(f"no version of Java in {told.strip()!r}")
    return int(found[1])
