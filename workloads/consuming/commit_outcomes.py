"""What became of a commit: the one place that decides between ``ok``, ``fail`` and ``info``.

``fail`` is a claim: the coordinator was never asked to keep these offsets. An answer with an error
does not support it, as little as one does for a send (``workloads.producing.outcomes``). It tells
of the last attempt: librdkafka (2.16, ``rdkafka_cgrp.c``) defers a commit that fails with
NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE or _TRANSPORT and asks the next coordinator, and
``rd_kafka_handle_OffsetCommit`` retries others. So the first attempt may have been stored and its
answer lost, and then the member's generation is over (ILLEGAL_GENERATION), it is fenced (_FATAL,
FENCED_INSTANCE_ID) or there is nobody left to ask (_WAIT_COORD). A coordinator that is deposed
while a commit waits for its followers answers NOT_COORDINATOR after appending it.

What is certain is what librdkafka finds before each first attempt and never behind one
(:data:`DEFINITE`). What is not in the table is ``info``: what we have not thought about, we do not
know.
"""

from collections.abc import Mapping

from confluent_kafka import KafkaError

from ackproof.history.schema import SendType

DEFINITE: Mapping[str, str] = {
    "_NO_OFFSET": "no partition has an offset; rd_kafka_cgrp_offsets_commit looks before it sends",
    "_ASSIGNMENT_LOST": "asked for whatever the client has, which it has not any more; looked for "
    "only while the commit names no offsets, which from the first attempt on it does",
    "_UNKNOWN_GROUP": "the client is in no group; rd_kafka_commit0 does not even queue it",
}
"""Errors with which a commit ends that was never sent, and how that is known."""


def of_commit(error: KafkaError | None) -> SendType:
    """Outcome of an offset whose commit ended with ``error``."""
    if error is None:
        return SendType.OK
    return SendType.FAIL if error.name() in DEFINITE else SendType.INFO
