"""Client libraries that cells can name, their programs, and what nodes need for these.

:data:`CLIENTS` has the built-in ones and those of plug-ins, which register a :class:`Client` under
the entry-point group ``ackproof.clients``. A cell may also name a program of the user's own by its
path, which has a slash in it.

Java's and franz-go's programs are made on this machine (:mod:`infra.clients.builds`), and programs
of the user's own are files of it. If a node does not see these files, it gets copies: a backend is
opened with the :func:`artifact` of each. aiokafka's program runs in the Python of any node.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from ackproof.infra.api import artifacts
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import InfraError, Node
from ackproof.infra.clients import builds
from ackproof.plugins import Table
from ackproof.plugins.registration import common_problems

# Without the last option, a JVM that is killed leaves a file in the node's /tmp, whatever its
# tmpdir is.
_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-Dlog4j2.level=WARN", "-XX:-UsePerfData")
_AIOKAFKA = "ackproof.workloads.foreign.aiokafka_program"
T = TypeVar("T")


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client library that the producers of a cell can use.

    Attributes:
        name: Its name in campaigns: lower-case words, joined by hyphens.
        summary: A description in one line for lists.
        command: Returns the command line of its program on a node. The program speaks
            docs/client-protocol.md. Raises InfraError with the remedy if it is not there.
        artifact: Returns what nodes need to run it and do not have; None if they have all of it.
            Raises InfraError in the same way, and OSError if it cannot be read.
        missing: Returns why it cannot be started on this machine, and how to get it; None if it
            can.
        idempotence: Whether its producer can be idempotent (``enable.idempotence``).
        transactions: Whether its program can write in transactions.
        groups: Whether its program can be a member of a consumer group.
        transformers: Whether its program can read, transform and write in transactions with the
            offsets of what it read.
        protocol: The highest version of docs/client-protocol.md that its program speaks. Keys and
            tombstones need version 2.
        lacks: Producer properties that it has nothing for, by Kafka's names, and why.
    """

    name: str
    summary: str
    command: Callable[[Node], Sequence[str]]
    artifact: Callable[[], Artifact | None] = _nothing
    missing: Callable[[], str | None] = _nothing
    idempotence: bool = True
    transactions: bool = False
    groups: bool = False
    transformers: bool = False
    protocol: int = 1
    lacks: Mapping[str, str] = field(default_factory=dict)


def as_client(found: object, name: str) -> Client:
    """Return a registered object as the client called ``name``. Raises ValueError with what is
    wrong."""
    if not isinstance(found, Client):
        raise ValueError("it is not an instance of ackproof.infra.clients.programs.Client")
    for problem in _problems(found, name):
        raise ValueError(problem)
    return found


def _problems(found: Client, name: str) -> Iterator[str]:
    yield from common_problems(found, name)
    functions = ("command", "artifact", "missing")
    uncallable = [one for one in functions if not callable(getattr(found, one))]
    if uncallable:
        yield f"{', '.join(uncallable)}: must be a function"
    for flag in ("idempotence", "transactions", "groups", "transformers"):
        if not isinstance(getattr(found, flag), bool):
            yield f"its {flag} must be True or False"
    if found.protocol not in (1, 2):
        yield "its protocol must be 1 or 2"
    if not isinstance(found.lacks, Mapping):
        yield "its lacks must be a mapping of properties to reasons"


def _linked_in(_node: Node) -> Sequence[str]:
    raise InfraError("librdkafka has no program: it is linked into Ackproof's own clients")


def _java(client: str, node: Node) -> Sequence[str]:
    jars = _java_artifact(client)
    # Codecs unpack their native parts there, and a JVM that is killed leaves them.
    aside = f"-Djava.io.tmpdir={node.directory}"
    class_path = f"{node.where(jars)}/*"
    main = builds.JAVA_CLASS
    return (node.software.java, *_JVM_OPTIONS, aside, "-cp", class_path, main)


def _java_artifact(client: str) -> Artifact:
    directory = builds.built(client)
    sums = {jar.name: artifacts.sha256(jar) for jar in sorted(directory.glob("*.jar"))}
    title = f"the program of {client}"
    return Artifact(name=directory.name, title=title, path=directory, sums=sums)


def _franz_go_artifact() -> Artifact:
    path = builds.built("franz-go") / builds.GO_BINARY
    return artifacts.program(path, "franz-go", "the program of franz-go")


def _unless(find: Callable[[str], object], name: str) -> str | None:
    try:
        find(name)
    except InfraError as error:
        return str(error)
    return None


def _of_java(client: str) -> Client:
    return Client(
        name=client,
        summary="Apache Kafka's Java client; java:4.1.1 is that of another release",
        command=partial(_java, client),
        artifact=partial(_java_artifact, client),
        missing=lambda: _unless(builds.built, client),
        transactions=True,
        groups=True,
        transformers=builds.takes_group_metadata(client),
        protocol=2,
    )


_BUILT_IN = (
    Client(
        name="librdkafka",
        summary="librdkafka, which Ackproof's own clients use (confluent-kafka)",
        command=_linked_in,
        transactions=True,
        groups=True,
        transformers=True,
        protocol=2,
    ),
    _of_java("java"),
    Client(
        name="aiokafka",
        summary="aiokafka, a client in Python",
        command=lambda node: (node.software.python, "-P", "-m", _AIOKAFKA),
        missing=lambda: None if find_spec("aiokafka") else "aiokafka is not installed: make setup",
        groups=True,
        protocol=2,
    ),
    Client(
        name="franz-go",
        summary="franz-go, a client in Go",
        command=lambda node: (str(node.where(_franz_go_artifact())),),
        artifact=_franz_go_artifact,
        missing=lambda: _unless(builds.built, "franz-go"),
        groups=True,
        protocol=2,
    ),
)

CLIENTS: Table[Client] = Table(
    "ackproof.clients", "client", {one.name: one for one in _BUILT_IN}, as_client
)


def is_client(name: str) -> bool:
    """Return whether a cell may name this client: one of :data:`CLIENTS`, Java's of another
    release, or the path of a program."""
    return name in CLIENTS or "/" in name or _is_java(name)


def _is_java(name: str) -> bool:
    return "/" not in name and builds.library_of(name) == "java"


def client_of(name: str) -> Client:
    """Return the client that a cell names.

    It is one of :data:`CLIENTS`, Java's of another release, or a program of the user's own, by its
    path from the working directory.
    """
    if name in CLIENTS:
        return CLIENTS[name]
    if _is_java(name):
        return _of_java(name)

    def artifact() -> Artifact:
        path = own(name)
        return artifacts.program(path, path.name, f"the program {path}")

    return Client(
        name=name,
        summary="a custom program",
        command=lambda node: (str(node.where(artifact())),),
        artifact=artifact,
        missing=lambda: _unless(own, name),
        transactions=True,
        groups=True,
        transformers=True,
        protocol=2,  # it says itself if it does not
    )


def command(name: str, node: Node) -> tuple[str, ...]:
    """Return the command line of a client's program on a node.

    Raises InfraError with the remedy if it is not there.
    """
    return tuple(_asked(name, lambda: client_of(name).command(node)))


def artifact(name: str) -> Artifact | None:
    """Return what nodes need to run a client's program; None if they have all of it.

    Raises InfraError with the remedy if it is not on this machine.
    """
    return _asked(name, client_of(name).artifact)


def missing(name: str) -> str | None:
    """Return why this machine lacks the program, and how to get it; None if it has it."""
    return _asked(name, client_of(name).missing)


def own(client: str) -> Path:
    """Return the path of the user's own program, given from the working directory.

    Raises InfraError if there is none.
    """
    path = Path(client).absolute()
    if not path.is_file():
        raise InfraError(f"the program {path} does not exist")
    if not os.access(path, os.X_OK):
        raise InfraError(f"{path} is not executable: chmod +x")
    return path


def _asked(name: str, ask: Callable[[], T]) -> T:
    """Return what a client returns. Raises InfraError for its errors."""
    try:
        return ask()
    except InfraError:
        raise
    except OSError as error:
        raise InfraError(f"the program of {name} cannot be read: {error}") from error
    except Exception as error:
        plugin = CLIENTS.plugin(name)
        if plugin is None:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InfraError(f"the client {name} of the plug-in {plugin}: {reason}") from error
