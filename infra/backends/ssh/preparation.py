"""Making a host fit to carry a node: what is missing is installed, the software brought there.

Everything of ours lies below one directory of the user's (``directory`` of the inventory): the
agent, ``software/`` (kept from run to run, each thing named after its content), ``run/`` (while a
run has the host). From packages of the distribution: ``python3-venv``, a Java, ``nftables``."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ackproof.infra.api.artifacts import Artifact, machine_of
from ackproof.infra.api.interface import InfraError, Software
from ackproof.infra.api.limits import Scarce
from ackproof.infra.backends.ssh import bundle, libraries
from ackproof.infra.backends.ssh.connection import Channels, Connection
from ackproof.infra.machine.software import JAVA_VERSION_MIN, parse_version, zookeeper_jars
from ackproof.infra.node.agent_client import AgentClient
from ackproof.infra.node.nodes import OF_LINKS, Obstacles

_INSTALL_WITHIN_S = 600.0
_SUMMED_WITHIN_S = 60.0

Report = Callable[[str], None]
"""Told, a line at a time, what takes a while."""


def bring(agent: AgentClient, package: bundle.Package, directory: PurePosixPath) -> None:
    """A zip file, unpacked."""
    if not agent.ask("has", directory=str(directory)):
        archive = directory.with_name(f"{package.name}.zip")
        agent.write(archive, package.content)
        agent.ask("unpack", archive=str(archive), directory=str(directory))


def bring_libraries(
    agent: AgentClient, platform: libraries.Platform, directory: PurePosixPath, report: Report
) -> None:
    """A virtual environment."""
    if agent.ask("has", directory=str(directory)):
        return
    wheels = libraries.wheels(platform)
    size_mb = sum(wheel.stat().st_size for wheel in wheels) / 1e6
    report(f"{agent.who}: bringing {len(wheels)} libraries ({size_mb:.0f} MB)")
    aside = directory.with_name(f"{directory.name}.wheels")
    for wheel in wheels:
        agent.write(aside / wheel.name, wheel.read_bytes())
    agent.ask(
        "install_libraries",
        timeout=_INSTALL_WITHIN_S,
        wheels=str(aside),
        directory=str(directory),
    )


def bring_artifact(
    agent: AgentClient, artifact: Artifact, there: PurePosixPath, machine: str, report: Report
) -> None:
    """Each file of it that is not there, or is another one than here. ``machine``: the host's, as
    ``uname -m`` calls it. Raises InfraError for a program that is for another machine, and for a
    file that is there and not here: Java would take it, too."""
    if artifact.is_program and (made_for := machine_of(artifact.path)) not in (None, machine):
        raise InfraError(
            f"{agent.who}: {artifact.title} was compiled for {made_for}, and this is {machine}"
        )
    present = agent.ask("sums", timeout=_SUMMED_WITHIN_S, path=str(there))
    if strangers := sorted(present.keys() - artifact.sums.keys()):
        raise InfraError(
            f"{agent.who}: {', '.join(strangers)} in {there} is not of {artifact.title}: remove "
            "it, or everything by ackproof clean --inventory FILE"
        )
    missing = [name for name, known in artifact.sums.items() if present.get(name) != known]
    if missing:
        size_mb = sum((artifact.path / name).stat().st_size for name in missing) / 1e6
        report(f"{agent.who}: bringing {artifact.title} ({size_mb:.0f} MB)")
    for name in missing:
        agent.write(there / name, (artifact.path / name).read_bytes())
    if artifact.is_program:
        # Whether it was there or not: the connection may have been lost between the two.
        agent.ask("allow_execution", path=str(there))


# --- preparing a host -------------------------------------------------------------------------


_PYTHON_MIN = (3, 11)
_DEBIAN = frozenset({"debian", "ubuntu"})
_APT_WITHIN_S = 900.0
_TRYING_TIMEOUT_S = 60.0
_APT = (
    "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get",
    "-q", "-o", "DPkg::Lock::Timeout=300",
)  # fmt: skip

_NO_PROGRAM = 127
_PYTHON = ("python3", "-I", "-S")
_LOOK = """\
import json, os, sys
base = os.path.expanduser(sys.argv[1])
agent = os.path.exists(os.path.join(base, sys.argv[2]))
print(json.dumps({"python": sys.version_info[:2], "base": base, "agent": agent}))
"""
"""All that must be known before the agent is there, asked in one round trip."""

_PUT = """\
import os, sys
path = sys.argv[1]
aside = "%s.%d" % (path, os.getpid())
os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
with open(aside, "wb") as file:
    file.write(sys.stdin.buffer.read())
os.replace(aside, path)
"""
"""Brings the agent itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A host that can carry a node.

    Attributes:
        base: All of ours lies below it.
        program, agent: See :class:`Brought`.
        sources: For PYTHONPATH.
        artifacts: Where those lie that were brought there.
        obstacles: Why its links cannot be treated as a capability says.
        unlimited: Why processes cannot be given too little of something, by what it is; None
            where they can.
    """

    base: PurePosixPath
    program: Sequence[str]
    agent: AgentClient
    software: Software
    sources: PurePosixPath
    artifacts: Mapping[Artifact, PurePosixPath]
    obstacles: Obstacles
    unlimited: Mapping[Scarce, str | None]


@dataclass(frozen=True, slots=True)
class Brought:
    """The agent on a host. ``base``: the directory for all of ours. ``program``: its command line
    without its role. ``agent``: asked to prepare or release the host; no run's."""

    base: PurePosixPath
    program: Sequence[str]
    agent: AgentClient


def bring_agent(connection: Connection, directory: str) -> Brought:
    """Bring the agent to the host. ``directory``: as in the inventory. Raises InfraError without a
    fitting Python."""
    package = bundle.agent()
    look = [*_PYTHON, "-c", _LOOK, directory, package.name]
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
        put = connection.run([*_PYTHON, "-c", _PUT, str(path)], package.content)
        if put.status != 0:
            raise InfraError(f"{connection.host}: {put.output.strip()}")
    program = [*_PYTHON, str(path)]
    way = Channels(connection, [*program, "serve"], at_once=1)
    return Brought(base, program, AgentClient(str(connection.host), way))


def _check_python(connection: Connection, version: Sequence[int]) -> None:
    if tuple(version) < _PYTHON_MIN:
        raise InfraError(
            f"{connection.host}: its Python is {'.'.join(map(str, version))}, and 3.11 or newer is "
            "needed: Debian 12, Ubuntu 24.04 or newer"
        )


def prepare(
    connection: Connection, directory: str, report: Report, artifacts: Sequence[Artifact]
) -> Prepared:
    """Install what is missing and bring the software; quick where nothing is.

    Args:
        directory: As in the inventory.
        report: Told, a line at a time, what takes a while.
        artifacts: To bring besides.

    Raises InfraError naming host, what is missing and why it cannot be had.
    """
    brought = bring_agent(connection, directory)
    agent = brought.agent
    facts = _facts_after_installing(connection, agent, report)
    platform = libraries.Platform(tuple(facts["python"]), facts["machine"], facts["libc"])
    kept = brought.base / "software"
    installed = kept / libraries.name_for(platform)
    sources = kept / bundle.sources().name
    zookeeper = kept / bundle.jars().name
    for package in (bundle.sources(), bundle.jars()):
        bring(agent, package, kept / package.name)
    bring_libraries(agent, platform, installed, report)
    for one in artifacts:
        bring_artifact(agent, one, kept / one.name, facts["machine"], report)
    return Prepared(
        base=brought.base,
        program=brought.program,
        agent=agent,
        sources=sources,
        artifacts={one: kept / one.name for one in artifacts},
        software=Software(
            python=str(installed / "bin" / "python"),
            java=facts["java"]["path"],
            zookeeper_class_path=":".join(str(zookeeper / path.name) for path in zookeeper_jars()),
        ),
        obstacles=_obstacles(facts, agent),
        unlimited={what: facts["not_root"] or agent.ask("can_limit", what=what) for what in Scarce},
    )


def _obstacles(facts: Mapping[str, Any], agent: AgentClient) -> Obstacles:
    if facts["not_root"]:
        return dict.fromkeys(OF_LINKS, facts["not_root"])
    found: Obstacles = agent.ask("obstacles", timeout=_TRYING_TIMEOUT_S)
    return found


def _facts_after_installing(
    connection: Connection, agent: AgentClient, report: Report
) -> dict[str, Any]:
    facts: dict[str, Any] = agent.ask("facts")
    missing = _missing(facts)
    if missing:
        _check_may_install(connection, facts, missing)
        report(f"{connection.host}: installing {', '.join(missing)}")
        _apt(connection, missing)
        facts = agent.ask("facts")
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
