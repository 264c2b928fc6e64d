"""Only a refusal that we know the meaning of is a failure, library by library."""

import pytest

from ackproof.history.cell import LIBRARIES, LIBRDKAFKA
from ackproof.history.names import SendType
from ackproof.workloads.outcomes import DEFINITE_PROGRAM_SENDS, of_program_refusal

NEVER_CERTAIN = (
    # Java throws these behind the append, where the producer is idempotent.
    *("KafkaException", "ProducerFencedException", "InvalidProducerEpochException"),
    *("IllegalStateException", "OutOfOrderSequenceException"),
    # What brokers answer tells of one attempt.
    *("NotEnoughReplicasException", "NotEnoughReplicasAfterAppendException"),
    *("NotLeaderForPartitionError", "NOT_ENOUGH_REPLICAS", "MESSAGE_TOO_LARGE"),
    "ErrRecordTimeout",
)


def test_every_library_has_a_table() -> None:
    assert {LIBRDKAFKA, *DEFINITE_PROGRAM_SENDS} == set(LIBRARIES)
    assert all(why for table in DEFINITE_PROGRAM_SENDS.values() for why in table.values())


@pytest.mark.parametrize("library", [*DEFINITE_PROGRAM_SENDS, "./own"])
@pytest.mark.parametrize("error", [*NEVER_CERTAIN, "Unheard.of"])
def test_uncertain_refusal_is_indeterminate(library: str, error: str) -> None:
    assert of_program_refusal(library, error) is SendType.INFO


@pytest.mark.parametrize(
    ("library", "error"),
    [(library, one) for library, table in DEFINITE_PROGRAM_SENDS.items() for one in table],
)
def test_a_library_refuses_by_its_own_table_alone(library: str, error: str) -> None:
    assert of_program_refusal(library, error) is SendType.FAIL
    assert of_program_refusal("./own", error) is SendType.INFO
    others = [one for one, table in DEFINITE_PROGRAM_SENDS.items() if error not in table]
    assert {of_program_refusal(one, error) for one in others} <= {SendType.INFO}
    assert others
