"""Only a refusal that we know the meaning of is a failure."""

import pytest
from confluent_kafka import KafkaError

from ackproof.history.names import SendType
from ackproof.workloads.outcomes import DEFINITE_SENDS, of_refusal, of_report

CODES = sorted(
    code
    for name in dir(KafkaError)
    if name.lstrip("_")[:1].isupper() and (code := getattr(KafkaError, name)) != KafkaError.NO_ERROR
)
UNHEARD_OF = [-1000, 9999]


def test_librdkafkas_errors_are_all_looked_at() -> None:
    assert len(CODES) > 150


@pytest.mark.parametrize("code", CODES + UNHEARD_OF)
def test_a_report_with_an_error_is_never_a_failure(code: int) -> None:
    assert of_report(KafkaError(code)) is SendType.INFO


def test_a_report_without_an_error_is_an_acknowledgement() -> None:
    assert of_report(None) is SendType.OK


def test_refusals_are_failures_exactly_where_the_table_says_so() -> None:
    definite = {code for code in CODES if of_refusal(KafkaError(code)) is SendType.FAIL}
    assert {KafkaError(code).name() for code in definite} == DEFINITE_SENDS.keys()
    assert definite == {
        KafkaError._QUEUE_FULL,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._FATAL,
        KafkaError._STATE,
    }


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, *UNHEARD_OF])
def test_unlisted_refusal_is_indeterminate(code: int) -> None:
    assert of_refusal(KafkaError(code)) is SendType.INFO
