"""The rule watermark-regressed against each pair of acks: what it does not look up, since offsets
rise as they mostly do, is nothing that it would have found."""

from typing import NamedTuple

from hypothesis import event, given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.acks import watermark_regressed
from ackproof.checkers.context.timeline import PartitionTimeline
from tests.support.builders.histories import Made, indexed, send


class Ack(NamedTuple):
    """The acknowledgement of a record: the times of the send and the answer, and the offset."""

    asked: int
    answered: int
    offset: int


SCATTERED = st.lists(
    st.builds(Ack, st.integers(0, 12), st.integers(0, 12), st.integers(0, 6)), max_size=12
)
"""Some of them answered before they were sent."""

RISING = st.lists(st.integers(0, 3), max_size=12).map(
    lambda waits: [Ack(place, place + wait, place) for place, wait in enumerate(waits)]
)


@st.composite
def one_astray(draw: st.DrawFn) -> list[Ack]:
    """Offsets that rise, but for one."""
    acks = draw(RISING.filter(bool))
    place = draw(st.integers(0, len(acks) - 1))
    return [
        ack._replace(offset=draw(st.integers(0, 12))) if number == place else ack
        for number, ack in enumerate(acks)
    ]


@settings(deadline=None)
@given(acks=SCATTERED | RISING | one_astray(), bound=st.integers(0, 2))
def test_undercut_acks_are_found(acks: list[Ack], bound: int) -> None:
    # An answer before its question is a contradiction of the evidence, and shows nothing.
    sound = [one for one in acks if one.answered >= one.asked]
    expected = {
        number
        for number, one in enumerate(acks)
        for other in sound
        if one in sound and other.asked > one.answered + 2 * bound and other.offset <= one.offset
    }
    event("some" if expected else "none")
    timeline = PartitionTimeline(acks="all", clock_bound_ns=bound)
    sends = tuple(
        row
        for number, one in enumerate(acks)
        for row in (
            send("invoke", 0, number, one.asked),
            send("ok", 0, number, one.answered, one.offset),
        )
    )
    found = watermark_regressed(indexed(Made(sends=sends, log=(), end=0), timeline=timeline))
    assert set(found["sequence"].to_pylist()) == expected
    for row in found.to_pylist():
        one = acks[row["sequence"]]
        by = acks[int(row["detail"].split("sequence ")[1].split(",")[0])]
        assert by.asked > one.answered + 2 * bound
        assert by.offset <= one.offset
