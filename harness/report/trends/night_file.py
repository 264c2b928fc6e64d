"""The history file of ``ackproof history``: one night a line, as JSON, in the order of addition.

A line that is damaged, or that a later version wrote, is kept as it is and takes no part in any
trend. Each of them is named with its number, so that a missing night is noticed.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ackproof.harness.directory import DamagedResults, ResultsDirectoryError, existing
from ackproof.harness.report import campaign_file, verdict
from ackproof.harness.report.trends.night import Night, night_of
from ackproof.history.messages import in_words, printable
from ackproof.history.storage import whole

_VERSION: int = Night.model_fields["history_version"].default


class NightFileError(ValueError):
    """A path that is not a history file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightLine:
    """One line of the file.

    Attributes:
        number: Its number, from 1.
        raw: Its bytes, without the end of the line.
        night: The night; None if it cannot be read, for the reason ``trouble``.
        damaged: Whether no version of Ackproof can have written it.
    """

    number: int
    raw: bytes
    night: Night | None = None
    trouble: str = ""
    damaged: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Return the night's key. The key of an unreadable line is its own."""
        return (self.number,) if self.night is None else self.night.key


def night(directory: Path) -> Night:
    """Return the night of a results directory. Raises ResultsDirectoryError if the directory has no
    results, was never checked, or was changed after the check."""
    found = existing(directory)
    try:
        document = verdict.read_document(found / verdict.FILE)
    except FileNotFoundError:
        hint = f"it was never checked; run ackproof check {directory}"
        raise ResultsDirectoryError(f"{directory} has no verdict: {hint}") from None
    try:
        return night_of(document, campaign_file.digest(found))
    except ValueError as error:
        raise DamagedResults(found, [f"{verdict.FILE}: {in_words(error)}"]) from None


def read(file: Path) -> tuple[NightLine, ...]:
    """Return the lines of a file, the last of equal nights. Raises NotHistory if the path is not a
    file or no line is one of a history, FileNotFoundError, OSError."""
    if file.exists() and not file.is_file():
        raise NightFileError(f"{file} is not a file")
    raw = file.read_bytes().split(b"\n")
    lines = [_line(number, one) for number, one in enumerate(raw, 1) if one.strip()]
    if lines and all(line.damaged for line in lines):
        first = lines[0]
        reason = f"line {first.number}: {first.trouble}"
        raise NightFileError(f"{file} is not a history file and was not changed: {reason}")
    return tuple({line.key: line for line in lines}.values())


def nights(lines: Sequence[NightLine]) -> list[Night]:
    """Return the nights of a file, the oldest first. A night without a run has no time. It stays
    behind all nights that precede it in the file."""
    latest = 0.0
    times = []
    found = [line.night for line in lines if line.night is not None]
    for one in found:
        began_s = one.began_s
        latest = max(latest, began_s or 0.0)
        times.append(latest if began_s is None else began_s)
    order = sorted(range(len(found)), key=times.__getitem__)
    return [found[at] for at in order]


def troubles(file: Path, lines: Sequence[NightLine]) -> Iterator[str]:
    """Yield the lines of a file that are not shown, one sentence each."""
    for line in lines:
        if line.trouble:
            yield f"{file}: line {line.number} is kept but not shown: {line.trouble}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """The effect of an addition. ``dropped`` is the number of old nights that were removed."""

    added: tuple[Night, ...]
    replaced: tuple[Night, ...]
    known: tuple[Night, ...]
    dropped: int
    lines: tuple[NightLine, ...]


def add(file: Path, new: Sequence[Night], keep: int | None = None) -> Addition:
    """Add nights to a file, which is created if it does not exist, and keep the newest ``keep``
    nights of each campaign. A night that is already there stays as it is, unless its results were
    checked again. Raises NotHistory, OSError."""
    place = file.resolve()  # a link stays a link
    place.parent.mkdir(parents=True, exist_ok=True)
    with _alone(place.parent):
        before = read(place) if place.exists() else ()
        there = {line.key: line for line in before}
        lines = dict(there)
        for one in new:
            known = lines.get(one.key)
            if known is None or known.night != one:
                lines[one.key] = NightLine(number=len(lines) + 1, raw=_raw(one), night=one)
        newest = _newest(tuple(lines.values()), keep)
        kept = tuple(replace(line, number=number) for number, line in enumerate(newest, 1))
        text = b"".join(line.raw + b"\n" for line in kept)
        if not place.exists() or text != place.read_bytes():
            _write(place, text)
    last = {one.key: one for one in new}
    changed = [one for key, one in last.items() if lines[key] is not there.get(key)]
    return Addition(
        added=tuple(one for one in changed if one.key not in there),
        replaced=tuple(one for one in changed if one.key in there),
        known=tuple(one for one in last.values() if one not in changed),
        dropped=len(lines) - len(kept),
        lines=kept,
    )


def _line(number: int, raw: bytes) -> NightLine:
    try:
        content = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
        version = content.get("history_version") if isinstance(content, dict) else None
        if isinstance(version, int) and version > _VERSION:
            later = (
                f"its version is {version}, but this Ackproof supports versions up to {_VERSION}"
            )
            return NightLine(number=number, raw=raw, trouble=later)
        found = Night.model_validate(content)
    except RecursionError:
        return NightLine(number=number, raw=raw, trouble="it is nested too deeply", damaged=True)
    except json.JSONDecodeError as error:
        trouble = f"it is not valid JSON at column {error.colno}"
        return NightLine(number=number, raw=raw, trouble=trouble, damaged=True)
    except ValueError as error:
        return NightLine(number=number, raw=raw, trouble=printable(in_words(error)), damaged=True)
    return NightLine(number=number, raw=raw, night=found)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _raw(one: Night) -> bytes:
    return json.dumps(one.model_dump(mode="json"), separators=(",", ":")).encode()


def _newest(lines: tuple[NightLine, ...], keep: int | None) -> tuple[NightLine, ...]:
    """Return the lines without the nights that are too old: all but the newest ``keep`` of each
    campaign."""
    if keep is None:
        return lines
    campaigns: dict[str | None, list[Night]] = {}
    for one in nights(lines):
        campaigns.setdefault(one.campaign, []).append(one)
    old = {one.key for of in campaigns.values() for one in of[:-keep]}
    return tuple(line for line in lines if line.key not in old)


def _write(file: Path, content: bytes) -> None:
    with whole(file) as written:
        written.write(content)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Wait until no other ``add`` works in this directory."""
    there = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(there, fcntl.LOCK_EX)
        yield
    finally:
        os.close(there)
