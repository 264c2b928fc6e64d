"""Unified diffs, applied to files that may have moved on since.

Line numbers are not looked at: what a hunk takes away, with the lines around it, must stand in its
file exactly once. So a change elsewhere in the file does no harm, and one of the very lines is
noticed; a program like ``patch`` would put a hunk elsewhere that fits nearly as well.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


class StalePatch(ValueError):
    """A patch that does not fit the sources any more."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """``before`` gives way to ``after`` in ``file``, a path below the root, in POSIX form."""

    file: str
    before: str
    after: str


def parse(diff: str) -> tuple[Hunk, ...]:
    """The hunks of a unified diff; what stands before its first file is passed over.

    ValueError for one that has none, or makes or removes files.
    """
    hunks = tuple(_hunks(diff.splitlines(keepends=True)))
    if not hunks:
        raise ValueError("no hunk in it")
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
    """Of ``+++ b/broker/types.py``."""
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


def changed(text: str, hunk: Hunk) -> str:
    """``text`` with the hunk applied; StalePatch unless it fits in exactly one place."""
    times = text.count(hunk.before)
    if times != 1:
        raise StalePatch(f"{hunk.file} has these lines {times} times:\n{hunk.before}")
    return text.replace(hunk.before, hunk.after)
