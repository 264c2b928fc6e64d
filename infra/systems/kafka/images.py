"""Apache Kafka's jars from a container image: copied once, and kept by the image's digest.

A container of the image is created and never started. Its directory of jars is read through the
Docker Engine's API, and the container is removed. It has the label of all objects of the harness:
if this process is killed meanwhile, ``ackproof clean`` finds it.

An image that the engine does not have is not pulled. A campaign is checked against the version that
it tests, so the image is examined whenever a file is read. Reading a file should not fetch some
hundred megabytes. Which registries may be used is configured in Docker.
"""

import hashlib
import io
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.software import cached
from ackproof.infra.systems.kafka import releases
from ackproof.infra.systems.kafka.releases import put

BYTES_MAX = 2 << 30
"""The maximum bytes of an archive; Apache Kafka's jars are some 120 MB."""


def unpack(chunks: Iterable[bytes], directory: Path, bytes_max: int = BYTES_MAX) -> None:
    """Put the jars that lie directly in an archive's one directory into ``directory``.

    A link to another of them is left out, since it is the same jar by another name. Raises
    ValueError for links and names that lead elsewhere, for an archive that is larger than
    ``bytes_max``, and for other data than an archive.
    """
    links = {}
    with _members(chunks, bytes_max) as members:
        for archive, member in members:
            name = _jar(member.name)
            if name is None:
                continue
            place = directory / name
            if member.issym():
                links[name] = member.linkname
            elif member.islnk():
                shutil.copyfile(directory / _beside(name, member.linkname), place)
            elif (content := archive.extractfile(member)) is not None:
                with place.open("wb") as jar:
                    shutil.copyfileobj(content, jar)
    for name, target in links.items():
        if not (directory / _beside(name, target)).is_file():
            raise ValueError(f"{name} is a link to {target}, which does not exist")


def directories(
    chunks: Iterable[bytes], names: Iterable[str], bytes_max: int
) -> Iterator[PurePosixPath]:
    """Yield the directories of an archive, from its root, that hold a match of each of ``names``.

    The names are patterns. Raises the errors of :func:`unpack`.
    """
    found: dict[str, set[PurePosixPath]] = {name: set() for name in names}
    with _members(chunks, bytes_max) as members:
        for _, member in members:
            path = PurePosixPath("/", member.name)
            for name, where in found.items():
                if path.match(name):
                    where.add(path.parent)
    yield from sorted(set.intersection(*found.values()))


def _jar(name: str) -> str | None:
    """Return the name of a jar that lies directly in the archive's directory; None for all else."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"the archive has a name that leads out of it: {name}")
    return path.name if len(path.parts) == 2 and path.suffix == ".jar" else None


def _beside(name: str, target: str) -> str:
    """Return the file that a link leads to. A hard link's is named from the archive's root."""
    path = PurePosixPath(target)
    if path.is_absolute() or ".." in path.parts or len(path.parts) > 2:
        raise ValueError(f"{name} is a link that leads elsewhere: to {target}")
    return path.name


@contextmanager
def _members(
    chunks: Iterable[bytes], bytes_max: int
) -> Iterator[Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]]:
    stream = io.BufferedReader(_Stream(chunks, bytes_max))
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            yield ((archive, member) for member in archive)
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"the download is not an archive: {error}") from None


class _Stream(io.RawIOBase):
    """A file over data that comes in chunks."""

    def __init__(self, chunks: Iterable[bytes], bytes_max: int) -> None:
        self._chunks = iter(chunks)
        self._left = b""
        self._room = self._bytes_max = bytes_max

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
            self._room -= len(chunk)
            if self._room < 0:
                raise ValueError(f"it is larger than {self._bytes_max} bytes")
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


# --- releases from images ---------------------------------------------------------------------


if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container
    from docker.models.images import Image

KNOWN = ("/opt/kafka/libs", "/usr/share/java/kafka", "/opt/bitnami/kafka/libs")
"""The directories of jars in images: Apache Kafka's own, and those of Confluent and Bitnami."""

_JARS = ("kafka-clients-*.jar", "kafka_2.*.jar")
_IMAGE_BYTES_MAX = 32 << 30
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REGISTRY = r"(?:(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)(?::[0-9]+)?|[A-Za-z0-9-]+:[0-9]+)/"
_NAME = re.compile(
    rf"(?P<repository>(?:{_REGISTRY})?{_PART}(?:/{_PART})*)"
    r"(?P<tag>:\w[\w.-]{0,127})?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
_HUB = "docker.io/"


class _ImageAbsent(InfraError):
    """The engine does not have the image."""


class FetchedImage(NamedTuple):
    """An image whose jars are on this machine.

    Attributes:
        name: The name with the digest: that of its registry, or its id if it was in none.
        directory: A directory with the layout of Apache Kafka's archives, with ``libs``.
    """

    name: str
    directory: Path


def taken(name: str) -> FetchedImage:
    """Return the image of that name, with its jars copied unless they were before.

    The name is ``apache/kafka:4.1.1`` or has a digest (``@sha256:...``). With a known digest, no
    engine is needed. Without one the engine identifies the image. If there is no engine, or it does
    not have the image any more, the last known image of that name is used. Raises ValueError for an
    invalid name, for an unknown one, for an image without Apache Kafka, and for a refusal of the
    engine.
    """
    read = _NAME.fullmatch(name)
    if read is None:
        raise ValueError(f"{name!r} is not the name of an image: REPOSITORY[:TAG][@sha256:DIGEST]")
    digest = read["digest"]
    if digest is None or not _place(digest).is_dir():
        digest = _looked_up(name, read["repository"], digest)
    return FetchedImage(f"{read['repository']}{read['tag'] or ''}@{digest}", _place(digest))


def _looked_up(name: str, repository: str, wanted: str | None) -> str:
    """Return the digest of an image, whose jars are then on this machine."""
    from docker.errors import ImageNotFound  # it takes long to import, and few campaigns need it

    from ackproof.infra.backends.docker.engine import connected

    answers = False
    try:
        with connected() as client:
            answers = True
            try:
                image = _image(client, name, wanted)
            except ImageNotFound:
                raise _ImageAbsent(
                    f"the Docker Engine of this machine has no image {name}: docker pull {name}"
                ) from None
            digest = wanted or _digest(image, repository)
            if not _place(digest).is_dir():
                _take(client, image, _place(digest))
            _note(name, digest)
    except (InfraError, OSError) as error:
        known = _noted(name)
        if known is None or (answers and not isinstance(error, _ImageAbsent)):
            raise ValueError(str(error)) from None
        return known
    except ValueError as error:
        raise ValueError(f"the image {name}: {error}") from None
    return digest


def _image(client: "docker.DockerClient", name: str, wanted: str | None) -> "Image":
    from docker.errors import ImageNotFound

    try:
        return client.images.get(name)
    except ImageNotFound:
        if wanted is None:
            raise
        return client.images.get(wanted)  # an id


def _digest(image: "Image", repository: str) -> str:
    for reference in image.attrs.get("RepoDigests") or ():
        where, _, digest = reference.partition("@")
        if where.removeprefix(_HUB) == repository.removeprefix(_HUB):
            return str(digest)
    return str(image.id)


def _take(client: "docker.DockerClient", image: "Image", place: Path) -> None:
    from ackproof.infra.backends.docker.engine import owned

    partial = place.with_name(f"{place.name}.{os.getpid()}")
    # The command is never run, but one has to be named.
    container = client.containers.create(image, ["never"], labels=owned())
    try:
        for directory in chain(KNOWN, _elsewhere(container)):
            if _copied(container, directory, partial / "libs"):
                break
        else:
            raise ValueError(
                "it is not Apache Kafka: a broker's jar (kafka_2.13-....jar) is neither in "
                f"{', '.join(KNOWN)} nor beside kafka-clients-*.jar"
            )
        releases.unpacked(partial)
        put(partial, place)
    finally:
        container.remove(v=True)
        shutil.rmtree(partial, ignore_errors=True)


def _copied(container: "Container", directory: str, libs: Path) -> bool:
    """Return whether a directory of the image is that of the jars, which are then in ``libs``."""
    from docker.errors import NotFound

    shutil.rmtree(libs, ignore_errors=True)
    libs.mkdir(parents=True)
    try:
        chunks, _ = container.get_archive(directory)
    except NotFound:
        return False
    unpack(chunks, libs)
    return any(path.match(_JARS[1]) for path in libs.iterdir())


def _elsewhere(container: "Container") -> Iterator[str]:
    """Yield the directory of jars after a search of the whole image, which takes a while."""
    chunks: Iterable[bytes] = container.export()  # type: ignore[assignment]  # said to be text
    found = [str(one) for one in directories(chunks, _JARS, _IMAGE_BYTES_MAX)]
    if len(found) > 1:
        raise ValueError(f"{len(found)} directories have Kafka's jars: {', '.join(found)}")
    yield from found


def _place(digest: str) -> Path:
    return cached("images", digest.replace(":", "-"))


def _note_of(name: str) -> Path:
    return cached("images", f"name-{hashlib.sha256(name.encode()).hexdigest()[:16]}")


def _note(name: str, digest: str) -> None:
    note = _note_of(name)
    aside = note.with_name(f"{note.name}.{os.getpid()}")
    aside.write_text(digest, encoding="ascii")
    aside.replace(note)


def _noted(name: str) -> str | None:
    """Return the last digest of a name, if its jars are still on this machine."""
    try:
        digest = _note_of(name).read_text(encoding="ascii")
    except OSError:
        return None
    return digest if _place(digest).is_dir() else None
