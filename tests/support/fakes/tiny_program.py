"""A program under test that needs no cluster: ``python tiny_program.py MANNER``.

It acknowledges what it is given, by the offsets that a log would give, and each manner is a way of
doing something else. Written with nothing of ours but the lines, as a user's own would be.
"""

import itertools
import os
import signal
import sys
from collections.abc import Callable, Mapping

MANNER = sys.argv[1]
AFTER = 20
"""Records after which it does what its manner is."""


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def rude() -> None:
    sys.stdout.buffer.write(b"\xff\xfe what?\n")
    sys.stdout.flush()


def fatal() -> None:
    say("fatal the library has failed for good")
    signal.pause()


def deaf() -> None:
    os.close(1)
    signal.pause()


MISBEHAVES: Mapping[str, Callable[[], object]] = {
    "malformed": lambda: say("acked one 1"),
    "rude": rude,
    "twice": lambda: say("acked 0 0"),
    "strange": lambda: say("acked 999999 0"),
    "answers": lambda: say("undone fatal KafkaException"),
    "status": lambda: sys.exit(7),
    "quits": lambda: sys.exit(0),
    "signal": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "deaf": deaf,
    "fatal": fatal,
    "stuck": signal.pause,
}


def outcome(number: int, offset: int) -> str | None:
    match MANNER, number % 4:
        case "refuses", 1:
            return f"refused {number} TimeoutException"
        case "refuses", 2:
            return f"refused {number} IllegalStateException"
        case "refuses", 3:
            return f"failed {number} TimeoutException"
        case "silent" | "forgets", _ if number >= AFTER:
            return None
    return f"acked {number} {offset}"


def be_ready(version: str) -> None:
    if MANNER == "outdated" and version != "1":
        say(f"fatal no version {version} here")
    elif MANNER != "never-ready":
        say("ready" if version == "1" or MANNER == "unaware" else f"ready {version}")


class Records:
    """The records that it was given, and the offsets of each partition of each topic."""

    def __init__(self) -> None:
        self.offsets: dict[str, itertools.count[int]] = {}

    def take(self, number: str, partition: str, *topic: str) -> None:
        """Acknowledge a record. It chooses partition 0 for those whose partition it may choose."""
        chosen = partition == "-"
        place = " ".join([*topic, "0" if chosen else partition])
        offset = next(self.offsets.setdefault(place, itertools.count()))
        if (said := outcome(int(number), offset)) is not None:
            say(said + (" 0" if chosen and MANNER != "choosing" else ""))
        if int(number) == AFTER:
            MISBEHAVES.get(MANNER, bool)()


def main() -> None:
    records, version = Records(), "1"
    for line in sys.stdin:
        match line.split():
            case ["open"]:
                be_ready(version)
            case ["send", number, partition, _, *topic]:
                records.take(number, partition, *topic)
            case ["keyed" | "tombstone", number, partition, _, _, *topic]:
                sys.stderr.write(f"told: {line}")
                records.take(number, partition, *topic)
            case ["flush"] if MANNER != "silent":
                say("flushed")
            case words:
                sys.stderr.write(f"told: {line}")
                version = words[1] if words[0] == "protocol" else version
    if MANNER == "stays":
        signal.pause()
    sys.exit(5 if MANNER == "sorry" else 0)


main()
