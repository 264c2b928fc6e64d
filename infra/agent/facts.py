"""Facts about a node. Imports are made on request, since most nodes are never asked."""

import os
import sys
from typing import Any

from ackproof.infra.agent import privilege
from ackproof.infra.agent.children import carry_out


def facts() -> dict[str, Any]:
    """Return what is installed on the node, its platform, and what the agent may do there."""
    from importlib.util import find_spec
    from shutil import which

    return {
        "python": [*sys.version_info[:2]],
        "machine": os.uname().machine,
        "libc": (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(" ")[2],
        "distribution": _distribution(),
        "venv": find_spec("ensurepip") is not None,
        "java": _java(),
        "nft": which("nft", path=privilege.search_path()) is not None,
        "not_root": privilege.obstacle(),
    }


def _distribution() -> list[str]:
    from platform import freedesktop_os_release

    try:
        said = freedesktop_os_release()
    except OSError:
        return ["unknown"]
    return [said["ID"], *said.get("ID_LIKE", "").split()]


def _java() -> dict[str, str] | None:
    from shutil import which

    program = which("java")
    if program is None:
        return None
    version = release(program) or "\n".join(carry_out([program, "-version"])[1:])
    return {"path": program, "version": version}


def release(java: str) -> str | None:
    """Return the file ``release`` of the distribution that the program ``java`` belongs to.

    It names the version without a start of Java. Return None if there is none, or the program
    cannot be executed.
    """
    path = f"{os.path.dirname(os.path.realpath(java))}/../release"
    if not (os.path.isfile(path) and os.access(java, os.X_OK)):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()
