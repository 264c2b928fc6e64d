"""The story of a group of records that are gone in one sentence of plain words; and the words that
other stories are told in, too."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ackproof.checkers.autopsy.explaining import Story
from ackproof.checkers.autopsy.kinds import Kind
from ackproof.checkers.autopsy.scene import FaultSeen
from ackproof.checkers.timeline.truncations import Truncation

_NS_PER_S = 1_000_000_000
_NAMED_MAX = 3


def sentence(story: Story, copies: Mapping[int, int] = MappingProxyType({})) -> str:
    """What became of these records; "these" and "they" are the records. ``copies``: of how many
    of them a broker still holds one."""
    held = (f"broker-{broker} still holds {count:,} of them" for broker, count in copies.items())
    return "; ".join((*_parts(story), *held)) + "."


def _parts(story: Story) -> Iterator[str]:
    yield _acked(story)
    if story.committed is not None:
        epoch = story.committed.epoch
        who = f"broker-{story.committed.leader}"
        yield f"{who} had a high watermark beyond them when it began epoch {epoch}"
    for reign in story.unheard:
        yield f"broker-{reign.leader} was elected in epoch {reign.epoch} and never heard of it"
    match story.kind:
        case Kind.LOST_FROM_DISK:
            whose = story.next.leader if story.next else story.leaders[0]
            yield f"{labels(story.disks)} took data from the disk of broker-{whose}"
        case Kind.CUT_BEFORE_LEADING if story.next and story.truncation_before:
            had = truncation_words(story.truncation_before)
            yield f"broker-{story.next.leader} had {had} before it led"
        case Kind.LET_IN_TOO_EARLY:
            yield from _let_in(story)
        case Kind.DEDUPLICATED if story.purged:
            yield (
                "librdkafka gives the numbers of what it purges with an aborted transaction to "
                "what it sends next: confluentinc/librdkafka#5423"
            )
        case _:
            pass
    if story.next and story.next.clean is False and len(story.leaders) == 1:
        isr = list(story.next.isr_before)
        yield f"broker-{story.next.leader} was elected outside the ISR{f' {isr}' if isr else ''}"
    if story.kind is not Kind.BELOW_LOG_START:
        yield from _faults(story)
        yield from _next(story)
        yield from _removed(story)
    yield from _untold(story)


def _let_in(story: Story) -> Iterator[str]:
    if story.let_in and story.let_in_by and story.next:
        by, who = story.let_in_by, f"broker-{story.next.leader}"
        led = f"broker-{by.leader} led epoch {by.epoch} from offset {by.log_end:,}, with them"
        since = story.let_in.time - story.times[0]
        when = f" {seconds(since)} after the first of these" if since > 0 else ""
        yield f"{led}, and let {who}, which did not have all of that, into the ISR{when}"


def _acked(story: Story) -> str:
    if story.kind is Kind.BELOW_LOG_START:
        return "the log starts above these: its beginning was deleted"
    if story.kind is Kind.DEDUPLICATED:
        return _deduplicated(story)
    if story.kind is Kind.UNANSWERED:
        return f"no broker answered for these (acks=0){_while_led(story)}"
    if story.shown:
        return f"consumers were shown these{_late(story)}; {_appended(story)}"
    if not story.epochs:
        return "who acked these is not known"
    leaders, epochs = brokers(story.leaders), _epochs(story)
    return f"{leaders} acked these as leader of {epochs}{_late(story)}"


def _deduplicated(story: Story) -> str:
    others = "others that their producer had sent before and given up"
    acked = f"acked them at the offsets of those, as leader of {_epochs(story)}"
    return f"{brokers(story.leaders)} took these for {others}, and {acked}; no broker ever had them"


def _appended(story: Story) -> str:
    if not story.epochs:
        return "who appended them is not known"
    return f"{brokers(story.leaders)} appended them as leader of {_epochs(story)}"


def _while_led(story: Story) -> str:
    if not story.epochs:
        return ""
    return f", sent while {brokers(story.leaders)} led in {_epochs(story)}{_late(story)}"


def _late(story: Story) -> str:
    spans = []
    if len(story.leaders) > 1:
        return ""
    if story.without_session is not None and story.without_session > 0:
        span = seconds(story.without_session)
        spans.append(f"{span} after its ZooKeeper session was seen to have ended")
    if story.late is not None and story.late > 0 and story.deposed_by is not None:
        span = seconds(story.late)
        spans.append(f"{span} after broker-{story.deposed_by.leader} was seen to lead")
    return f", up to {' and '.join(spans)}" if spans else ""


def _epochs(story: Story) -> str:
    numbers = [str(reign.epoch) for reign in story.epochs]
    if len(numbers) > _NAMED_MAX:
        return f"one of the epochs {numbers[0]} to {numbers[-1]}"
    return f"epoch {' or '.join(numbers)}"


def brokers(numbers: Sequence[int]) -> str:
    """``broker-1 or broker-2``."""
    if len(numbers) > _NAMED_MAX:
        return "one of several brokers"
    return " or ".join(f"broker-{number}" for number in numbers)


def _faults(story: Story) -> Iterator[str]:
    if story.kind is Kind.LOST_FROM_DISK:
        return
    yield from struck(story.faults, story.times[0])


def struck(faults: Sequence[FaultSeen], since: int) -> Iterator[str]:
    """Which were on, each in a few words; ``since``: when the first of the records was handled."""
    yield from (_fault(fault, since) for fault in faults[:_NAMED_MAX])
    if len(faults) > _NAMED_MAX:
        yield f"{len(faults) - _NAMED_MAX} more faults were on"


def _fault(fault: FaultSeen, first: int) -> str:
    whom = _servers(fault)
    since = fault.start - first
    if since <= 0:
        return f"{fault.label} was on {whom}"
    after = f"{seconds(since)} after the first of these"
    return f"{fault.label} struck {whom} {after}"


def _servers(fault: FaultSeen) -> str:
    if fault.servers is None:
        return "nobody knows whom"
    if len(fault.servers) > _NAMED_MAX:
        return f"{len(fault.servers)} servers"
    return ", ".join(fault.servers)


def _next(story: Story) -> Iterator[str]:
    after = story.next
    if after is None or len(story.leaders) > 1:
        return
    led = f"led epoch {after.epoch}"
    if story.kind is Kind.NOT_REPLICATED:
        led = f"had not fetched them and {led}"
    led = f"broker-{after.leader} {led}"
    if after.log_end < 0 or story.offsets is None:
        yield led
    elif story.kind is Kind.NOT_REPLICATED:
        yield f"{led} from offset {after.log_end:,}"
    else:
        yield f"{led} from offset {after.log_end:,}, without them"


def _removed(story: Story) -> Iterator[str]:
    yield from (
        f"broker-{truncation.broker} {truncation_words(truncation)}"
        for truncation in story.truncations
    )
    if not story.truncations and story.next is not None and story.kind is not Kind.UNANSWERED:
        yield "no broker's log tells who cut them"


def truncation_words(truncation: Truncation) -> str:
    """What a broker did to its log, in its own words."""
    whence = "" if truncation.log_end is None else f"from {truncation.log_end:,} "
    whose = "" if truncation.leader < 0 else f" as follower of broker-{truncation.leader}"
    when = "" if truncation.leader_epoch < 0 else f" in epoch {truncation.leader_epoch}"
    return f"cut its log {whence}to {truncation.offset:,}{whose}{when} ({truncation.due_to})"


def _untold(story: Story) -> Iterator[str]:
    if story.kind is Kind.UNEXPLAINED:
        yield f"nothing that was recorded explains it{_ruled_out(story)}"
    elif story.kind is Kind.UNKNOWN:
        yield f"how they got lost cannot be told: {_missing(story)}"


def _ruled_out(story: Story) -> str:
    after = story.next
    if after is None:
        return ": no later leader is known to have begun without them" if story.epochs else ""
    if after.leader in story.leaders:
        return f": no fault took data from the disk of broker-{after.leader}"
    return (
        f": broker-{after.leader} was in the ISR {list(after.isr_before)}, no fault took data from "
        "its disk, and it is not known to have cut its log before"
    )


def _missing(story: Story) -> str:
    if len(story.leaders) > 1:
        return "which of them acked these is not known"
    if story.next is not None:
        return f"nobody saw who was in sync before epoch {story.next.epoch}"
    if not story.epochs or not story.untold:
        return "nobody watched who led until the end"
    return "no broker's log tells where it ended when a later leader began"


def labels(faults: Sequence[FaultSeen]) -> str:
    """The first few of them."""
    return " and ".join(fault.label for fault in faults[:_NAMED_MAX])


def seconds(nanoseconds: int) -> str:
    """As many digits as tell something: 40 ms, 4.2 s, 42 s."""
    seconds = nanoseconds / _NS_PER_S
    if seconds < 1:
        return f"{max(round(seconds * 1000), 1)} ms"
    return f"{seconds:.{0 if seconds >= 10 else 1}f} s"
