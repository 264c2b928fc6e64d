"""Text scripts of the replica's state machine: events in, effects out (``testdata/*.txt``).

A file holds scenarios. A scenario begins with a line ``=== title`` and consists of steps: commands,
a line ``----``, and the output that is expected, up to an empty line. :class:`Driver` documents the
commands. Lines that begin with ``#`` are comments.

``pytest tests/replication/test_scripts.py --rewrite-scripts`` writes the output that the state
machine really gives into the files. Read the difference before you commit it.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from ackproof.broker.replication.config import ReplicaConfig, Truncation
from ackproof.broker.replication.events import (
    AdvanceLogStart,
    Append,
    AskEpoch,
    Effect,
    Event,
    FetchFrom,
    HighWatermark,
    LeaderLostRecords,
    Respond,
    StartEpoch,
    Truncate,
    TruncateFully,
    WriteIsr,
)
from ackproof.broker.replication.replica import Replica, StaleEpoch
from ackproof.broker.types import NO_LEADER, BrokerId, LeaderEpoch, Offset
from tests.support.fakes.memory_log import MemoryBatch, MemoryLog
from tests.support.worlds.replica_lab import Lab, Message

TESTDATA = Path(__file__).parent / "testdata"
TITLE, END_OF_COMMANDS, COMMENT = "=== ", "----", "#"
EVENTS = {event.__name__: event for event in get_args(Event)}


# --- the text of the scripts ---------------------------------------------------------------------


class Script(NamedTuple):
    """One scenario: its place in the file, and its lines without the title."""

    file: Path
    title: str
    lines: tuple[str, ...]


def scripts() -> Iterator[Script]:
    for file in sorted(TESTDATA.glob("*.txt")):
        _, *parts = ("\n" + file.read_text(encoding="utf-8")).split("\n" + TITLE)
        for part in parts:
            title, *lines = part.rstrip("\n").split("\n")
            yield Script(file, title, tuple(lines))


def played(lines: tuple[str, ...]) -> Iterator[str]:
    """Play a scenario, and return its lines with the output that it really gives."""
    driver, waits_for_output = Driver(), False
    output: list[str] = []
    for line in (*lines, ""):
        if waits_for_output:
            if line:
                continue  # keep the previous output
            yield from output or ["ok"]
            output, waits_for_output = [], False
        elif line == END_OF_COMMANDS:
            waits_for_output = True
        elif line and not line.startswith(COMMENT):
            output += driver.run(line)
        yield line
    assert not output, "the last commands have no line ----"


@pytest.mark.parametrize(
    "script", [pytest.param(each, id=f"{each.file.stem}: {each.title}") for each in scripts()]
)
def test_replica_follows_script(script: Script, request: pytest.FixtureRequest) -> None:
    expected = "\n".join(script.lines).rstrip("\n")
    output = "\n".join(played(script.lines)).rstrip("\n")
    if request.config.getoption("--rewrite-scripts"):
        text, title = script.file.read_text(encoding="utf-8"), f"{TITLE}{script.title}\n"
        assert text.count(title + expected) == 1, "two scenarios have this title"
        script.file.write_text(text.replace(title + expected, title + output), encoding="utf-8")
    else:
        assert output == expected


# --- commands ------------------------------------------------------------------------------------


class Driver:
    """Carries out the commands of a scenario. Brokers are a, b and c; lists are ``a,b``.

    - ``brokers N [property=value]``: N brokers that hold the partition, with its settings.
    - ``disk B end=N [start=N] [watermark=N] [epochs=E@OFFSET,...]``: B starts with this log.
    - ``elect B|none isr=LIST [to=LIST]``: a new leader epoch, of which only ``to`` hear.
    - ``change [leader=B] [isr=LIST] [replicas=LIST]``: another version of the partition's state in
      the same epoch, which is not announced yet.
    - ``tell B``: B gets the current state.
    - ``produce B [count=N] [acks=0|1|all] [timeout=MS]``: requests are numbered from 1. ``repeat B
      request=N first=OFFSET last=OFFSET [acks=]``: a request whose batches are in the log already.
    - ``ask B``: a follower's request reaches the leader. ``deliver B``: the answer reaches the
      follower. ``exchange B [times=N]``: both.
    - ``time MS``: time passes for all. ``write-isr``: ZooKeeper takes the oldest ISR write;
      ``lose-isr``: it gets lost.
    - ``crash B [unsynced=N]``, ``start B``, ``checkpoint B`` (of the high watermark).
    - ``configure B property=value``: other settings of the topic.
    - ``event B NAME [field=value]``: any event. ``now`` is the time, unless it is given. Batches
      are ``VALUE:BASE-NEXT@EPOCH,...``
    - ``refusal B acks=N``: why B would not take a produce request. ``low-watermark B among=LIST``.
    - ``state B...``, ``log B...``: what B knows, and the records that it has, by the request that
      brought them. ``fetching B``: the next request of a follower. ``check B epoch=E|none
      [follower=B]``: how a request with this leader epoch is answered. ``epoch-end B E``: where B
      says that the epoch ended. ``read-bound B [follower=B]``: up to where a fetch may read.
    """

    def __init__(self) -> None:
        self._lab = Lab(1)
        self._answers: dict[BrokerId, Message] = {}

    def run(self, line: str) -> list[str]:
        """Return the lines that a command puts out: the effects of all steps, or what it shows."""
        name, *words = line.split()
        named = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        command: Callable[..., object] = getattr(self, "do_" + name.replace("-", "_"))
        self._lab.steps.clear()
        try:
            shown = command(*plain, **named)
        except (ValueError, StaleEpoch) as error:
            shown = [f"{type(error).__name__}: {error}"]
        effects = [
            f"{letter(broker)}: {spelled(effect)}"
            for broker, effects in self._lab.steps
            for effect in effects
        ]
        return effects + (shown if isinstance(shown, list) else [])

    # --- the controller and time ---

    def do_brokers(self, count: str, **settings: str) -> None:
        self._lab = Lab(int(count), **{key: setting(text) for key, text in settings.items()})

    def do_disk(
        self, broker: str, end: str, start: str = "0", watermark: str = "0", epochs: str = ""
    ) -> None:
        begun = [tuple(int(n) for n in entry.split("@")) for entry in epochs.split(",") if entry]
        log = MemoryLog()
        log.start, log.checkpoint = Offset(int(start)), Offset(int(watermark))
        for offset in range(int(start), int(end)):
            epoch = max((e for e, at in begun if at <= offset), default=-1)
            log.slots.append(MemoryBatch(0, offset, offset + 1, epoch))
        for epoch, at in begun:
            log.epochs = log.epochs.assign(LeaderEpoch(epoch), Offset(at))
        self._lab.insert_disk(number(broker), log)

    def do_elect(self, leader: str, isr: str, to: str = "") -> None:
        self._lab.elect(number(leader), numbers(isr), to=numbers(to))

    def do_change(self, leader: str = "", isr: str = "", replicas: str = "") -> None:
        lab = self._lab
        lab.version += 1
        lab.leader = number(leader) if leader else lab.leader
        lab.isr = numbers(isr) if isr else lab.isr
        lab.replicas = numbers(replicas) if replicas else lab.replicas

    def do_tell(self, broker: str) -> None:
        self._lab.tell(number(broker))

    def do_time(self, milliseconds: str) -> None:
        self._lab.pass_time(int(milliseconds))

    def do_write_isr(self) -> None:
        self._lab.write_isr()

    def do_lose_isr(self) -> None:
        self._lab.isr_writes.pop(0)

    # --- brokers and clients ---

    def do_produce(
        self, broker: str, count: str = "1", acks: str = "1", timeout: str = "30000"
    ) -> None:
        self._lab.produce(number(broker), int(count), acknowledgements(acks), int(timeout))

    def do_repeat(
        self, broker: str, request: str, first: str, last: str, acks: str = "all"
    ) -> None:
        named = {"request": request, "batches": "", "deadline": str(self._lab.now + 1_000)}
        event = self._event("Produce", acks=acks, appended=f"{first},{last}", **named)
        self._lab.step(number(broker), event)

    def do_ask(self, follower: str) -> None:
        self._answers[number(follower)] = self._lab.ask(number(follower))

    def do_deliver(self, follower: str) -> None:
        self._lab.deliver(self._answers.pop(number(follower)))

    def do_exchange(self, follower: str, times: str = "1") -> None:
        self._lab.exchange(number(follower), int(times))

    def do_crash(self, broker: str, unsynced: str = "0") -> None:
        self._lab.crash(number(broker), int(unsynced))

    def do_start(self, broker: str) -> None:
        self._lab.start(number(broker))

    def do_checkpoint(self, broker: str) -> None:
        self._lab.checkpoint(number(broker))

    def do_configure(self, broker: str, **settings: str) -> None:
        changed: dict[str, Any] = {key: setting(text) for key, text in settings.items()}
        self._lab[number(broker)].configure(ReplicaConfig(**changed))

    def do_event(self, broker: str, name: str, **named: str) -> None:
        self._lab.step(number(broker), self._event(name, **named))

    def _event(self, name: str, **named: str) -> Event:
        kind = EVENTS[name]
        if any(field.name == "now" for field in fields(kind)):
            named.setdefault("now", str(self._lab.now))
        event: Event = kind(**{key: value_of(key, text) for key, text in named.items()})
        return event

    # --- looking ---

    def do_state(self, *brokers: str) -> list[str]:
        return [f"{broker}: {state(self._lab[number(broker)])}" for broker in brokers]

    def do_log(self, *brokers: str) -> list[str]:
        logs = ((broker, self._lab.log(number(broker))) for broker in brokers)
        return [f"{broker}: {' '.join(map(str, log)) or 'empty'}" for broker, log in logs]

    def do_fetching(self, broker: str) -> list[str]:
        return [f"{broker}: {spelled_request(self._lab[number(broker)].fetching())}"]

    def do_check(self, broker: str, epoch: str, follower: str = "") -> list[str]:
        presumed = None if epoch == "none" else LeaderEpoch(int(epoch))
        asking = number(follower) if follower else None
        return [self._lab[number(broker)].check_leader(presumed, follower=asking).name]

    def do_epoch_end(self, broker: str, epoch: str) -> list[str]:
        known, end = self._lab[number(broker)].end_offset_for_epoch(LeaderEpoch(int(epoch)))
        return [f"epoch {known} ended at {end}"]

    def do_refusal(self, broker: str, acks: str) -> list[str]:
        return [self._lab[number(broker)].refusal(acknowledgements(acks)).name]

    def do_low_watermark(self, broker: str, among: str) -> list[str]:
        return [str(self._lab[number(broker)].low_watermark_among(numbers(among)))]

    def do_read_bound(self, broker: str, follower: str = "") -> list[str]:
        asking = number(follower) if follower else None
        return [str(self._lab[number(broker)].read_bound(asking))]


# --- spelling ------------------------------------------------------------------------------------


def number(text: str) -> BrokerId:
    return NO_LEADER if text == "none" else BrokerId("abc".index(text))


def numbers(text: str) -> tuple[BrokerId, ...]:
    return tuple(number(each) for each in text.split(",") if each)


def letter(broker: BrokerId) -> str:
    return "none" if broker == NO_LEADER else "abc"[broker]


def letters(brokers: tuple[BrokerId, ...]) -> str:
    return ",".join(map(letter, brokers)) or "none"


def acknowledgements(text: str) -> int:
    return -1 if text == "all" else int(text)


def setting(text: str) -> Any:
    return int(text) if text.isdigit() else Truncation(text)


def value_of(name: str, text: str) -> Any:
    """Return the value of an event's field."""
    if name in ("isr", "replicas"):
        return numbers(text)
    if name in ("leader", "replica"):
        return number(text)
    if name == "batches":
        return tuple(batch(each) for each in text.split(",") if each)
    if name == "appended":
        return tuple(int(offset) for offset in text.split(","))
    if text in ("yes", "no"):
        return text == "yes"
    return acknowledgements(text)


def batch(text: str) -> MemoryBatch:
    value, _, rest = text.partition(":")
    offsets, _, epoch = rest.partition("@")
    base, _, following = offsets.partition("-")
    return MemoryBatch(int(value), int(base), int(following), int(epoch or -1))


MOVES: dict[type[Effect], str] = {
    Truncate: "truncate to",
    TruncateFully: "truncate fully and start at",
    AdvanceLogStart: "log start",
    HighWatermark: "high watermark",
}


def spelled(effect: Effect) -> str:
    """Return one effect in words."""
    match effect:
        case Append(batches=batches, base_offset=base, leader_epoch=None):
            return f"append {base} to {batches[-1].next_offset} as they came"
        case Append(batches=batches, base_offset=base, leader_epoch=epoch):
            count = sum(each.next_offset - each.base_offset for each in batches)
            return f"append {base} to {base + count} in epoch {epoch}"
        case StartEpoch(leader_epoch=epoch, offset=offset):
            return f"epoch {epoch} starts at {offset}"
        case Truncate() | TruncateFully() | AdvanceLogStart() | HighWatermark():
            return f"{MOVES[type(effect)]} {effect.offset}"
        case WriteIsr(leader_epoch=epoch, isr=isr, zk_version=version):
            return f"write isr {letters(isr)} in epoch {epoch} over version {version}"
        case LeaderLostRecords(leader_epoch=epoch, log_end_offset=end):
            return f"alarm: the leader of epoch {epoch} lost records below {end}"
        case Respond(request=request, error=error, base_offset=base):
            return f"respond to {request}: {error.name}" + _at(base)


def _at(base: int) -> str:
    return f" at {base}" if base >= 0 else ""


def spelled_request(request: AskEpoch | FetchFrom | None) -> str:
    match request:
        case None:
            return "nothing"
        case AskEpoch(leader=leader, leader_epoch=current, epoch=epoch):
            return f"ask {letter(leader)} in epoch {current} where epoch {epoch} ended"
        case FetchFrom(leader=leader, leader_epoch=current, offset=offset, log_start_offset=start):
            return f"fetch from {letter(leader)} in epoch {current} at {offset}, log start {start}"


def state(replica: Replica) -> str:
    """Return all that others can see of a replica."""
    epochs = " ".join(f"{epoch}@{offset}" for epoch, offset in replica.epochs) or "none"
    flags = {
        "does not serve yet": replica.role.name == "LEADER" and not replica.serves,
        "under-replicated": replica.is_under_replicated,
        "under min isr": replica.is_under_min_isr,
    }
    return ", ".join(
        [
            f"{replica.role.value} in epoch {replica.leader_epoch}",
            f"leader {letter(replica.leader)}",
            f"isr {letters(replica.isr)} version {replica.zk_version}",
            f"replicas {letters(replica.replicas)}",
            f"log {replica.log_start_offset} to {replica.log_end_offset}",
            f"high watermark {replica.high_watermark}",
            f"low watermark {replica.low_watermark}",
            f"epochs {epochs}",
            *(flag for flag, is_set in flags.items() if is_set),
        ]
    )
