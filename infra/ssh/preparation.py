"""Making a host fit to carry a node: what is missing is installed, the software brought there.

Everything of ours lies below one directory of the user's (``directory`` of the inventory): the
agent, ``software/`` (kept from run to run, each thing named after its content), ``run/`` (while a
run has the host). From packages of the distribution: ``python3-venv``, a Java, ``nftables``.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from paramiko import SFTPClient

from infra.interface import InfraError, Software
from infra.java import JAVA_VERSION_MIN, parse_version
from infra.software import zookeeper_jars
from infra.ssh import bundle, libraries
from infra.ssh.connection import Connection

_PYTHON_MIN = (3, 11)
_DEBIAN = frozenset({"debian", "ubuntu"})
_APT_WITHIN_S = 900.0
_INSTALL_WITHIN_S = 600.0
_APT = (
    "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get",
    "-q", "-o", "DPkg::Lock::Timeout=300",
)  # fmt: skip

_NO_PROGRAM = 127
_LOOK = """\
import json, os, sys
base = os.path.expanduser(sys.argv[1])
agent = os.path.exists(os.path.join(base, sys.argv[2]))
print(json.dumps({"python": sys.version_info[:2], "base": base, "agent": agent}))
"""
"""All that must be known before the agent is there, asked in one round trip."""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A host that can carry a node.

    Attributes:
        base: All of ours lies below it.
        sources: For PYTHONPATH.
        uncuttable: Why its links cannot be cut; None when they can.
    """

    base: PurePosixPath
    software: Software
    sources: PurePosixPath
    uncuttable: str | None


def bring_agent(connection: Connection, directory: str) -> PurePosixPath:
    """Bring the agent to the host and start it from now on; the directory for all of ours.
    ``directory``: as in the inventory. Raises InfraError without a fitting Python."""
    package = bundle.agent()
    look = ["python3", "-I", "-S", "-c", _LOOK, directory, package.name]
    looked = connection.run(look)
    if looked.status == _NO_PROGRAM:
        _apt(connection, ["python3"])
        looked = connection.run(look)
    if looked.status != 0:
        raise InfraError(f"{connection.host}: its Python does not run: {looked.output.strip()}")
    seen = json.loads(looked.output.splitlines()[-1])  # before it, whatever a login says there
    _check_python(connection, seen["python"])
    base = PurePosixPath(seen["base"])
    path = base / package.name
    if not seen["agent"]:
        made = connection.run(["mkdir", "-p", "-m", "0700", str(base)])
        if made.status != 0:
            raise InfraError(f"{connection.host}: {made.output.strip()}")
        put(connection, package.content, path)
    connection.use_agent(["python3", "-I", str(path), "serve"])
    return base


def _check_python(connection: Connection, version: Sequence[int]) -> None:
    if tuple(version) < _PYTHON_MIN:
        raise InfraError(
            f"{connection.host}: its Python is {'.'.join(map(str, version))}, and 3.11 or newer is "
            "needed: Debian 12, Ubuntu 24.04 or newer"
        )


def prepare(connection: Connection, directory: str, report: Report) -> Prepared:
    """Install what is missing and bring the software; quick where nothing is.

    Args:
        directory: As in the inventory.
        report: Told, a line at a time, what takes a while.

    Raises InfraError naming host, what is missing and why it cannot be had.
    """
    base = bring_agent(connection, directory)
    facts = _facts_after_installing(connection, report)
    platform = libraries.Platform(tuple(facts["python"]), facts["machine"], facts["libc"])
    kept = base / "software"
    installed = kept / libraries.name_for(platform)
    sources = kept / bundle.sources().name
    jars = kept / bundle.jars().name
    for package in (bundle.sources(), bundle.jars()):
        _bring(connection, package, kept / package.name)
    _bring_libraries(connection, platform, installed, report)
    return Prepared(
        base=base,
        sources=sources,
        software=Software(
            python=str(installed / "bin" / "python"),
            java=facts["java"]["path"],
            zookeeper_class_path=":".join(str(jars / path.name) for path in zookeeper_jars()),
        ),
        uncuttable=facts["not_root"] or connection.ask("can_cut"),
    )


def put(connection: Connection, content: bytes, path: PurePosixPath) -> None:
    """Write a file that appears as a whole. Its directory exists."""
    aside = f"{path}.part"

    def write(sftp: SFTPClient) -> None:
        with sftp.open(aside, "wb") as file:
            file.set_pipelined(True)
            file.write(content)
        sftp.posix_rename(aside, str(path))

    connection.files(write)


def _facts_after_installing(connection: Connection, report: Report) -> dict[str, Any]:
    facts: dict[str, Any] = connection.ask("facts")
    missing = _missing(facts)
    if missing:
        _check_may_install(connection, facts, missing)
        report(f"{connection.host}: installing {', '.join(missing)}")
        _apt(connection, missing)
        facts = connection.ask("facts")
    still = [package for package in _missing(facts) if package != "nftables"]
    if still:
        raise InfraError(f"{connection.host}: {', '.join(still)} installed, but of no use")
    return facts


def _missing(facts: dict[str, Any]) -> list[str]:
    """Packages. Without root, links are not cut: nftables is of no use then."""
    java = facts["java"]
    found = {
        "python3-venv": facts["venv"],
        "default-jre-headless": java and parse_version(java["version"]) >= JAVA_VERSION_MIN,
        "nftables": facts["nft"] or facts["not_root"],
    }
    return [package for package, there in found.items() if not there]


def _check_may_install(
    connection: Connection, facts: dict[str, Any], missing: Sequence[str]
) -> None:
    wanted = f"{connection.host}: {', '.join(missing)} must be installed"
    if not _DEBIAN & set(facts["distribution"]):
        raise InfraError(f"{wanted} by hand: this is {facts['distribution'][0]}, not Debian")
    if facts["not_root"]:
        raise InfraError(f"{wanted}, and we are not let: {facts['not_root']}")


def _apt(connection: Connection, packages: Sequence[str]) -> None:
    root = connection.run(["id", "-u"]).output.strip() == "0"
    sudo = () if root else ("sudo", "-n", "--")
    apt = [*sudo, *_APT]
    install = [*apt, "install", "-y", "--no-install-recommends", *packages]
    done = connection.run(install, timeout=_APT_WITHIN_S)
    if done.status != 0:  # as a rule because the lists are old, or there are none
        connection.run([*apt, "update"], timeout=_APT_WITHIN_S)
        done = connection.run(install, timeout=_APT_WITHIN_S)
    if done.status != 0:
        errors = [line for line in done.output.splitlines() if line.startswith("E:")]
        raise InfraError(
            f"{connection.host}: {', '.join(packages)} cannot be installed: "
            f"{' '.join(errors) or done.output.strip()}"
        )


def _bring(connection: Connection, package: bundle.Package, directory: PurePosixPath) -> None:
    if not connection.ask("has", directory=str(directory)):
        archive = directory.with_name(f"{package.name}.zip")
        connection.ask("mkdir", path=str(archive.parent))
        put(connection, package.content, archive)
        connection.ask("unpack", archive=str(archive), directory=str(directory))


def _bring_libraries(
    connection: Connection, platform: libraries.Platform, directory: PurePosixPath, report: Report
) -> None:
    if connection.ask("has", directory=str(directory)):
        return
    wheels = libraries.wheels(platform)
    size_mb = sum(wheel.stat().st_size for wheel in wheels) / 1e6
    report(f"{connection.host}: bringing {len(wheels)} libraries ({size_mb:.0f} MB)")
    aside = directory.with_name(f"{directory.name}.wheels")
    connection.ask("mkdir", path=str(aside))
    for wheel in wheels:
        put(connection, wheel.read_bytes(), aside / wheel.name)
    connection.ask(
        "install_libraries",
        timeout=_INSTALL_WITHIN_S,
        wheels=str(aside),
        directory=str(directory),
    )
