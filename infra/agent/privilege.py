"""Execution of programs as root, where that is allowed."""

import os
import pwd
from collections.abc import Sequence

from ackproof.infra.agent.children import carry_out
from ackproof.infra.agent.wire import RefusedByNode

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The directories of programs, for users too: a login over SSH as a rule lacks the sbin
directories."""
_NOT_FOUND = 127


def search_path() -> str:
    """Return the PATH of this process with the directories that it may lack."""
    return f"{os.environ.get('PATH', '')}:{_PATH}"


def obstacle() -> str | None:
    """Return sudo's complaint, or None if this is root or sudo makes it root without a password."""
    try:
        as_root(["true"])
    except RefusedByNode as refused:
        return str(refused)
    return None


def as_root(argv: Sequence[str], text: str = "") -> str:
    """Run a program as root with ``text`` on its standard input, and return its output.

    Raises Refused with the complaint if it fails or is not allowed.
    """
    command = [*(() if os.geteuid() == 0 else ("sudo", "-n", "--")), *argv]
    env = {**os.environ, "PATH": search_path(), "LC_ALL": "C"}
    status, output, complaint = carry_out(command, text, env)
    if status == _NOT_FOUND or f"sudo: {argv[0]}: command not found" in complaint:
        raise RefusedByNode(f"{(argv if 'sudo:' in complaint else command)[0]} is not installed")
    if status != 0:
        raise RefusedByNode(f"{argv[0]}: {_explained(complaint.strip() or f'status {status}')}")
    return output


def _explained(complaint: str) -> str:
    if "sudo:" not in complaint:
        return complaint
    return f"{complaint} (user {_user()} needs sudo without a password)"


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
