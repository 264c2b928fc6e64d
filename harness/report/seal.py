"""The seal of ``verdict.json``: digests by which a reader knows that it is as the check wrote it.

``sha256`` is that of all else in the document. ``files`` has that of each file beside it which says
the same at greater length, or which the document rests on. Neither keeps out somebody who makes a
new seal: they tell an edited file, a half of one, and the file of another check.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ackproof.harness.directory import CAMPAIGN_FILE
from ackproof.harness.report.losses import ANOMALIES_FILE, AUTOPSIES_FILE
from ackproof.history import manifest
from ackproof.history.messages import printable
from ackproof.history.storage import AnyPath, digest, matching

SHA256 = "sha256"
_BESIDE = (ANOMALIES_FILE, AUTOPSIES_FILE, manifest.FILE, CAMPAIGN_FILE)
_FAULTS = "runs/*/history/faults.*"


def sealed(directory: AnyPath, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the digests of the files of its results, and with its own."""
    content = {**document, "files": _digests(directory)}
    return {**content, SHA256: _own(content)}


def is_sealed(content: Mapping[str, Any]) -> bool:
    """Return whether a document has a seal: one of a former version has none."""
    return SHA256 in content


def broken(directory: AnyPath, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was changed since a document was sealed: the document or a file of its results.
    Files that are not there are not missed."""
    if is_sealed(content) and content[SHA256] != _own(content):
        yield "verdict.json was changed after the check had written it"
    for name, known in _files(content).items():
        path = directory / name
        with suppress(OSError):
            if path.is_file() and digest(path) != known:
                yield f"{name} was changed after the check"


def missing(directory: AnyPath, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files of a sealed document that are not there any more."""
    for name in _files(content):
        if not (directory / name).is_file():
            yield f"{name} is missing"


def _files(content: Mapping[str, Any]) -> Mapping[str, Any]:
    files = content.get("files")
    return files if isinstance(files, Mapping) else {}


def _digests(directory: AnyPath) -> dict[str, str]:
    depth = len(directory.parts)
    faults = ["/".join(path.parts[depth:]) for path in matching(directory, _FAULTS)]
    found = {}
    for name in (*_BESIDE, *faults):
        with suppress(OSError):  # what cannot be read now is none that could be relied on later
            if printable(name) == name and (directory / name).is_file():
                found[name] = digest(directory / name)
    return found


def _own(content: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != SHA256}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
