"""Bringing to hosts what they keep from run to run; nothing that is there already.

Each thing lies in a directory of its own, which is named after its content.
"""

from collections.abc import Callable
from pathlib import PurePosixPath

from infra.agent_client import AgentClient
from infra.interface import InfraError
from infra.jars import Jars
from infra.ssh import bundle, libraries

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


def bring_jars(agent: AgentClient, jars: Jars, directory: PurePosixPath, report: Report) -> None:
    """Each that is not there, or is another one than here. Raises InfraError for one that is there
    and not here: Java would take it, too."""
    there = agent.ask("sums", timeout=_SUMMED_WITHIN_S, directory=str(directory))
    if strangers := sorted(there.keys() - jars.sums.keys()):
        raise InfraError(
            f"{agent.who}: {', '.join(strangers)} in {directory} is not of {jars.title}: remove "
            "it, or everything by ackproof clean --inventory FILE"
        )
    missing = [
        jars.directory / name for name, sum_here in jars.sums.items() if there.get(name) != sum_here
    ]
    if missing:
        size_mb = sum(file.stat().st_size for file in missing) / 1e6
        report(f"{agent.who}: bringing {jars.title} ({size_mb:.0f} MB)")
    for file in missing:
        agent.write(directory / file.name, file.read_bytes())
