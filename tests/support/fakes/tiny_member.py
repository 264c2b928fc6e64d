"""A member of a group as a program under test, without a cluster: ``python tiny_member.py MANNER``.

Its partition 0 has so many records, a poll returns three of them, and each manner is a way of doing
something else once half is read. Written with nothing of ours but the lines, as a user's own would
be.
"""

import base64
import sys

MANNER = sys.argv[1]
RECORDS = 30
HALF = 15
A_POLL = 3


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def value(offset: int) -> str:
    return base64.b64encode(b"record %d" % offset).decode()


class Member:
    def __init__(self) -> None:
        self.position = 0
        self.committed: int | None = None
        self.joined = False
        self.done = False
        self.asked = False
        self.ready = "ready"

    def obey_until(self, last: str) -> None:
        for line in sys.stdin:
            words = line.split()
            if words == [last]:
                return
            self.obey(words[0], [int(word) for word in words[1:] if word.isdigit()], line)

    def obey(self, verb: str, numbers: list[int], line: str) -> None:
        match verb:
            case "protocol" if numbers == [2] and MANNER != "unaware":
                self.ready = "ready 2"
            case "subscribe":
                say(self.ready)
            case "poll":
                self.poll()
            case "commit":
                self.commit(numbers[1])
            case "committed" if MANNER == "forgets" and not self.asked:
                self.asked = True
                say("undone retriable NotCoordinatorException")
            case "committed":
                say(f"offset 0 {'-' if self.committed is None else self.committed}")
                say("done")
            case "seek":
                self.position = numbers[1]
                say("done")
            case "end":
                say(f"end 0 {self.position} {RECORDS}")
                say("done")
            case "close":
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
        if self.position >= HALF and not self.done:
            self.done = True
            self.misbehave()
        for _ in range(min(A_POLL, RECORDS - self.position)):
            kind = "tombstone" if self.ready == "ready 2" and self.position % 2 else "record"
            say(f"{kind} 0 {self.position} 4 {value(self.position)}")
            self.position += 1
        say("polled")

    def commit(self, offset: int) -> None:
        if MANNER == "refuses" and offset <= HALF:
            say("undone retriable TimeoutException")
            return
        self.committed = offset
        say("done")

    def misbehave(self) -> None:
        match MANNER:
            case "rebalances":
                self.report("revoked 0")
                self.report("assigned 0")
            case "loses":
                self.report("lost 0")
                self.position = 0
                self.report("assigned 0")
            case "fatal":
                say("fatal the library has failed for good")
            case "malformed":
                say("record 0 zero - QQ==")
            case "quits":
                sys.exit(7)


Member().obey_until("")
