"""The campaigns that are installed with Ackproof, by name."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from ackproof.config.suggestions import unknown


class UnknownCampaign(ValueError):
    """No campaign of that name is installed; the text says which name may have been meant."""


@cache
def shipped() -> Mapping[str, Path]:
    """Return the file of each installed campaign, by its name."""
    directory = Path(str(files("ackproof").joinpath("campaigns")))
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def campaign_file(given: Path) -> Path:
    """Return the file that is meant: ``given``, or the installed campaign of that name.

    A bare word such as ``quick`` is a name, unless there is a file of that name. Everything else is
    a path, whether the file exists or not. Raises UnknownCampaign.
    """
    if given.suffix or given != Path(given.name) or given.is_file():
        return given
    known = shipped()
    if given.name not in known:
        hint = unknown("campaign", given.name, known)
        raise UnknownCampaign(f"{hint} (no file has that name; `ackproof campaigns` lists them)")
    return known[given.name]


def summary(file: Path) -> str:
    """Return what the comment at the top of a campaign file says, in one line."""
    words = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# yaml-language-server"):
            words.append(line.removeprefix("#").strip())
    return " ".join(words)
