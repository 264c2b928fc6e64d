"""Generated duplicates with one known reason each. The root cause analysis names that reason and no
other. Without the evidence it says that it does not know."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ackproof.checkers.root_cause.causes import attributed_faults
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.verdict import Cause
from tests.support.builders.examples import examples
from tests.support.builders.repeats import EXPECTED, NEVER_RESENT, NUMBERED, Way, World, repeat

ANY_MACHINE = settings(
    deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow]
)
OF_NO_IDEMPOTENCE = EXPECTED + NEVER_RESENT

Bursts = list[tuple[Way, int, int]]


def bursts(ways: tuple[Way, ...]) -> st.SearchStrategy[Bursts]:
    """Generate bursts: the kind, the number of copied records, and the number of records appended
    after."""
    one = st.tuples(st.sampled_from(ways), st.integers(1, 5), st.integers(0, 5))
    return st.lists(one, min_size=1, max_size=4)


def made(planted: Bursts, *, idempotent: bool, retries: int = -1) -> World:
    world = World(idempotent=idempotent, retries=retries)
    for burst in planted:
        repeat(world, *burst)
    return world


def holds(world: World) -> None:
    performed = world.root_causes()
    causes = sorted(performed.causes, key=lambda cause: cause.number)
    assert [cause.kind for cause in causes] == [one.kind for one in world.planted]
    rows = iter(performed.of_records.to_pylist())
    for planted, cause in zip(world.planted, causes, strict=True):
        assert cause.records == len(planted.sequences)
        assert cause.epochs == tuple(dict.fromkeys(planted.epochs))
        assert (cause.first_offset, cause.anomaly) == (planted.first, "duplicated")
        excused = not world.idempotent or planted.kind is CauseKind.NEW_SESSION
        assert cause.promised == (0 if excused else cause.records)
        for _ in planted.sequences:
            row = next(rows)
            assert (row["cause"], row["kind"]) == (cause.number, planted.kind)
            assert (row["epochs"], len(row["offsets"])) == (planted.epochs, 2)
            assert row["leaders"] == [epoch % 3 + 1 for epoch in planted.epochs]
            assert row["acked_offset"] == row["offsets"][1]
            assert len(row["producer_sequences"]) == 2
    assert next(rows, None) is None
    assert performed.faults is not None
    of_cause = {cause.number: attributed_faults(cause) for cause in causes}
    told = [of_cause[row["cause"]] for row in performed.of_records.to_pylist()]
    assert performed.faults.to_pylist() == told


@ANY_MACHINE
@given(bursts(OF_NO_IDEMPOTENCE))
@example([(way, 2, 1) for way in OF_NO_IDEMPOTENCE])
def test_copies_without_idempotence_are_explained_by_possible_retries(planted: Bursts) -> None:
    holds(made(planted, idempotent=False))


@ANY_MACHINE
@given(bursts(NUMBERED))
@example([(way, 2, 1) for way in NUMBERED])
def test_of_an_idempotent_producer_sessions_and_numbers_tell(planted: Bursts) -> None:
    holds(made(planted, idempotent=True))


@ANY_MACHINE
@given(bursts(NUMBERED))
def test_without_raw_logs_an_idempotent_producer_s_are_unknown(planted: Bursts) -> None:
    world = made(planted, idempotent=True)
    world.written.clear()
    assert {cause.kind for cause in world.root_causes().causes} == {CauseKind.UNKNOWN}


@ANY_MACHINE
@given(bursts(EXPECTED))
def test_copies_of_a_producer_without_retries_are_unexplained(planted: Bursts) -> None:
    world = made(planted, idempotent=False, retries=0)
    assert {cause.kind for cause in world.root_causes().causes} == {CauseKind.UNEXPLAINED}


def only(way: Way, *, idempotent: bool) -> Cause:
    (cause,) = made([(way, 2, 0)], idempotent=idempotent).root_causes().causes
    return cause


def test_cause_of_an_expected_duplicate_says_that_it_is_expected() -> None:
    assert only(EXPECTED[1], idempotent=False).sentence == (
        "the leader changed before the first attempt was answered, and the producer sent "
        "these records again, as expected without enable.idempotence; appended by broker-3 "
        "as leader of epoch 2, then by broker-1 as leader of epoch 3; the ack names the last "
        "of the copies; no fault was active."
    )


def test_a_client_that_begins_another_session_is_named() -> None:
    told = only(NUMBERED[0], idempotent=True).sentence
    assert told.startswith(
        "the producer began another session (producer id 7 epoch 2, then producer id 7 epoch "
        "3) and sent these records again, which no log can recognise (KIP-98), as librdkafka "
        "does: confluentinc/librdkafka#4953; broker-3 appended them twice, as leader of "
        "epoch 2"
    )


def test_copies_that_a_log_should_have_deduplicated_are_unexplained() -> None:
    told = only(NUMBERED[4], idempotent=True).sentence
    assert "nothing in the history explains it: they have the same producer id, epoch" in told


def test_nothing_that_stands_twice_has_no_root_cause() -> None:
    world = World(idempotent=False)
    world.era()
    world.append(3, 0, 2, (-1, -1), 0)
    world.send(3, 0, 0, 1)
    performed = world.root_causes()
    assert (list(performed.causes), len(performed.of_records)) == ([], 0)
