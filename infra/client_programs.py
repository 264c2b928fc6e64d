"""The programs of client libraries that are put under test, on this machine: ``make clients``.

Java's and Go's are compiled, each with its library in the one version that is written down here or
in ``go.mod``, and kept in the user's cache, in a directory that is named after what went into it.
What else the Java client needs is among the jars of PySpark. aiokafka's runs in the Python of any
node; others are on this machine alone, and so for the backend local.

As a program: ``python -m infra.client_programs [LIBRARY...]``, by default all; exit status 3 where
one cannot be made, with the reason.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from infra.interface import InfraError, Software
from infra.software import jars_of_spark

SOURCES = Path(__file__).parents[1] / "workloads" / "foreign"
KAFKA_CLIENTS = "4.1.1"
_SHA512 = (
    "50264f2f06c92caa150683654c317a81d7831c7ea4c66353e57b46f412afa3c6"
    "e9d12a883a91630c9f3015b1363840cf152a4fc8e7ec0ec9592033520292935f"
)
"""Of its jar, as Maven Central has it beside the jar."""
_MAVEN = "https://repo1.maven.org/maven2/org/apache/kafka/kafka-clients"
_JARS = (
    "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl", "lz4-java", "snappy-java",
    "zstd-jni",
)  # fmt: skip
"""What the Java client needs of PySpark's jars: its log, and the codecs."""
_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-Dlog4j2.level=WARN")
_JAVA_CLASS = "ProducerProgram"
_AIOKAFKA = "workloads.foreign.aiokafka_producer"
_GO_BINARY = "producer"
_GO_DIRECTORY = Path("/usr/local/go/bin")
"""Where Go's own archive is unpacked to by its instructions; often not in PATH."""
_FETCHED_WITHIN_S = 600
_BUILT_WITHIN_S = 900


def command(client: str, software: Software) -> tuple[str, ...]:
    """The command line of a client's program, on a node with ``software``. Raises InfraError where
    it is not there, with what to do."""
    match client:
        case "aiokafka":
            return (software.python, "-m", _AIOKAFKA)
        case "java":
            return (software.java, *_JVM_OPTIONS, "-cp", _class_path(_built(client)), _JAVA_CLASS)
        case "franz-go":
            return (str(_built(client) / _GO_BINARY),)
    return (str(own(client)),)


def missing(client: str) -> str | None:
    """Why there is no such program on this machine, and how to get it; None where there is."""
    try:
        if client in _BUILDERS:
            _built(client)
        elif client == "aiokafka":
            if find_spec("aiokafka") is None:
                return "aiokafka is not installed: make setup"
        else:
            own(client)
    except InfraError as error:
        return str(error)
    return None


def on_every_backend(client: str) -> bool:
    """Whether nodes have the program wherever they are."""
    return client == "aiokafka"


def own(client: str) -> Path:
    """The program of the user's own at that path, from the working directory. Raises InfraError
    where there is none."""
    path = Path(client).absolute()
    if not path.is_file():
        raise InfraError(f"there is no program {path}")
    if not os.access(path, os.X_OK):
        raise InfraError(f"{path} may not be executed: chmod +x")
    return path


def build(client: str) -> Path:
    """Make the program, unless it is there already; its directory. Raises InfraError."""
    directory = _directory(client)
    if not directory.exists():
        with _made_aside(directory) as partial:
            _BUILDERS[client](partial)
    return directory


def _built(client: str) -> Path:
    directory = _directory(client)
    if not directory.exists():
        raise InfraError(f"the program of {client} is not built: make clients")
    return directory


def _directory(client: str) -> Path:
    """Where its program is, or will be: named after its sources and its library's version."""
    digest = hashlib.sha256(KAFKA_CLIENTS.encode())
    for path in sorted((SOURCES / client).iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "ackproof" / "clients" / f"{client}-{digest.hexdigest()[:12]}"


@contextmanager
def _made_aside(directory: Path) -> Iterator[Path]:
    """All or nothing: what was interrupted is not taken for a whole program."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{directory.name}.", dir=directory.parent))
    try:
        yield partial
        partial.chmod(0o755)
        partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _build_java(into: Path) -> None:
    compiler = _compiler("javac", "a JDK (Debian: apt-get install default-jdk-headless)")
    _fetch(into / f"kafka-clients-{KAFKA_CLIENTS}.jar")
    source = SOURCES / "java" / f"{_JAVA_CLASS}.java"
    _run(
        [compiler, "-Xlint:all", "-Werror", "-cp", _class_path(into), "-d", str(into), str(source)]
    )


def _build_franz_go(into: Path) -> None:
    compiler = _compiler("go", "Go 1.25 or newer (https://go.dev/dl)", _GO_DIRECTORY)
    options = ("-mod=readonly", "-trimpath", "-buildvcs=false")
    _run(
        [compiler, "build", *options, "-o", str(into / _GO_BINARY), "."],
        directory=SOURCES / "franz-go",
    )


_BUILDERS: Mapping[str, Callable[[Path], None]] = {
    "java": _build_java,
    "franz-go": _build_franz_go,
}


def _class_path(directory: Path) -> str:
    jars = sorted(directory.glob("*.jar"))
    return ":".join(map(str, (directory, *jars, *jars_of_spark(_JARS))))


def _compiler(name: str, remedy: str, beside: Path | None = None) -> str:
    found = shutil.which(name) or (beside and shutil.which(name, path=str(beside)))
    if not found:
        raise InfraError(f"no {name} in PATH: install {remedy}")
    return found


def _fetch(jar: Path) -> None:
    url = f"{_MAVEN}/{KAFKA_CLIENTS}/{jar.name}"
    try:
        with urllib.request.urlopen(url, timeout=_FETCHED_WITHIN_S) as answer:
            content = answer.read()
    except OSError as error:
        raise InfraError(f"cannot fetch {url}: {error}") from error
    if hashlib.sha512(content).hexdigest() != _SHA512:
        raise InfraError(f"{url} is not what it was: its SHA-512 is another")
    jar.write_bytes(content)


def _run(argv: Sequence[str], directory: Path | None = None) -> None:
    try:
        done = subprocess.run(
            argv,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=_BUILT_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InfraError(f"{argv[0]} was not done within {_BUILT_WITHIN_S} s") from error
    if done.returncode != 0:
        raise InfraError(f"{argv[0]} failed: {(done.stderr or done.stdout).strip()}")


def main(clients: Sequence[str]) -> int:
    """Make the programs of ``clients``, telling of each; the exit status."""
    status = 0
    for client in clients or _BUILDERS:
        try:
            told = str(build(client)) if client in _BUILDERS else "there is nothing to make"
        except InfraError as error:
            told, status = str(error), 3
        sys.stdout.write(f"{client}: {told}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
