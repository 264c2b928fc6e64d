"""The verbs of a host beyond those of every node, and the software that it keeps.

Each package is kept from run to run in a directory named after its content. A directory counts if
the file ``complete`` is in it; anything else is made again. Each jar counts by itself, as a program
does: it is copied by itself, and appears as a whole.
"""

import shutil
import sys
import zipfile
from pathlib import Path

from ackproof.infra.agent import links
from ackproof.infra.agent.children import carry_out
from ackproof.infra.agent.verbs import VERBS as AGENT
from ackproof.infra.agent.verbs import Verbs
from ackproof.infra.agent.wire import RefusedByNode
from ackproof.infra.backends.ssh.remote import tenancy

_COMPLETE = "complete"
_INSTALLED_WITHIN_S = 600


def has(directory: str) -> bool:
    """Return whether the directory exists and is complete."""
    return (Path(directory) / _COMPLETE).exists()


def unpack(archive: str, directory: str) -> None:
    """Make ``directory`` of a zip file, which is removed."""
    target = _fresh(directory)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(target)
    (target / _COMPLETE).touch()
    Path(archive).unlink()


def install_libraries(wheels: str, directory: str) -> None:
    """Make a virtual environment in ``directory`` with every wheel of the directory ``wheels``.

    Nothing comes from any other place.
    """
    target = _fresh(directory)
    _run([sys.executable, "-m", "venv", str(target)])
    _run(
        [
            str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index",
            "--no-deps", "--disable-pip-version-check", *map(str, Path(wheels).glob("*.whl")),
        ]
    )  # fmt: skip
    (target / _COMPLETE).touch()
    shutil.rmtree(wheels)


def _fresh(directory: str) -> Path:
    target = Path(directory)
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    return target


def _run(argv: list[str]) -> None:
    status, output, complaint = carry_out(argv, within=_INSTALLED_WITHIN_S)
    if status != 0:
        raise RefusedByNode(f"{' '.join(argv[:4])}: {(complaint or output).strip()[-2000:]}")


# --- verbs ------------------------------------------------------------------------------------


VERBS: Verbs = {
    **AGENT,
    "addresses": tenancy.addresses,
    "has": has,
    "unpack": unpack,
    "install_libraries": install_libraries,
    "acquire": tenancy.acquire,
    "renew": tenancy.renew,
    "tenant": tenancy.tenant,
    "release": tenancy.release,
    "purge": tenancy.purge,
    "impair": tenancy.impair,
    "mend": tenancy.mend,
    "remove_rules": links.remove,
}
