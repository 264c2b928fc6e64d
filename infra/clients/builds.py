"""Builds of the programs of client libraries that are put under test: ``make clients``.

Java's and Go's are compiled, each with its library in the version that is fixed here or in
``go.mod``; Java's also with another release. They are kept in the user's cache, in a directory
whose name depends on the inputs. Everything else that the Java client needs is among the jars of
PySpark. The programs run on any node as they are. Java's runs on every Java that is accepted, with
all it needs in one directory. Go's needs no C library.

As a program: ``python -m ackproof.infra.clients.builds [LIBRARY...]``, by default all, or
``java:4.1.1`` for another release of Java's client; exit status 5, with the reason, if one cannot
be made.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.software import JAVA_VERSION_MIN, cached, jars_of_spark

SOURCES = Path(__file__).parents[2] / "workloads" / "foreign"
JAVA_CLASS = "Program"
GO_BINARY = "producer"

KAFKA_CLIENTS = "4.4.0"
_SHA512 = (
    "c15e74d3b5e94094e06f8441b9a055ece431bf27748663905f3c0e8a333fdcd1"
    "db07bd8517152f34f6b5c276aa83bec374fb184aa3da16b7989ee773aa07298a"
)
"""The SHA-512 of its jar, as Maven Central publishes it beside the jar."""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_JARS = (
    "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl", "lz4-java", "snappy-java",
    "zstd-jni",
)  # fmt: skip
"""The jars of PySpark that the Java client needs: its log, and the codecs."""
# Without it, a newer compiler than the Java of a node makes classes that this Java does not load.
_JAVAC = ("-Xlint:all", "-Werror", "--release", str(JAVA_VERSION_MIN))
_GO = ("build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o")
_GO_ENVIRONMENT: Mapping[str, str] = {"CGO_ENABLED": "0"}
"""Variables for the compiler. With cgo, the program would be linked to the C library of this
machine, and nodes have others."""
_GO_DIRECTORY = Path("/usr/local/go/bin")
"""The directory of Go's own archive by its instructions; often not in PATH."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_BUILT_WITHIN_S = 900


def build(client: str) -> Path:
    """Make the program unless it exists, and return its directory. Raises InfraError.

    ``client`` is a library's name; Java's may be followed by a version (``java:4.1.1``).
    """
    directory = _directory(client)
    if not directory.exists():
        with _made_aside(directory) as partial:
            LIBRARIES[library_of(client)](partial, _version(client))
    return directory


def built(client: str) -> Path:
    """Return the directory of the program. Raises InfraError if it was not made."""
    directory = _directory(client)
    if not directory.exists():
        how = "make clients"
        if library_of(client) != client:
            how = f"{Path(sys.executable).name} -m ackproof.infra.clients.builds {client}"
        raise InfraError(f"the program of {client} is not built: {how}")
    return directory


def library_of(client: str) -> str:
    """Return the name of a library without the version that it may have."""
    return client.partition(":")[0]


def takes_group_metadata(client: str) -> bool:
    """Return whether the producer of a release of Java's client takes the metadata of a consumer
    group (KIP-447). Of the releases that can be built, only 2.4 does not."""
    return not _version(client).startswith("2.4.")


def _version(client: str) -> str:
    """Return the version of Java's client."""
    return client.partition(":")[2] or KAFKA_CLIENTS


def _directory(client: str) -> Path:
    """Return the directory of a program, made or not.

    Its name depends on the sources, the version of the library and the options of the compiler.
    """
    library = library_of(client)
    if library == "java":
        made_of = [_version(client), *_JAVAC, *(jar.name for jar in jars_of_spark(_JARS))]
    else:
        made_of = [*_GO, *(f"{name}={value}" for name, value in _GO_ENVIRONMENT.items())]
    digest = hashlib.sha256("\0".join(made_of).encode())
    for path in sorted((SOURCES / library).iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return cached("clients", f"{client.replace(':', '-')}-{digest.hexdigest()[:12]}")


@contextmanager
def _made_aside(directory: Path) -> Iterator[Path]:
    """Make a directory as a whole: an interrupted build is not taken for a program."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{directory.name}.", dir=directory.parent))
    try:
        yield partial
        partial.chmod(0o755)
        partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _build_java(into: Path, version: str) -> None:
    compiler = _program("javac", "a JDK (Debian: apt-get install default-jdk-headless)")
    _fetch(into, version)
    for jar in jars_of_spark(_JARS):
        shutil.copyfile(jar, into / jar.name)
    sources = map(str, sorted((SOURCES / "java").glob("*.java")))
    with tempfile.TemporaryDirectory() as classes:
        _run([compiler, *_JAVAC, "-cp", f"{into}/*", "-d", classes, *sources])
        _pack(Path(classes), into / "program.jar")


def _pack(classes: Path, jar: Path) -> None:
    """Write the same bytes for the same classes, whenever they were compiled."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(classes.rglob("*.class")):
            name = zipfile.ZipInfo(path.relative_to(classes).as_posix(), _EPOCH)
            archive.writestr(name, path.read_bytes())


def _build_franz_go(into: Path, _version: str) -> None:
    compiler = _program("go", "Go 1.25 or newer (https://go.dev/dl)", _GO_DIRECTORY)
    _run(
        [compiler, *_GO, str(into / GO_BINARY), "."],
        directory=SOURCES / "franz-go",
        environment=_GO_ENVIRONMENT,
    )


LIBRARIES: Mapping[str, Callable[[Path, str], None]] = {
    "java": _build_java,
    "franz-go": _build_franz_go,
}
"""The functions that make the program of each library, in a directory, with a version of Java's
client."""


def _program(name: str, remedy: str, beside: Path | None = None) -> str:
    found = shutil.which(name) or (beside and shutil.which(name, path=str(beside)))
    if not found:
        raise InfraError(f"{name} is not in PATH: install {remedy}")
    return found


def _fetch(into: Path, version: str) -> None:
    """Copy the jar of the Java client into a directory, as Maven Central has it.

    The digest of a version's first jar is kept in the cache, and later ones are held against it.
    """
    maven = _program("mvn", "Maven (Debian: apt-get install maven)")
    artifact = f"-Dartifact=org.apache.kafka:kafka-clients:{version}"
    _run([maven, "-B", "-q", _COPY, artifact, f"-DoutputDirectory={into}"])
    jar = into / f"kafka-clients-{version}.jar"
    found = hashlib.sha512(jar.read_bytes()).hexdigest()
    lock = cached("clients", f"{jar.name}.sha512")
    if version == KAFKA_CLIENTS:
        known = _SHA512
    elif lock.exists():
        known = lock.read_text().strip()
    else:
        known = found
        lock.write_text(found + "\n")
    if found != known:
        raise InfraError(f"{jar.name} has changed: its SHA-512 differs")


def _run(
    argv: Sequence[str],
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a command. ``environment`` has changes to that of this process."""
    try:
        done = subprocess.run(
            argv,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=_BUILT_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InfraError(f"{argv[0]} did not finish within {_BUILT_WITHIN_S} s") from error
    if done.returncode != 0:
        raise InfraError(f"{argv[0]} failed: {(done.stderr or done.stdout).strip()}")


def main(clients: Sequence[str]) -> int:
    """Make the programs of ``clients``, report each, and return the exit status."""
    status = 0
    for client in clients or LIBRARIES:
        try:
            known = library_of(client) in LIBRARIES
            message = str(build(client)) if known else "there is nothing to build"
        except InfraError as error:
            message, status = str(error), 5
        sys.stdout.write(f"{client}: {message}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
