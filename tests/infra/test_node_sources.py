"""Completeness of the sources for nodes: each imported module is included."""

import ast
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ackproof.infra.backends.docker import image
from ackproof.infra.backends.ssh import bundle


def modules_of(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return the modules among files, by their dotted names."""
    return {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): content
        for name, content in files.items()
        if name.endswith(".py")
    }


def imported_by(source: bytes) -> Iterator[str]:
    """Yield every module of ours that a source imports."""
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from (name for name in names if name.partition(".")[0] == "ackproof")


def in_archive(package: bundle.Package) -> Mapping[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(package.content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(lambda: in_archive(bundle.sources()), id="sources-on-hosts"),
        pytest.param(lambda: in_archive(bundle.agent()), id="agent-on-hosts"),
        pytest.param(lambda: dict(image.sources(image.PROJECT)), id="containers"),
    ],
)
def test_nodes_have_every_module_that_is_imported_there(files) -> None:
    modules = modules_of(files())
    assert modules
    missing = {
        f"{name} imports {wanted}"
        for name, source in modules.items()
        for wanted in imported_by(source)
        if wanted not in modules
    }
    assert missing == set()


def test_image_of_a_node_copies_every_room_that_is_sent_to_the_engine() -> None:
    dockerfile = Path(image.PROJECT, "infra/backends/docker/Dockerfile").read_text(encoding="utf-8")
    copied = set(re.findall(r"^COPY (ackproof/\S+) /opt/ackproof/src/", dockerfile, re.MULTILINE))
    assert copied == {"ackproof/__init__.py", *image._ROOMS}
