"""The preparation of a host for a node: missing packages are installed, and software is copied.

Everything of the harness lies below one directory of the user (``directory`` of the inventory). It
holds the agent, ``software/`` (kept from run to run, each part named after its content), and
``run/`` (while a run has the host). Packages of the distribution are ``python3-venv``, a Java,
``nftables``.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import InfraError, Software
from ackproof.infra.backends.ssh import bundle, libraries
from ackproof.infra.backends.ssh.connection import Connection, HostConnection
from ackproof.infra.machine.software import JAVA_VERSION_MIN, parse_version, zookeeper_jars
from ackproof.infra.node.agent_client import AgentClient
from ackproof.infra.node.copying import bring_artifact
from ackproof.infra.node.nodes import OF_LINKS, Obstacles

_INSTALL_WITHIN_S = 600.0

Report = Callable[[str], None]
"""A function that gets a line for each step that takes a while."""


def bring(agent: AgentClient, package: bundle.Package, directory: PurePosixPath) -> None:
    """Copy a zip file to the host and unpack it there."""
    if not agent.ask("has", directory=str(directory)):
        archive = directory.with_name(f"{package.name}.zip")
        agent.write(archive, package.content)
        agent.ask("unpack", archive=str(archive), directory=str(directory))


def bring_libraries(
    agent: AgentClient, platform: libraries.Platform, directory: PurePosixPath, report: Report
) -> None:
    """Make a virtual environment on the host."""
    if agent.ask("has", directory=str(directory)):
        return
    wheels = libraries.wheels(platform)
    size_mb = sum(wheel.stat().st_size for wheel in wheels) / 1e6
    report(f"{agent.who}: copying {len(wheels)} libraries ({size_mb:.0f} MB)")
    aside = directory.with_name(f"{directory.name}.wheels")
    for wheel in wheels:
        agent.write(aside / wheel.name, wheel.read_bytes())
    agent.ask(
        "install_libraries",
        timeout=_INSTALL_WITHIN_S,
        wheels=str(aside),
        directory=str(directory),
    )


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
"""A program that finds everything that must be known before the agent runs, in one round trip."""

_PUT = """\
import os, sys
path = sys.argv[1]
aside = "%s.%d" % (path, os.getpid())
os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
with open(aside, "wb") as file:
    file.write(sys.stdin.buffer.read())
os.replace(aside, path)
"""
"""A program that writes the agent itself."""


@dataclass(frozen=True, slots=True)
class DeliveredAgent:
    """The agent on a host.

    ``base`` is the directory of the harness. ``program`` is the agent's command line without its
    role. ``agent`` prepares or releases the host, and belongs to no run.
    """

    base: PurePosixPath
    program: Sequence[str]
    agent: AgentClient


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedHost(DeliveredAgent):
    """A host that can carry a node.

    Attributes:
        sources: The directory for PYTHONPATH.
        artifacts: The places of the artifacts that were copied there.
        obstacles: The reasons why its links lack a capability.
        unlimited: The reason why processes cannot be limited, by resource; None if they can.
    """

    software: Software
    sources: PurePosixPath
    artifacts: Mapping[Artifact, PurePosixPath]
    obstacles: Obstacles
    unlimited: Mapping[LimitedResource, str | None]


def bring_agent(
    connection: HostConnection,
    directory: str,
    before: Sequence[str] = (),
    *,
    installs: bool = True,
) -> DeliveredAgent:
    """Copy the agent to the host. Raises InfraError without a suitable Python.

    Args:
        directory: The directory of the harness there; for nodes, that of the inventory.
        before: A command that runs the agent's command, such as sudo.
        installs: Whether a missing Python is installed.
    """
    package = bundle.agent()
    python = (*before, *_PYTHON)
    look = [*python, "-c", _LOOK, directory, package.name]
    looked = connection.run(look)
    if looked.status == _NO_PROGRAM and installs:
        _apt(connection, ["python3"])
        looked = connection.run(look)
    if looked.status != 0:
        raise InfraError(f"{connection.host}: its Python does not run: {looked.output.strip()}")
    seen = json.loads(looked.output.splitlines()[-1])  # a login may print lines before it
    _check_python(connection, seen["python"])
    base = PurePosixPath(seen["base"])
    path = base / package.name
    if not seen["agent"]:
        put = connection.run([*python, "-c", _PUT, str(path)], package.content)
        if put.status != 0:
            raise InfraError(f"{connection.host}: {put.output.strip()}")
    program = [*python, str(path)]
    way = connection.channels([*program, "serve"], at_once=1)
    return DeliveredAgent(base, program, AgentClient(str(connection.host), way))


def _check_python(connection: HostConnection, version: Sequence[int]) -> None:
    if tuple(version) < _PYTHON_MIN:
        raise InfraError(
            f"{connection.host}: its Python is {'.'.join(map(str, version))}, but 3.11 or "
            "newer is needed: Debian 12, Ubuntu 24.04 or newer"
        )


def prepare(
    connection: Connection, directory: str, report: Report, artifacts: Sequence[Artifact]
) -> PreparedHost:
    """Install what is missing and copy the software; quick if nothing is missing.

    Args:
        directory: The directory of the inventory.
        report: Gets a line for each step that takes a while.
        artifacts: Files to copy in addition.

    Raises InfraError with the host, what is missing and why it cannot be installed.
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
    return PreparedHost(
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
        unlimited={
            what: facts["not_root"] or agent.ask("can_limit", what=what) for what in LimitedResource
        },
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
        raise InfraError(f"{connection.host}: {', '.join(still)} is installed, but does not work")
    return facts


def _missing(facts: dict[str, Any]) -> list[str]:
    """Return the missing packages. Without root, links are not cut, and nftables is of no use."""
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
        raise InfraError(f"{wanted}, but Ackproof may not do it: {facts['not_root']}")


def _apt(connection: HostConnection, packages: Sequence[str]) -> None:
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
