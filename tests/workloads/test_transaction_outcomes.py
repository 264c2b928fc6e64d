"""Only a commit that was certainly never asked for is a failure; what is drawn follows from seed
and client alone."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from ackproof.history.cell import LIBRARIES
from ackproof.history.names import SendType
from ackproof.workloads.outcomes import DEFINITE_CALLS, OFFSETS, of_answer
from ackproof.workloads.transactions.session import ClientDraws, RecordDraw, TransactionEnd
from ackproof.workloads.transactions.spec import TransactionalSpec

CODES = sorted(
    code
    for name in dir(KafkaError)
    if name.lstrip("_")[:1].isupper() and (code := getattr(KafkaError, name)) != KafkaError.NO_ERROR
)


OPERATIONS = ("init", "commit", "abort", OFFSETS)
NAMES = [KafkaError(code).name() for code in CODES]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_failures_are_exactly_those_of_the_table(operation: str) -> None:
    failures = {
        name
        for name in NAMES
        if of_answer("librdkafka", operation, name, asked_before=False) is SendType.FAIL
    }
    assert (
        failures == DEFINITE_CALLS["librdkafka"][operation].keys() == {"_STATE", "_NOT_CONFIGURED"}
    )


def test_no_answer_of_a_broker_is_a_failure() -> None:
    answers = [KafkaError(code).name() for code in CODES if code > 0]
    assert len(answers) > 80
    assert {
        of_answer(library, operation, name, asked_before=False)
        for library in LIBRARIES
        for operation in OPERATIONS
        for name in answers
    } == {SendType.INFO}


@pytest.mark.parametrize("library", ["java", "./own"])
@pytest.mark.parametrize("error", ["IllegalStateException", "KafkaException", "_STATE"])
def test_unlisted_error_is_indeterminate(library: str, error: str) -> None:
    """KafkaException is how Java refuses to ask, and also how it tells of an answer."""
    assert of_answer(library, "commit", error, asked_before=False) is SendType.INFO


def test_repeated_request_may_have_been_carried_out() -> None:
    assert {
        of_answer(library, operation, name, asked_before=True)
        for library in LIBRARIES
        for operation in OPERATIONS
        for name in NAMES
    } == {SendType.INFO}


@pytest.mark.parametrize("library", [*LIBRARIES, "./own"])
def test_without_an_error_it_is_so(library: str) -> None:
    assert of_answer(library, "commit", None, asked_before=True) is SendType.OK


def spec(seed: int, producer: int = 0) -> TransactionalSpec:
    return TransactionalSpec(
        cell="c",
        topic="t",
        partitions=3,
        producer=producer,
        rate=10,
        record_bytes=100,
        bootstrap_servers="unreachable:1",
        history=Path(),
        progress=Path(),
        seed=seed,
        transaction_records=10,
        aborts=0.3,
        fences=0.1,
    )


def drawn(of: TransactionalSpec) -> list[tuple[TransactionEnd, int, RecordDraw]]:
    draws = ClientDraws(of)
    return [(draws.end(), draws.records(), draws.record()) for _ in range(300)]


def test_same_seed_draws_the_same_transactions() -> None:
    assert drawn(spec(1)) == drawn(spec(1))


@pytest.mark.parametrize("other", [spec(2), spec(1, producer=1)])
def test_another_seed_and_another_client_draw_otherwise(other: TransactionalSpec) -> None:
    assert drawn(other) != drawn(spec(1))


def test_shares_follow_the_specification() -> None:
    ends = [end for end, _, _ in drawn(spec(1))]
    assert set(ends) == set(TransactionEnd)
    assert (
        ends.count(TransactionEnd.COMMIT)
        > ends.count(TransactionEnd.ABORT)
        > ends.count(TransactionEnd.FENCE)
    )
    assert {records for _, records, _ in drawn(spec(1))} <= set(range(5, 16))


def test_drawn_key_decides_the_partition_and_tombstones_follow_their_share() -> None:
    keyed = spec(1).model_copy(update={"keys": 7, "tombstones": 0.3})
    records = [record for *_, record in drawn(keyed)]
    assert {record.key for record in records} == set(range(7))
    assert all(record.partition == record.key % keyed.partitions for record in records)
    assert 0.2 < sum(record.deletes for record in records) / len(records) < 0.4
    assert not any(record.deletes for *_, record in drawn(spec(1)))
