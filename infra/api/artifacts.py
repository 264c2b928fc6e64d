"""Artifacts: the files that nodes need for one campaign if they do not see those of this machine.

They are the jars of the software under test and the programs of clients.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ITSELF = ""
"""The name of an artifact's only file if the artifact is that file."""

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_MAX = 60

_ELF_MACHINES: Mapping[int, str] = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""The names of ``uname -m`` by ``e_machine``, for little-endian machines.

The source is Linux, include/uapi/linux/elf-em.h.
"""
_ELF = b"\x7fELF"
_LITTLE_ENDIAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A program, which is one file, or all jars of one directory, while they are unchanged.

    Attributes:
        name: A name that depends on the content: the same name means the same files. It is also the
            name of the file or directory.
        title: The name for people, such as ``Apache Kafka 3.9.1``.
        path: The place on this machine.
        sums: SHA-256 in hex by the name of each file; for a program by :data:`ITSELF`.
    """

    name: str
    title: str
    path: Path
    sums: Mapping[str, str] = field(compare=False)

    @property
    def is_program(self) -> bool:
        """Return whether it is one executable file."""
        return ITSELF in self.sums


def program(path: Path, name: str, title: str) -> Artifact:
    """Return the program at ``path`` as an artifact. Raises OSError if it cannot be read.

    On nodes it has the given ``name``, as nearly as possible, followed by a hash of its content.
    """
    digest = sha256(path)
    called = _NOT_IN_A_NAME.sub("-", name)[:_NAME_MAX]
    return Artifact(name=f"{called}-{digest[:16]}", title=title, path=path, sums={ITSELF: digest})


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def machine_of(path: Path) -> str | None:
    """Return the machine that a program was compiled for, in the terms of ``uname -m``.

    Return None if the file does not say (as a script), or names an unknown machine.
    """
    with path.open("rb") as file:
        header = file.read(20)
    if not header.startswith(_ELF) or len(header) < 20 or header[5] != _LITTLE_ENDIAN:
        return None
    return _ELF_MACHINES.get(int.from_bytes(header[18:20], "little"))
