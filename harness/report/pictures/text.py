"""A picture as monospaced text of at most 100 columns, without colours."""

import textwrap
from collections.abc import Iterable, Iterator

from ackproof.checkers.pictures.log_picture import (
    Content,
    LogPicture,
    LogRow,
    MarkRow,
    Slot,
)
from ackproof.harness.report.pictures import sentences
from ackproof.history.messages import printable

WIDTH = 100

_LABEL = 17
_CELL = 2
_LEFT_OUT = "~"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS_MAX = 9

_LEGEND = {
    Content.NOTHING: (".", "no record"),
    Content.UNKNOWN: ("?", "not observed"),
}
_EPOCH_UNKNOWN = "*"


def text(picture: LogPicture) -> str:
    """Return the picture, what happened, and the sentences that read it aloud."""
    parts = [*textwrap.wrap(sentences.title(picture), WIDTH), ""]
    if picture.columns:
        parts += [*_grid(picture), "", *_wrapped("legend", _legend(picture))]
    else:
        parts += ["The offsets of these records are not known, so their logs cannot be drawn."]
    events = (line for label, words in sentences.events(picture) for line in _wrapped(label, words))
    parts += ["", *events, "", *textwrap.wrap(sentences.aloud(picture), WIDTH)]
    return printable("\n".join(line.rstrip() for line in parts))


def _grid(picture: LogPicture) -> Iterator[str]:
    yield from _ruler(picture)
    for row in picture.marks:
        told = f"not observed: {row.unobserved}" if row.is_unobserved else ""
        yield _line(row, told or _cells(row.marks, picture))
    marks = epoch_marks(picture)
    for log in picture.logs:
        if log.unobserved:
            yield _line(log, f"not observed: {log.unobserved}"[: WIDTH - _LABEL])
        else:
            yield _line(log, _cells((_symbol(slot, marks) for slot in log.slots), picture))


def _line(row: LogRow | MarkRow, content: str) -> str:
    label = sentences.label(row)
    if len(label) >= _LABEL:
        label = f"{label[: _LABEL - 3]}.."
    return f"{label:<{_LABEL}}{content}"


def _cells(symbols: Iterable[str], picture: LogPicture) -> str:
    return "".join(
        f"{_LEFT_OUT if column.is_elided else symbol:<{_CELL}}"
        for column, symbol in zip(picture.columns, symbols, strict=True)
    )


def _ruler(picture: LogPicture) -> Iterator[str]:
    """Yield the offsets above their columns, and a tick for each."""
    numbers, ticks = [" "] * (WIDTH - _LABEL), [" "] * (WIDTH - _LABEL)
    for place, words in sentences.ruler(picture):
        start = min(place * _CELL, len(numbers) - len(words))
        around = numbers[max(start - 1, 0) : start + len(words) + 1]
        if not any(map(str.strip, around)):
            numbers[start : start + len(words)] = words
            ticks[place * _CELL] = "|"
    yield f"{'offset':<{_LABEL}}{''.join(numbers)}"
    yield f"{'':<{_LABEL}}{''.join(ticks)}"


def epoch_marks(picture: LogPicture) -> dict[int, str]:
    """Return one character for each leader epoch: its number if all have one digit, otherwise a
    letter."""
    if all(epoch <= _DIGITS_MAX for epoch in picture.epochs):
        return {epoch: str(epoch) for epoch in picture.epochs}
    return {epoch: _LETTERS[number % len(_LETTERS)] for number, epoch in enumerate(picture.epochs)}


def _symbol(slot: Slot | None, marks: dict[int, str]) -> str:
    if slot is None:
        return _LEFT_OUT
    if slot.content is not Content.RECORD:
        return _LEGEND[slot.content][0]
    return _EPOCH_UNKNOWN if slot.epoch is None else marks[slot.epoch]


def _legend(picture: LogPicture) -> str:
    slots = [slot for row in picture.logs for slot in row.slots if slot]
    parts = {mark: f"record of epoch {epoch}" for epoch, mark in epoch_marks(picture).items()}
    if any(slot.content is Content.RECORD and slot.epoch is None for slot in slots):
        parts[_EPOCH_UNKNOWN] = "a record, epoch not observed"
    for content, (mark, words) in _LEGEND.items():
        if any(slot.content is content for slot in slots):
            parts[mark] = words
    parts |= dict(sentences.meanings(picture))
    elided = [column for column in picture.columns if column.is_elided]
    if elided:
        left_out = sum(column.last - column.first + 1 for column in elided)
        parts[_LEFT_OUT] = f"{left_out:,} offsets left out"
    return "; ".join(f"{mark} = {words}" for mark, words in parts.items())


def _wrapped(label: str, words: str) -> list[str]:
    return textwrap.wrap(
        words, WIDTH, initial_indent=f"{label:<{_LABEL}}", subsequent_indent=" " * _LABEL
    )
