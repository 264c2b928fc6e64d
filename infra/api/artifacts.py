"""What nodes are given, beside what they have for any campaign, where they do not see the files of
this machine: the jars of what is put to the test, and the programs of clients."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ITSELF = ""
"""The name of an artifact's only file, where the artifact is that file."""

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_MAX = 60

_ELF_MACHINES: Mapping[int, str] = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""``e_machine`` by ``uname -m`` (Linux, include/uapi/linux/elf-em.h); of little-endian machines."""
_ELF = b"\x7fELF"
_LITTLE_ENDIAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A program, which is one file, or every jar of one directory, as long as they are not changed.

    Attributes:
        name: After what it holds: the same name, the same files. Of a file or directory, too.
        title: In words, ``Apache Kafka 3.9.1``.
        path: On this machine.
        sums: SHA-256 in hex by the name of each file; of a program by :data:`ITSELF`.
    """

    name: str
    title: str
    path: Path
    sums: Mapping[str, str] = field(compare=False)

    @property
    def is_program(self) -> bool:
        """Whether it is a file, to be executed."""
        return ITSELF in self.sums


def program(path: Path, name: str, title: str) -> Artifact:
    """The program at ``path``. ``name``: what it is called on nodes, as nearly as can be, before a
    hash of its content. Raises OSError where it cannot be read."""
    digest = sha256(path)
    called = _NOT_IN_A_NAME.sub("-", name)[:_NAME_MAX]
    return Artifact(name=f"{called}-{digest[:16]}", title=title, path=path, sums={ITSELF: digest})


def sha256(path: Path) -> str:
    """Of a file's content, in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def machine_of(path: Path) -> str | None:
    """The machine that a program was compiled for, as ``uname -m`` calls it; None where it does not
    say, as a script, or says what we do not know."""
    with path.open("rb") as file:
        header = file.read(20)
    if not header.startswith(_ELF) or len(header) < 20 or header[5] != _LITTLE_ENDIAN:
        return None
    return _ELF_MACHINES.get(int.from_bytes(header[18:20], "little"))
