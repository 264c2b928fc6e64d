"""A program under test that writes in transactions, and needs no cluster:
``python tiny_transactional_program.py MANNER``.

It acknowledges what it is given and answers what it is asked; each manner is a way of doing
something else. Written with nothing of ours but the lines, as a user's own would be.
"""

import itertools
import sys
from collections.abc import Mapping

MANNER = sys.argv[1]
EVERY = 3
"""Which commits its manner is about."""


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


COMMITTED_BY: Mapping[str, str] = {
    "timed-out": "undone retriable TimeoutException",
    "abortable": "undone abortable KafkaException",
    "fenced": "undone fatal ProducerFencedException",
    "babbles": "done\ndone",
    "flushes": "flushed",
    "strange": "acked 999999 0",
    "fatal": "fatal the library has failed for good",
}


def answer(verb: str, asked: int) -> str:
    """Return the program's answer to a call; ``asked`` is the number of the call."""
    if verb == "commit" and asked % EVERY == 0:
        if MANNER == "quits":
            sys.exit(7)
        return COMMITTED_BY.get(MANNER, "done")
    if verb == "init" and MANNER == "never-begins":
        return "undone fatal TransactionalIdAuthorizationException"
    return "done"


def main() -> None:
    asked = {verb: itertools.count(1) for verb in ("init", "begin", "commit", "abort")}
    offset = itertools.count()
    ready = "ready"
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "open":
            say(ready)
        elif verb in ("send", "keyed", "tombstone"):
            say(f"acked {words[0]} {next(offset)}")
        elif verb in asked:
            say(answer(verb, next(asked[verb])))
        if line == "protocol 2\n" and MANNER != "unaware":
            ready = "ready 2"
        if verb not in asked and verb not in ("open", "send"):
            sys.stderr.write(f"told: {line}")
            sys.stderr.flush()


main()
