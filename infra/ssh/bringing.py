"""Bringing to hosts what they keep from run to run; nothing that is there already.

Each thing is a file or lies in a directory of its own, which is named after its content.
"""

from collections.abc import Callable
from pathlib import PurePosixPath

from ackproof.infra.agent_client import AgentClient
from ackproof.infra.artifacts import Artifact, machine_of
from ackproof.infra.interface import InfraError
from ackproof.infra.ssh import bundle, libraries

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
