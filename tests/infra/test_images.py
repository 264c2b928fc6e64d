"""Apache Kafka's jars out of container images: names, archives that mean no good, and what is here
already. (Of a real image: tests/docker/test_kafka_images.py.)"""

import io
import tarfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.infra.systems import parse, pinned, quorum_of
from ackproof.infra.systems.kafka import images
from ackproof.infra.systems.product import MetadataQuorum

DIGEST = f"sha256:{'5e' * 32}"
CLIENTS, CORE = "libs/kafka-clients-4.1.1.jar", "libs/kafka_2.13-4.1.1.jar"


def member(name: str, content: bytes = b"x", **changes: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = 0 if changes else len(content)
    for key, value in changes.items():
        setattr(info, key, value)
    return info, content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=kind, linkname=target)


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> list[bytes]:
    """In chunks that have nothing to do with what is in them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for info, content in members:
            made.addfile(info, io.BytesIO(content) if info.isreg() else None)
    content = buffer.getvalue()
    return [content[at : at + 700] for at in range(0, len(content), 700)]


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    where = tmp_path / "a" / "b"
    where.mkdir(parents=True)
    return where


def test_the_jars_of_a_directory_and_nothing_else(tmp_path: Path, inside: Path) -> None:
    chunks = archive(
        member("libs", type=tarfile.DIRTYPE),
        member(CLIENTS, b"c" * 3000),
        member(CORE),
        member("libs/README"),
        member("libs/deeper/other.jar"),
        member("libs/pipe.jar", type=tarfile.FIFOTYPE),
        link("libs/kafka.jar", "./kafka_2.13-4.1.1.jar"),
        link("libs/same.jar", CLIENTS, tarfile.LNKTYPE),
    )
    images.unpack(chunks, inside)
    clients = b"c" * 3000
    assert files(inside) == {
        "kafka-clients-4.1.1.jar": clients,
        "kafka_2.13-4.1.1.jar": b"x",
        "same.jar": clients,
    }
    assert set(tmp_path.rglob("*.jar")) == set(inside.iterdir())


@pytest.mark.parametrize(
    "members",
    [
        [member("../x.jar")],
        [member("/etc/x.jar")],
        [member("libs/../../x.jar")],
        [link("libs/x.jar", "../../../x.jar")],
        [link("libs/x.jar", "/x.jar")],
        [link("libs/x.jar", "nowhere.jar")],
        [link("libs/x.jar", "../x.jar", tarfile.LNKTYPE)],
        # Written through the link, if links were made.
        [link("libs/x.jar", "/tmp"), member("libs/x.jar/y.jar")],
    ],
)
def test_archive_member_that_leads_outside_is_refused(
    tmp_path: Path, inside: Path, members: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    with pytest.raises(ValueError, match=r"leads|which does not exist"):
        images.unpack(archive(*members), inside)
    assert files(tmp_path) == {}


@given(st.lists(st.text("ab./\\", min_size=1, max_size=12).map(lambda name: f"{name}.jar")))
def test_no_name_leads_out(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    outer = tmp_path_factory.mktemp("outer")
    inside = outer / "libs"
    inside.mkdir()
    with suppress(ValueError):
        images.unpack(archive(*map(member, names)), inside)
    assert set(files(outer)) == {f"libs/{name}" for name in files(inside)}


@pytest.mark.parametrize(
    ("chunks", "says"),
    [
        (archive(member(CORE, bytes(50_000))), "larger than 40000 bytes"),
        ([b"not an archive" * 100], "not an archive"),
        (archive(member(CORE, bytes(5_000)))[:3], "not an archive"),
    ],
)
def test_oversized_or_malformed_archive_is_refused(
    inside: Path, chunks: Iterable[bytes], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        images.unpack(chunks, inside, bytes_max=40_000)


def test_a_directory_that_has_both_is_found() -> None:
    names = (
        *("usr/kafka-clients-4.1.1.jar", "srv/kafka_2.13-4.1.1.jar"),
        *("srv/it/kafka-clients-4.1.1.jar", "srv/it/kafka_2.13-4.1.1.jar"),
    )
    patterns = ("kafka-clients-*.jar", "kafka_2.*.jar")
    found = images.directories(archive(*map(member, names)), patterns, 1 << 20)
    assert list(found) == [PurePosixPath("/srv/it")]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """And no engine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/missing")
    return tmp_path / "ackproof" / "images"


def here(cache: Path, *jars: str) -> Path:
    libs = cache / DIGEST.replace(":", "-") / "libs"
    libs.mkdir(parents=True)
    for jar in jars:
        (libs / jar).touch()
    return libs


@pytest.mark.parametrize(
    "name",
    ["apache/kafka:4.1.1", "kafka", "localhost:5000/team/kafka", "my.place/a__b/kafka:1-x_Y"],
)
def test_by_its_digest_an_image_is_known_without_an_engine(cache: Path, name: str) -> None:
    libs = here(cache, "kafka_2.13-4.1.1.jar")
    found = parse(f"kafka:image:{name}@{DIGEST}")
    assert found.text == pinned(found.text) == f"kafka:image:{name}@{DIGEST}"
    assert quorum_of(found.text) is MetadataQuorum.ISOLATED_KRAFT
    assert found.release.directory == libs


@pytest.mark.parametrize(
    "name",
    [
        "",
        "[no]",
        "Apache/kafka",
        "a..b/kafka",
        "kafka:",
        "kafka@sha256:5e",
        "kafka:1@5e",
        "../kafka",
    ],
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match=r"not the name of an image: REPOSITORY\[:TAG\]"):
        parse(f"kafka:image:{name}")


def test_without_an_engine_an_image_that_was_never_here_is_refused(cache: Path) -> None:
    for name in ("apache/kafka:4.1.1", f"apache/kafka@{DIGEST}"):
        with pytest.raises(
            ValueError, match=f"no Docker Engine answers at unix://{cache.parents[1]}"
        ):
            images.taken(name)


@pytest.mark.parametrize(
    ("jar", "version"),
    [
        ("kafka_2.13-7.6.1-ccs.jar", "3.6.1"),
        ("kafka_2.13-8.0.0-ccs.jar", "4.0.0"),
        ("kafka_2.13-4.1.1.jar", "4.1.1"),
        ("kafka_2.13-6.2.0-ccs.jar", None),
        ("kafka_2.13-7.6.1-ce.jar", None),
    ],
)
def test_the_version_is_that_of_the_jars(cache: Path, jar: str, version: str | None) -> None:
    """Confluent's 7.6.1 taken for Apache Kafka's would be run with KRaft."""
    here(cache, jar)
    name = f"kafka:image:confluentinc/cp-kafka@{DIGEST}"
    if version is None:
        with pytest.raises(ValueError, match=r"too old|0 jars in"):
            parse(name)
    else:
        found = parse(name).release
        assert found is not None
        assert found.version == version


def test_other_names_are_left_as_they_are() -> None:
    for name in ("bundled", "external", "kafka:4.1.1", "kafka:/nowhere", "kafka:none"):
        assert pinned(name) == name
