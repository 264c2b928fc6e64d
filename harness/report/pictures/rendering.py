"""A picture as the geometry of an SVG, which the template ``log_picture.html`` writes, and as
monospaced text of at most 100 columns, without colours.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ackproof.checkers.pictures.log_picture import (
    GIVEN,
    GIVEN_ANOTHER,
    NOT_OBSERVED,
    Content,
    LogPicture,
    LogRow,
    MarkRow,
    Sign,
    Slot,
)
from ackproof.harness.report.pictures import sentences
from ackproof.history.messages import printable

_LABEL_MAX, _CELL, _ROW, _GAP, _HEAD = 150, 20, 24, 4, 34
_CHARACTER = 6.6
"""The width of a character of 11 pixels, at most."""

_COLOURS = 6
"""The number of colours of leader epochs. Further epochs repeat them, with their number as text."""

_GLYPHS = {
    Sign.ACKED: "\N{BULLET}",
    Sign.LOST: "\N{MULTIPLICATION SIGN}",
    Sign.READ_LOST: "\N{MULTIPLICATION SIGN}",
    Sign.PASSED_OVER: "\N{EN DASH}",
    Sign.WATERMARK: "\N{BLACK UP-POINTING TRIANGLE}",
}
"""The character that stands for each mark. Other marks are shown as they are."""

_GLYPHS_GIVEN = {GIVEN: "\N{BULLET}", GIVEN_ANOTHER: "\N{WHITE CIRCLE}"}

_CLASSES = {Sign.LOST: "bad", Sign.READ_LOST: "bad", Sign.DIFFERS: "bad", Sign.PASSED_OVER: "bad"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Neighbouring slots of a log with the same content.

    Attributes:
        x, width: Its place.
        kind: The CSS class: ``e0`` to ``e5`` for epochs, ``record`` for a record of an unknown
            epoch, ``nothing`` or ``unknown``.
        lost: Whether these are the lost records.
        text: Its text, as long as fits.
    """

    x: int
    width: int
    kind: str
    lost: bool
    text: str

    @property
    def middle(self) -> float:
        """The middle of the block."""
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text at a place. ``kind`` is the CSS class."""

    x: float
    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the picture.

    Attributes:
        y: Its top.
        label: Its label, and the ``name`` in full.
        texts: Marks, or the reason why nothing is known.
        blocks: The records of a log.
    """

    y: int
    label: str
    name: str
    texts: Sequence[Text] = ()
    blocks: Sequence[Block] = ()

    @property
    def base(self) -> int:
        """The base line of its text."""
        return self.y + 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A picture for the template.

    Attributes:
        title, aloud: The title, and the sentences that read the picture.
        width, height: The size in pixels.
        offsets: The offsets above their columns.
        elided: The number of offsets that are left out, above each such column.
        edges: The left edge of the first and the right edge of the last offset of the subject.
        lines: The rows.
        events: A label and a line for the marks and for each event.
        row: The number of the row in ``anomalies.parquet``.
    """

    title: str
    aloud: str
    width: int
    height: int
    offsets: Sequence[Text]
    elided: Sequence[Text]
    edges: Sequence[int]
    lines: Sequence[Line]
    events: Sequence[tuple[str, str]]
    row: int

    @property
    def row_height(self) -> int:
        """The height of a block."""
        return _ROW - _GAP


def drawing(picture: LogPicture) -> Drawing:
    """Return the geometry of a picture."""
    rows: list[MarkRow | LogRow] = [*picture.marks, *picture.logs]
    longest = max((len(sentences.label(row)) for row in rows), default=0)
    grid = _Grid(min(round((longest + 2) * _CHARACTER), _LABEL_MAX), picture)
    return Drawing(
        title=sentences.title(picture),
        aloud=sentences.aloud(picture),
        width=grid.x(len(picture.columns)) + _CELL,
        height=_HEAD + len(rows) * _ROW + _GAP,
        offsets=list(grid.offsets()),
        elided=list(grid.elided()),
        edges=list(grid.edges()),
        lines=[grid.line(row, _HEAD + number * _ROW) for number, row in enumerate(rows)],
        events=[*_meanings(picture), *sentences.events(picture)],
        row=picture.subject.row,
    )


def _meanings(picture: LogPicture) -> Iterator[tuple[str, str]]:
    """Yield the meanings of marks as one line."""
    meanings = sentences.meanings(picture)
    words = [f"{_GLYPHS_GIVEN.get(mark, mark)} {meaning}" for mark, meaning in meanings]
    if words:
        yield "marks", "; ".join(words)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The places of the columns of a picture, to the right of labels of this width."""

    label_width: int
    picture: LogPicture

    def x(self, place: int) -> int:
        """Return the left edge of a column."""
        return self.label_width + place * _CELL

    def line(self, row: MarkRow | LogRow, y: int) -> Line:
        """Return a row."""
        name = sentences.label(row)
        longest = int(self.label_width / _CHARACTER)
        label = name if len(name) <= longest else f"{name[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"
        is_unknown = row.is_unobserved if isinstance(row, MarkRow) else row.unobserved
        if is_unknown:
            told = Text(x=self.x(0), text=f"not observed: {row.unobserved}", kind="unobserved")
            return Line(y=y, label=label, name=name, texts=[told])
        if isinstance(row, MarkRow):
            return Line(y=y, label=label, name=name, texts=list(self._marks(row)))
        return Line(y=y, label=label, name=name, blocks=list(self._blocks(row.slots)))

    def _marks(self, row: MarkRow) -> Iterator[Text]:
        kind = f"mark {_CLASSES.get(row.sign, '')}".strip()
        for place, mark in enumerate(row.marks):
            if mark.strip():
                glyph = _GLYPHS_GIVEN.get(mark) or _GLYPHS.get(row.sign, mark)
                glyph = mark if mark == NOT_OBSERVED else glyph
                yield Text(x=self.x(place) + _CELL / 2, text=glyph, kind=kind)

    def _blocks(self, slots: Sequence[Slot | None]) -> Iterator[Block]:
        place = 0
        for slot, same in groupby(slots):
            many = len(list(same))
            if slot is not None:
                width = many * _CELL
                yield Block(
                    x=self.x(place),
                    width=width - 1,
                    kind=_kind(slot, self.picture.epochs),
                    lost=slot.lost,
                    text=_text(slot, width),
                )
            place += many

    def offsets(self) -> Iterator[Text]:
        """Yield the offsets above their columns that have room, the most important first."""
        taken: list[tuple[float, float]] = []
        for place, words in sentences.ruler(self.picture):
            half = len(words) * _CHARACTER / 2
            most = self.x(len(self.picture.columns)) + _CELL - half
            x = min(self.x(place) + _CELL / 2, most)
            if all(x + half < start or end < x - half for start, end in taken):
                taken.append((x - half - _CHARACTER, x + half + _CHARACTER))
                yield Text(x=x, text=words)

    def elided(self) -> Iterator[Text]:
        """Yield the number of offsets that are left out, above each column that stands for them."""
        for place, column in enumerate(self.picture.columns):
            if column.is_elided:
                words = f"{column.last - column.first + 1:,} left out"
                yield Text(x=self.x(place) + _CELL / 2, text=words)

    def edges(self) -> Iterator[int]:
        """Yield the left edge of the first and the right edge of the last offset of the subject."""
        span = None if self.picture.subject.copies else self.picture.subject.span
        for place, column in enumerate(self.picture.columns):
            if span is not None and column.first == span[0]:
                yield self.x(place) - 1
            if span is not None and column.last == span[1]:
                yield self.x(place + 1) - 1


def _kind(slot: Slot, epochs: Sequence[int]) -> str:
    if slot.content is not Content.RECORD or slot.epoch is None:
        return str(slot.content)
    return f"e{epochs.index(slot.epoch) % _COLOURS}"


def _text(slot: Slot, width: int) -> str:
    """Return the longest text of a block that fits."""
    if slot.content is Content.NOTHING:
        texts = ["no record", "none", "\N{EMPTY SET}"]
    elif slot.content is Content.UNKNOWN:
        texts = ["not observed", "?"]
    elif slot.epoch is None:
        texts = ["a record, epoch not observed", "epoch not observed", "epoch ?", "?"]
    else:
        lost = [f"epoch {slot.epoch}, lost", f"{slot.epoch}, lost"] if slot.lost else []
        texts = [*lost, f"epoch {slot.epoch}", f"{slot.epoch}"]
    return next((text for text in texts if len(text) * _CHARACTER < width - 2), "")


# --- as text --------------------------------------------------------------------------------------

WIDTH = 100

_TEXT_LABEL = 17
_TEXT_CELL = 2
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
            yield _line(log, f"not observed: {log.unobserved}"[: WIDTH - _TEXT_LABEL])
        else:
            yield _line(log, _cells((_symbol(slot, marks) for slot in log.slots), picture))


def _line(row: LogRow | MarkRow, content: str) -> str:
    label = sentences.label(row)
    if len(label) >= _TEXT_LABEL:
        label = f"{label[: _TEXT_LABEL - 3]}.."
    return f"{label:<{_TEXT_LABEL}}{content}"


def _cells(symbols: Iterable[str], picture: LogPicture) -> str:
    return "".join(
        f"{_LEFT_OUT if column.is_elided else symbol:<{_TEXT_CELL}}"
        for column, symbol in zip(picture.columns, symbols, strict=True)
    )


def _ruler(picture: LogPicture) -> Iterator[str]:
    """Yield the offsets above their columns, and a tick for each."""
    numbers, ticks = [" "] * (WIDTH - _TEXT_LABEL), [" "] * (WIDTH - _TEXT_LABEL)
    for place, words in sentences.ruler(picture):
        start = min(place * _TEXT_CELL, len(numbers) - len(words))
        around = numbers[max(start - 1, 0) : start + len(words) + 1]
        if not any(map(str.strip, around)):
            numbers[start : start + len(words)] = words
            ticks[place * _TEXT_CELL] = "|"
    yield f"{'offset':<{_TEXT_LABEL}}{''.join(numbers)}"
    yield f"{'':<{_TEXT_LABEL}}{''.join(ticks)}"


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
        words, WIDTH, initial_indent=f"{label:<{_TEXT_LABEL}}", subsequent_indent=" " * _TEXT_LABEL
    )
