"""Only a commit that was certainly never sent is a failure."""

import pytest
from confluent_kafka import KafkaError

from ackproof.history.names import SendType
from ackproof.workloads.outcomes import DEFINITE_COMMITS, of_commit

CODES = sorted(
    code
    for name in dir(KafkaError)
    if name.lstrip("_")[:1].isupper() and (code := getattr(KafkaError, name)) != KafkaError.NO_ERROR
)


def test_failures_are_exactly_those_of_the_table() -> None:
    failures = {code for code in CODES if of_commit(KafkaError(code)) is SendType.FAIL}
    assert {KafkaError(code).name() for code in failures} == DEFINITE_COMMITS.keys()
    assert failures == {
        KafkaError._NO_OFFSET,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._UNKNOWN_GROUP,
    }


def test_no_answer_of_a_broker_is_a_failure() -> None:
    answers = [code for code in CODES if code > 0]
    assert len(answers) > 80
    assert {of_commit(KafkaError(code)) for code in answers} == {SendType.INFO}


def test_commit_without_an_error_is_committed() -> None:
    assert of_commit(None) is SendType.OK


@pytest.mark.parametrize("code", [-1000, 9999])
def test_unlisted_commit_error_is_indeterminate(code: int) -> None:
    assert of_commit(KafkaError(code)) is SendType.INFO
