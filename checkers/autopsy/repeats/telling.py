"""The story of records that stand in the log more than once, in one sentence of plain words."""

from collections.abc import Iterator

from ackproof.checkers.autopsy.kinds import Kind
from ackproof.checkers.autopsy.repeats.explaining import RepeatStory
from ackproof.checkers.autopsy.telling import labels, struck
from ackproof.history.cell import LIBRDKAFKA

_TIMES = {2: "twice", 3: "three times"}
_NAMED_MAX = 3


def sentence(story: RepeatStory, client: str = "", acks: str = "") -> str:
    """How these records came to stand there more than once; ``client``: the library that sent
    them; ``acks``: of its cell."""
    return "; ".join(_parts(story, client, acks)) + "."


def _parts(story: RepeatStory, client: str, acks: str) -> Iterator[str]:
    match story.kind:
        case Kind.RETRIED if acks == "0":
            yield (
                "the connection broke while the producer wrote, and it sent these again, as "
                "expected without enable.idempotence"
            )
        case Kind.RETRIED:
            yield (
                "the answer to the first attempt was lost with the connection, or late, and the "
                "producer sent these again, as expected without enable.idempotence"
            )
        case Kind.RETRIED_AT_NEXT_LEADER:
            yield (
                "the leader changed before the first attempt was answered, and the producer sent "
                "these again, as expected without enable.idempotence"
            )
        case Kind.NEW_SESSION:
            yield (
                f"the producer began another session ({_sessions(story)}) and sent these again, "
                f"which no log can know (KIP-98){_known_of(client)}"
            )
        case Kind.RENUMBERED:
            yield f"the producer sent these again under other numbers ({_sessions(story)})"
        case Kind.FORGOTTEN:
            yield (
                f"{labels(story.disks)} took data from the disk of {_leader(story, -1)}, which did "
                f"not know these again ({_sessions(story)})"
            )
        case _:
            pass
    yield _appended(story)
    yield from _acked(story)
    told = list(struck(story.faults, min(one.asked for one in story.repeats)))
    yield from told or ["no fault was on"]
    if story.kind is Kind.UNEXPLAINED:
        yield f"nothing that was recorded explains it: {story.why}"
    elif story.kind is Kind.UNKNOWN:
        yield f"how cannot be told: {story.why}"


def _known_of(client: str) -> str:
    return ", as librdkafka does: confluentinc/librdkafka#4953" if client == LIBRDKAFKA else ""


def _sessions(story: RepeatStory) -> str:
    return ", then ".join(f"producer id {who} epoch {epoch}" for who, epoch in story.sessions)


def _appended(story: RepeatStory) -> str:
    most = max(len(one.offsets) for one in story.repeats)
    if not story.epochs:
        return "the log does not tell in which epochs they were appended"
    if len(story.epochs) == 1:
        least = min(len(one.offsets) for one in story.repeats)
        often = _TIMES.get(most, f"{most} times")
        upto = "up to " if least < most else ""
        return (
            f"{_leader(story, 0)} appended them {upto}{often}, as leader of epoch {story.epochs[0]}"
        )
    if len(story.epochs) > _NAMED_MAX:
        first, last = story.epochs[0], story.epochs[-1]
        return f"they were appended in {len(story.epochs)} epochs from {first} to {last}"
    each = (
        f"{_leader(story, number)} as leader of epoch {epoch}"
        for number, epoch in enumerate(story.epochs)
    )
    return f"appended by {', then by '.join(each)}"


def _leader(story: RepeatStory, number: int) -> str:
    epoch = story.epochs[number] if story.epochs else None
    known = (f"broker-{one.leader}" for one in story.reigns if one.epoch == epoch)
    return next(known, "nobody knows who")


def _acked(story: RepeatStory) -> Iterator[str]:
    if story.acked is not None:
        yield f"the ack names the {'last' if story.acked else 'first or another'} of the copies"
