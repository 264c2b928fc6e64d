"""The programs of client libraries that are put under test: where they are, and how nodes run them.

Java's and franz-go's are made on this machine (:mod:`infra.client_builds`), and programs of the
user's own are its files. Where a node does not see these, it is given them: a backend is opened
with their :func:`artifact`. aiokafka's runs in the Python of any node.
"""

import os
from importlib.util import find_spec
from pathlib import Path

from ackproof.infra import artifacts, client_builds
from ackproof.infra.artifacts import Artifact
from ackproof.infra.interface import InfraError, Node

# Without the last, a JVM that is killed leaves a file in the node's /tmp, whatever is its tmpdir.
_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-Dlog4j2.level=WARN", "-XX:-UsePerfData")
_AIOKAFKA = "ackproof.workloads.foreign.aiokafka_producer"


def command(client: str, node: Node) -> tuple[str, ...]:
    """The command line of a client's program on a node. Raises InfraError where it is not there,
    with what to do."""
    wanted = artifact(client)
    if wanted is None:
        return (node.software.python, "-P", "-m", _AIOKAFKA)
    there = node.where(wanted)
    if wanted.is_program:
        return (str(there),)
    # Codecs unpack their native parts there, and a JVM that is killed leaves them.
    aside = f"-Djava.io.tmpdir={node.directory}"
    main = client_builds.JAVA_CLASS
    return (node.software.java, *_JVM_OPTIONS, aside, "-cp", f"{there}/*", main)


def artifact(client: str) -> Artifact | None:
    """What nodes need to run a client's program; None where they have it as they are. Raises
    InfraError where it is not on this machine, with what to do."""
    if client == "aiokafka":
        return None
    try:
        if client == "java":
            directory = client_builds.built(client)
            sums = {jar.name: artifacts.sha256(jar) for jar in sorted(directory.glob("*.jar"))}
            title = "the program of java"
            return Artifact(name=directory.name, title=title, path=directory, sums=sums)
        if client == "franz-go":
            path = client_builds.built(client) / client_builds.GO_BINARY
            return artifacts.program(path, "franz-go", "the program of franz-go")
        path = own(client)
        return artifacts.program(path, path.name, f"the program {path}")
    except OSError as error:
        raise InfraError(f"the program of {client} cannot be read: {error}") from error


def missing(client: str) -> str | None:
    """Why there is no such program on this machine, and how to get it; None where there is."""
    try:
        if client in client_builds.LIBRARIES:
            client_builds.built(client)
        elif client == "aiokafka":
            if find_spec("aiokafka") is None:
                return "aiokafka is not installed: make setup"
        else:
            own(client)
    except InfraError as error:
        return str(error)
    return None


def own(client: str) -> Path:
    """The program of the user's own at that path, from the working directory. Raises InfraError
    where there is none."""
    path = Path(client).absolute()
    if not path.is_file():
        raise InfraError(f"there is no program {path}")
    if not os.access(path, os.X_OK):
        raise InfraError(f"{path} may not be executed: chmod +x")
    return path
