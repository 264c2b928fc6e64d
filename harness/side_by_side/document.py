"""The schema of ``matrix.json``: a matrix for scripts.

``docs/matrix.schema.json`` is generated from it (``python docs/generate.py``). Removing a name or
changing its meaning needs a new :data:`VERSION`; adding one does not.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ackproof.checkers.verdict import Verdict
from ackproof.harness.directory import ResultsDirectoryError
from ackproof.harness.report import document
from ackproof.harness.report.cell_document import CellDocument, DocumentPart
from ackproof.harness.report.document import FaultDocument
from ackproof.harness.side_by_side.members import MatrixSystem
from ackproof.history.messages import in_words
from ackproof.history.storage import write_text

FILE = "matrix.json"
VERSION = 1


class SystemDocument(DocumentPart):
    """The results of the campaign on a system."""

    system: str
    """The system, as a campaign names it."""
    results: str
    """The directory of its results, beside this file. It does not exist if the campaign was
    refused."""
    refused: tuple[str, ...] = ()
    """The reasons why the system refused the campaign; then nothing was run."""
    trouble: str | None = None
    """The reason why there is no verdict; null if there is one, or the campaign was refused."""
    verdict: Verdict | None = None
    """The campaign's verdict on this system; null without one."""
    duration_s: float | None = None
    """The duration as in `verdict.json`."""
    cells: tuple[CellDocument, ...] = ()
    """The cells as in `verdict.json`, with losses, duplicates, unavailability after each fault,
    latency and acks per second."""
    faults: tuple[FaultDocument, ...] = ()
    """The injected faults, as they happened there."""
    command: str | None = None
    """The command that repeats it."""


class MatrixDocument(DocumentPart):
    """A campaign on several systems."""

    version: int = 0
    """The version of this schema. Removing a name or changing its meaning makes a new version."""
    campaign: str
    """The campaign's name."""
    sha256: str
    """The SHA-256 of the campaign's file."""
    seed: int
    """The seed of the schedule, on every system."""
    systems: tuple[SystemDocument, ...]
    """The systems, in the order in which they were given."""


def made(campaign: str, file: Path, seed: int, members: Sequence[MatrixSystem]) -> MatrixDocument:
    """Return the document of a matrix. Raises OSError."""
    return MatrixDocument(
        version=VERSION,
        campaign=campaign,
        sha256=digest(file),
        seed=seed,
        systems=tuple(map(_system, members)),
    )


def digest(file: Path) -> str:
    """Return the digest of a campaign's file, by which a matrix recognizes results of the same
    campaign. Raises OSError."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def write(directory: Path, made: MatrixDocument) -> None:
    write_text(directory / FILE, made.model_dump_json(indent=2) + "\n")


def read(directory: Path) -> MatrixDocument | None:
    """Return the document in a directory, or None if there is none. Raises
    ResultsDirectoryError."""
    file = directory / FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        found = MatrixDocument.model_validate(content)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ResultsDirectoryError(f"{file}: {error.strerror or error}") from None
    except RecursionError:
        raise ResultsDirectoryError(f"{file}: it is nested too deeply") from None
    except ValueError as error:
        raise ResultsDirectoryError(f"{file} cannot be read: {in_words(error)}") from None
    if found.version > VERSION:
        reason = (
            f"its version is {found.version}, but this Ackproof supports versions up to {VERSION}"
        )
        raise ResultsDirectoryError(f"{file}: {reason}")
    return found


def as_text() -> str:
    """Return the schema as the text of a file."""
    schema = document.schema_of(MatrixDocument, "Ackproof matrix", VERSION)
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _system(member: MatrixSystem) -> SystemDocument:
    found = member.document
    known: dict[str, Any] = {}
    if found is not None:
        names = ("verdict", "duration_s", "cells", "faults", "command")
        known = {name: getattr(found, name) for name in names}
    return SystemDocument(
        system=member.system,
        results=member.place,
        refused=member.refused,
        trouble=member.trouble or None,
        **known,
    )
