"""The schema of ``matrix.json``: a matrix for scripts.

``docs/matrix.schema.json`` is made of this (``python docs/generate.py``). A name that goes, or
comes to mean something else, is a new :data:`VERSION`; one that is new is not.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ackproof.checkers.verdict import Verdict
from ackproof.harness.directory import NotResults
from ackproof.harness.report import document
from ackproof.harness.report.cell_document import CellDocument, Part
from ackproof.harness.report.document import FaultDocument
from ackproof.harness.side_by_side.members import Member
from ackproof.history.messages import in_words
from ackproof.history.storage import write_text

FILE = "matrix.json"
VERSION = 1


class SystemDocument(Part):
    """What came of the campaign on a system."""

    system: str
    """As a campaign names it."""
    results: str
    """The directory of its results, beside this file; there is none where it was refused."""
    refused: tuple[str, ...] = ()
    """Why the campaign is none for this system; then nothing was run."""
    trouble: str | None = None
    """Why there is no verdict; null where there is one, or it was refused."""
    verdict: Verdict | None = None
    """Of the campaign on this system; null where there is none."""
    duration_s: float | None = None
    """As in `verdict.json`."""
    cells: tuple[CellDocument, ...] = ()
    """As in `verdict.json`: what was lost and duplicated, unavailability after each fault, latency,
    acks a second."""
    faults: tuple[FaultDocument, ...] = ()
    """What was broken, as it happened there."""
    command: str | None = None
    """What repeats it."""


class MatrixDocument(Part):
    """A campaign on several systems."""

    version: int = 0
    """Of this schema. A name that goes or comes to mean something else makes a new one."""
    campaign: str
    """The campaign's name."""
    sha256: str
    """Of the campaign's file."""
    seed: int
    """What the schedule was drawn from, on every system."""
    systems: tuple[SystemDocument, ...]
    """In the order in which they were asked for."""


def made(campaign: str, file: Path, seed: int, members: Sequence[Member]) -> MatrixDocument:
    """Raises OSError."""
    return MatrixDocument(
        version=VERSION,
        campaign=campaign,
        sha256=digest(file),
        seed=seed,
        systems=tuple(map(_system, members)),
    )


def digest(file: Path) -> str:
    """Of a campaign's file: by it a matrix knows whether results are of this campaign. Raises
    OSError."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def write(directory: Path, made: MatrixDocument) -> None:
    write_text(directory / FILE, made.model_dump_json(indent=2) + "\n")


def read(directory: Path) -> MatrixDocument | None:
    """What was written there; None where nothing was. Raises NotResults."""
    file = directory / FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        found = MatrixDocument.model_validate(content)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotResults(f"{file}: {error.strerror or error}") from None
    except RecursionError:
        raise NotResults(f"{file}: it is nested too deep") from None
    except ValueError as error:
        raise NotResults(f"{file} cannot be read: {in_words(error)}") from None
    if found.version > VERSION:
        told = f"its version is {found.version}, and this is Ackproof up to {VERSION}"
        raise NotResults(f"{file}: {told}")
    return found


def as_text() -> str:
    """The schema as a file."""
    schema = document.schema_of(MatrixDocument, "Ackproof matrix", VERSION)
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _system(member: Member) -> SystemDocument:
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
