"""A transformer as a program under test, without a cluster:
``python tiny_transformer.py MANNER VALUES COMMITTED``.

Its partition 0 has the values of the file VALUES, one a line, as base64. A poll returns three of
them. The group's offset is in the file COMMITTED, so that the next session reads on from it. Each
manner is a way of doing something else once half is read. Written with nothing of ours but the
lines, as a user's own would be.
"""

import itertools
import sys
from pathlib import Path

MANNER = sys.argv[1]
VALUES = Path(sys.argv[2]).read_text().split()
COMMITTED = Path(sys.argv[3])
A_POLL = 3


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Transformer:
    def __init__(self) -> None:
        self.position = 0
        self.sent: int | None = None
        self.joined = False
        self.ready = "ready"
        self.acked = itertools.count()

    def obey_until(self, last: str) -> None:
        for line in sys.stdin:
            words = line.split()
            if words == [last]:
                return
            if words == ["protocol", "2"]:
                self.ready = "ready 2"
            self.obey(words[0], words[1:], line)

    def obey(self, verb: str, words: list[str], line: str) -> None:
        match verb:
            case "open":
                say(self.ready)
            case "poll":
                self.poll()
            case "committed":
                say(f"offset 0 {COMMITTED.read_text() if COMMITTED.exists() else '-'}")
                say("done")
            case "seek":
                self.position = int(words[1])
                say("done")
            case "send" | "keyed" | "tombstone":
                say(f"acked {words[0]} {next(self.acked)}")
            case "offsets":
                self.sent = int(words[1])
                say("done")
            case "commit":
                self.commit()
            case "init" | "begin" | "abort":
                say("done")
            case "close":
                sys.stderr.write("told: close\n")  # first: after the answer it may be killed
                self.report("revoked 0")
                say("done")
            case _:
                sys.stderr.write(f"told: {line}")

    def report(self, event: str) -> None:
        say(event)
        self.obey_until("proceed")

    def poll(self) -> None:
        if not self.joined:
            self.joined = True
            self.report("assigned 0")
        elif MANNER == "rebalances" and self.is_half_read():
            self.report("revoked 0")
            self.report("assigned 0")
        for value in VALUES[self.position : self.position + A_POLL]:
            deletes = MANNER == "tombstones" and self.position % 2
            say(f"{'tombstone' if deletes else 'record'} 0 {self.position} 4 {value}")
            self.position += 1
        say("polled")

    def commit(self) -> None:
        if MANNER == "fenced" and self.is_half_read():
            say("undone fatal ProducerFencedException")
        elif MANNER == "confuses" and self.is_half_read():
            say("polled")
        else:
            COMMITTED.write_text(str(self.sent))
            say("done")

    def is_half_read(self) -> bool:
        """Whether half is read, the first time that this is asked since."""
        once = COMMITTED.with_suffix(".once")
        if self.position < len(VALUES) // 2 or once.exists():
            return False
        once.touch()
        return True


Transformer().obey_until("")
