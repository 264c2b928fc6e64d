"""Doing what only root may do, where we are allowed to."""

import getpass
import os
import subprocess
from collections.abc import Sequence

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Of users too: a login over SSH as a rule lacks the sbin directories."""


class Refused(Exception):
    """The host does not let us."""


def search_path() -> str:
    """PATH of this process, and what it may lack."""
    return f"{os.environ.get('PATH', '')}:{_PATH}"


def obstacle() -> str | None:
    """None when we are root, or sudo makes us root without asking; else what sudo says."""
    if os.geteuid() == 0:
        return None
    done = _run(["true"], "")
    return None if done.returncode == 0 else _complaint(done)


def as_root(argv: Sequence[str], text: str = "") -> str:
    """Run a program as root with ``text`` on its standard input; what it wrote. Raises Refused
    with the complaint when it fails or we may not."""
    done = _run(argv, text)
    if done.returncode != 0:
        raise Refused(f"{argv[0]}: {_complaint(done)}")
    return done.stdout


def _run(argv: Sequence[str], text: str) -> "subprocess.CompletedProcess[str]":
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n", "--"]
    try:
        return subprocess.run(
            [*prefix, *argv],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PATH": search_path(), "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise Refused(f"{error.filename} is not installed") from None
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{argv[0]} did not end within {error.timeout:g} s") from None


def _complaint(done: "subprocess.CompletedProcess[str]") -> str:
    said = done.stderr.strip() or f"status {done.returncode}"
    if "sudo:" in said:
        return f"{said} (user {getpass.getuser()} needs sudo without a password here)"
    return said
