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


def main() -> None:
    offsets: dict[str, itertools.count[int]] = {}
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "open" and MANNER == "never-ready":
            continue
        if verb == "open":
            say("ready")
        elif verb == "send":
            number, partition, _, *topic = words
            place = " ".join([*topic, partition])
            offset = next(offsets.setdefault(place, itertools.count()))
            if (said := outcome(int(number), offset)) is not None:
                say(said)
            if int(number) == AFTER:
                MISBEHAVES.get(MANNER, bool)()
        elif verb == "flush" and MANNER != "silent":
            say("flushed")
        else:
            sys.stderr.write(f"told: {line}")
    if MANNER == "stays":
        signal.pause()
    sys.exit(5 if MANNER == "sorry" else 0)


main()
