"""Unified diffs, applied to files that may have changed since.

Line numbers are ignored: the lines that a hunk removes, with their context, must stand in the file
exactly once. So a change elsewhere in the file does no harm, and a change of these lines is
noticed. A program like ``patch`` would apply the hunk to similar lines elsewhere.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


class StalePatch(ValueError):
    """A patch that does not apply to the sources any more."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change: ``before`` is replaced by ``after`` in ``file``, a POSIX path below the root."""

    file: str
    before: str
    after: str


def parse(diff: str) -> tuple[Hunk, ...]:
    """Return the hunks of a unified diff. Text before the first file is skipped.

    Raises:
        ValueError: the diff has no hunk, or creates or removes a file.
    """
    hunks = tuple(_hunks(diff.splitlines(keepends=True)))
    if not hunks:
        raise ValueError("the diff has no hunk")
    return hunks


def _hunks(lines: Iterable[str]) -> Iterator[Hunk]:
    file: str | None = None
    body: list[str] = []
    for line in lines:
        if line.startswith(("--- ", "+++ ", "@@ ")):
            if file is not None and body:
                yield _hunk(file, body)
            body = []
            if line.startswith("+++ "):
                file = _path(line)
        elif file is not None:
            body.append(line)
    if file is not None and body:
        yield _hunk(file, body)


def _path(line: str) -> str:
    """Return the path of a line like ``+++ b/broker/types.py``."""
    path = line.removeprefix("+++ ").split("\t")[0].strip()
    side, _, rest = path.partition("/")
    if side != "b" or not rest or ".." in rest.split("/"):
        raise ValueError(f"{line.strip()!r} names no file to change")
    return rest


def _hunk(file: str, body: list[str]) -> Hunk:
    strange = [line for line in body if line[0] not in " +-"]
    if strange:
        raise ValueError(f"{strange[0].rstrip()!r} belongs to no hunk")
    before = "".join(line[1:] for line in body if line[0] in " -")
    after = "".join(line[1:] for line in body if line[0] in " +")
    return Hunk(file, before, after)


def apply(text: str, hunk: Hunk) -> str:
    """Return ``text`` with the hunk applied.

    Raises:
        StalePatch: the hunk does not apply in exactly one place.
    """
    times = text.count(hunk.before)
    if times != 1:
        raise StalePatch(f"{hunk.file} has these lines {times} times:\n{hunk.before}")
    return text.replace(hunk.before, hunk.after)
