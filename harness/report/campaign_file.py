"""The copy of a campaign in its results. It is only displayed, because the verdict rests on the
manifest."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ackproof.config import yaml_document
from ackproof.harness.directory import CAMPAIGN_FILE
from ackproof.history import manifest
from ackproof.history.errors import HistoryError
from ackproof.history.storage import AnyPath


def read(directory: AnyPath) -> Mapping[str, Any]:
    """Return the resolved campaign. If it cannot be read, return the name of its directory."""
    found = _content(directory)
    nameless = {"name": directory.name, "seed": None}
    return nameless if isinstance(found, str) else {**nameless, **found}


def digest(directory: AnyPath) -> str | None:
    """Return the SHA-256 of the resolved campaign without its seed and its system, which differ
    from night to night. Return None if it cannot be read."""
    found = _content(directory)
    if isinstance(found, str):
        return None
    rest = {name: value for name, value in found.items() if name != "seed"}
    if isinstance(cluster := rest.get("cluster"), Mapping):
        rest["cluster"] = {name: value for name, value in cluster.items() if name != "system"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def findings(directory: AnyPath) -> tuple[str, ...]:
    """Return the problems of the copy, one sentence each."""
    found = _content(directory)
    if isinstance(found, str):
        shown = "the campaign's settings and the command that repeats it cannot be shown"
        return (f"{CAMPAIGN_FILE} {found}: {shown}",)
    try:
        planned = manifest.read(directory)
    except HistoryError:
        return ()
    copied = found.get("name"), found.get("seed")
    if copied == (planned.campaign, planned.seed):
        return ()
    return (
        (
            f"{CAMPAIGN_FILE} belongs to the campaign {copied[0]} with seed {copied[1]}, but "
            f"{manifest.FILE} to {planned.campaign} with seed {planned.seed}: the report may show "
            "the settings of another campaign"
        ),
    )


def _content(directory: AnyPath) -> Mapping[str, Any] | str:
    """Return the content of the copy, or its problem."""
    try:
        text = (directory / CAMPAIGN_FILE).read_text(encoding="utf-8")
        content = yaml_document.read(text).content
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except ValueError as error:
        return f"is not YAML: {error}"
    if content is None:
        return "is empty"
    return content if isinstance(content, dict) else "is not a campaign"
