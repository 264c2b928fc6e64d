"""The lines of logs that speak of a root cause, or of a client or group at a time.

Those of a root cause are the first line of each involved broker that names the partition and the
leader epoch of the records, or that of the next leader. The bundled broker and Apache Kafka both
write such lines.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ackproof.checkers.verdict import Cause
from ackproof.harness.report.about import moment
from ackproof.history.storage import AnyPath

CAUSES_MAX = 20
"""The most causes whose lines are looked for."""

_FRAGMENT_LETTERS = 80
_TIME = re.compile(r"\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[,.](\d{3})")
"""The time at the start of a line, as the bundled broker, its clients and Apache Kafka write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a server's log.

    Attributes:
        server: The server or client, as ``broker-1``.
        path: The path of the log, relative to the results.
        number: The number of the line, from 1.
        text: The line.
    """

    server: str
    path: str
    number: int
    text: str

    @property
    def link(self) -> str:
        """Return the relative link to the line. A browser that knows text fragments scrolls to it;
        others open the log."""
        fragment = quote(self.text[:_FRAGMENT_LETTERS], safe="").replace("-", "%2D")
        return f"{quote(self.path)}#:~:text={fragment}"


def log_lines(directory: AnyPath, causes: Iterable[Cause]) -> Mapping[Cause, Sequence[LogLine]]:
    """Return the lines about each cause, at most one of each involved broker. There are none if the
    logs are not beside the report or cannot be read."""
    if not isinstance(directory, Path):
        return {}
    found: dict[Cause, list[LogLine]] = {}
    for cause in list(causes)[:CAUSES_MAX]:
        for broker in dict.fromkeys((*cause.leaders, cause.next_leader)):
            logs = directory / "runs" / str(cause.run) / "logs" / f"broker-{broker}"
            files = sorted(logs.glob("*.log")) if broker is not None else []
            line = next((one for file in files for one in _lines(directory, file, cause)), None)
            if line is not None:
                found.setdefault(cause, []).append(line)
    return found


def _lines(directory: Path, file: Path, cause: Cause) -> Iterator[LogLine]:
    """Yield the lines of a log that speak of a cause."""
    epochs = [epoch for epoch in (cause.next_epoch, *cause.epochs) if epoch is not None]
    if not epochs:
        return
    place = f"{cause.topic}-{cause.partition}"
    # The bundled broker writes `"leader_epoch": 3`, and Kafka `leader epoch 3`.
    pattern = re.compile(
        rf"(?<![\w.-]){re.escape(place)}(?![\w-]).*leader.?epoch\W{{1,3}}{epochs[0]}\b",
        re.IGNORECASE,
    )
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for number, text in enumerate(lines, 1):
                if place in text and pattern.search(text):
                    yield LogLine(
                        server=file.parent.name,
                        path=str(file.relative_to(directory)),
                        number=number,
                        text=text.rstrip("\n"),
                    )
    except OSError:
        return


def lines_before(
    directory: AnyPath, run: int, names: Collection[str], time: int
) -> Sequence[LogLine]:
    """Return the last line before a time that names a client or group, of each server's log, and
    the last line before it of a client's own log.

    ``time`` is in nanoseconds of the Unix epoch. The logs are taken to be in UTC. There are no
    lines if the logs are not beside the report or cannot be read.
    """
    if not isinstance(directory, Path) or not names:
        return ()
    word = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, names))})(?![\w.-])")
    until = moment(time).rstrip("Z")
    found = []
    for file in sorted((directory / "runs" / str(run) / "logs").glob("*/*.log")):
        own = file.stem in names
        if own or file.parent.name.startswith("broker-"):
            line = _last(directory, file, None if own else word, until)
            found += [] if line is None else [line]
    return found


def _last(directory: Path, file: Path, word: re.Pattern[str] | None, until: str) -> LogLine | None:
    """Return the last line of a log up to a time that has this word, or any words."""
    last: tuple[int, str] | None = None
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for number, text in enumerate(lines, 1):
                if word is not None and not word.search(text):
                    continue
                began = _TIME.match(text)
                if began is None:
                    continue
                if "{}T{}.{}".format(*began.groups()) > until:
                    break
                last = number, text
    except OSError:
        return None
    if last is None:
        return None
    number, text = last
    return LogLine(
        server=file.stem,
        path=str(file.relative_to(directory)),
        number=number,
        text=text.rstrip("\n"),
    )
