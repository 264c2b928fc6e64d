"""Replicas of one log: alike up to the bound, nothing is found, whatever lies behind it; with one
difference planted, that is found, where it is, and nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.replicas import Difference, DifferenceKind, Divergence, differences
from ackproof.checkers.index.raw_logs import OtherFormat, RawLog
from tests.support.builders.examples import examples
from tests.support.builders.raw_logs import MadeBatch, end_of, write_log

EXAMPLES = settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

Planted = tuple[DifferenceKind, int, int]


@dataclass(frozen=True)
class Replicas:
    """One log up to ``end``, where a batch begins, and what each replica has behind it."""

    common: Sequence[MadeBatch]
    tails: tuple[Sequence[MadeBatch], ...]
    segments: Sequence[int]

    @property
    def end(self) -> int:
        return end_of(self.common)


@st.composite
def replicas(draw: st.DrawFn) -> Replicas:
    """Three of them; leader epochs rise; behind the end each has a leader of its own."""
    common: list[MadeBatch] = []
    epoch = 0
    for count in draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)):
        epoch += draw(st.integers(0, 2))
        common.append(MadeBatch(end_of(common), count, epoch))
    tails = []
    for broker in range(3):
        tail = [MadeBatch(end_of(common), draw(st.integers(1, 3)), epoch + broker)]
        tails.append(tail if draw(st.booleans()) else [])
    segments = draw(st.sets(st.integers(1, len(common) - 1))) if len(common) > 1 else set()
    return Replicas(common, tuple(tails), sorted(segments))


def change_a_record(batch: MadeBatch, draw: st.DataObject) -> tuple[list[MadeBatch], Planted]:
    offset = draw.draw(st.integers(batch.base, batch.last))
    changed = batch.but(strange=((offset, b"another's"),))
    return [changed], (DifferenceKind.DIFFERS, offset, offset)


def change_the_epoch(batch: MadeBatch, draw: st.DataObject) -> tuple[list[MadeBatch], Planted]:
    changed = batch.but(epoch=batch.epoch + draw.draw(st.sampled_from([-1, 1])))
    return [changed], (DifferenceKind.DIFFERS, batch.base, batch.last)


def change_the_producer(batch: MadeBatch, _: st.DataObject) -> tuple[list[MadeBatch], Planted]:
    return [batch.but(producer_epoch=1)], (DifferenceKind.DIFFERS, batch.base, batch.last)


def change_the_crc(batch: MadeBatch, draw: st.DataObject) -> tuple[list[MadeBatch], Planted]:
    position = draw.draw(st.integers(17, 20))
    return [batch.but(bent=((position, 1),))], (DifferenceKind.DIFFERS, batch.base, batch.last)


def flip_a_bit(batch: MadeBatch, draw: st.DataObject) -> tuple[list[MadeBatch], Planted]:
    """Anywhere behind the header, its CRC left as it was."""
    position = draw.draw(st.integers(61, len(batch.data) - 1))
    bits = 1 << draw.draw(st.integers(0, 7))
    return [batch.but(bent=((position, bits),))], (DifferenceKind.DIFFERS, batch.base, batch.last)


def take_a_batch(batch: MadeBatch, _: st.DataObject) -> tuple[list[MadeBatch], Planted]:
    return [], (DifferenceKind.LACKS, batch.base, batch.last)


PLANTS = (
    change_a_record,
    change_the_epoch,
    change_the_producer,
    change_the_crc,
    flip_a_bit,
    take_a_batch,
)


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    return lambda: tmp_path_factory.mktemp("replicas")


def compared(one: Path, other: Path, end: int) -> list[Difference]:
    return list(differences(RawLog(one), RawLog(other), 0, end))


def with_a_copy(top: Path, log: Sequence[MadeBatch]) -> tuple[Path, Path, Path]:
    """A log, another copy of it, and the only segment of that one."""
    sound, copy = (write_log(top / name, log) for name in ("sound", "copy"))
    (segment,) = copy.glob("*.log")
    return sound, copy, segment


def placed(found: Sequence[Difference]) -> list[Planted]:
    return [(difference.kind, difference.first, difference.last) for difference in found]


@EXAMPLES
@given(made=replicas())
def test_replicas_equal_up_to_the_bound_are_clean(
    fresh: Callable[[], Path], made: Replicas
) -> None:
    top = fresh()
    for broker, tail in enumerate(made.tails):
        # Where a log is cut into segments is each broker's own.
        cut = made.segments if broker else ()
        write_log(top / str(broker), [*made.common, *tail], segments=cut)
    copies = Divergence(
        cell="c",
        topic="t",
        partition=0,
        brokers=[1, 2, 3],
        directories=[top / "0", top / "1", top / "2"],
        end=made.end,
    )
    assert list(copies.divergent_ranges()) == []
    assert copies.not_compared == []


@pytest.mark.parametrize("plant", PLANTS)
@EXAMPLES
@given(made=replicas(), data=st.data())
def test_a_planted_difference_is_found_and_nothing_else(
    plant: Callable[[MadeBatch, st.DataObject], tuple[list[MadeBatch], Planted]],
    fresh: Callable[[], Path],
    made: Replicas,
    data: st.DataObject,
) -> None:
    number = data.draw(st.integers(0, len(made.common) - 1))
    changed, expected = plant(made.common[number], data)
    log = [*made.common[:number], *changed, *made.common[number + 1 :]]
    top = fresh()
    sound = write_log(top / "sound", [*made.common, *made.tails[0]])
    other = write_log(top / "other", [*log, *made.tails[1]])
    (found,) = compared(sound, other, made.end)
    assert placed([found]) == [expected]
    (mirrored,) = compared(other, sound, made.end)
    assert (mirrored.one, mirrored.other) == (found.other, found.one)
    assert placed([mirrored]) == [expected]


@EXAMPLES
@given(made=replicas(), data=st.data())
def test_nothing_is_found_from_the_bound_on(
    fresh: Callable[[], Path], made: Replicas, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(made.common) - 1))
    plant = data.draw(st.sampled_from(PLANTS))
    changed, _ = plant(made.common[number], data)
    top = fresh()
    sound = write_log(top / "sound", made.common)
    other = write_log(top / "other", [*made.common[:number], *changed])
    assert compared(sound, other, made.common[number].base) == []


@EXAMPLES
@given(made=replicas(), data=st.data())
def test_torn_log_lacks_nothing_and_reports_the_unreadable_range(
    fresh: Callable[[], Path], made: Replicas, data: st.DataObject
) -> None:
    sound, torn, path = with_a_copy(fresh(), made.common)
    content = path.read_bytes()
    ends = [sum(len(b.data) for b in made.common[:n]) for n in range(len(made.common) + 1)]
    size = data.draw(st.integers(0, len(content) - 1).filter(lambda size: size not in ends))
    path.write_bytes(content[:size])
    whole = max(number for number, end in enumerate(ends) if end <= size)
    log = RawLog(torn)
    assert list(differences(RawLog(sound), log, 0, made.end)) == []
    ((since, until),) = log.unread
    assert (since, until > made.end) == (made.common[whole].base, True)
    place = f"cannot be read from byte {ends[whole]} of {path.name} onwards"
    assert log.damage == [f"{place}: the file ends within a batch"]


@EXAMPLES
@given(made=replicas(), noise=st.binary(max_size=200), data=st.data())
def test_whatever_bytes_are_there_nothing_raises(
    fresh: Callable[[], Path], made: Replicas, noise: bytes, data: st.DataObject
) -> None:
    """But for what may be another message format."""
    sound, noisy, path = with_a_copy(fresh(), made.common)
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:at] + noise + content[at + len(noise) :])
    log = RawLog(noisy)
    try:
        found = list(differences(RawLog(sound), log, 0, made.end))
    except OtherFormat:
        return
    assert bool(found or log.damage) == (path.read_bytes()[: len(content)] != content)
