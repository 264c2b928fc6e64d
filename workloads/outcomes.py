"""The outcome of each call of a client: the one place that decides between ``ok``, ``fail`` and
``info``.
"""

from collections.abc import Mapping

from confluent_kafka import KafkaError

from ackproof.history.schema import SendType
from ackproof.history.transactional import TransactionEvent

# --- sends with librdkafka ------------------------------------------------------------------------
#
# ``fail`` is a claim: no attempt to send this record can have been appended, now or later. Only the
# client's refusal to take the record supports it. librdkafka's ``rd_kafka_producev``, and
# ``rd_kafka_produce_batch`` of each record, copies it into its queue only when it tells of no
# error, so a record that was refused never left the process (:data:`DEFINITE_SENDS`). A refusal
# with an error that is not in the table is ``info`` all the same: what we have not thought about,
# we do not know.
#
# A delivery report with an error is always ``info``, whatever the error:
#
# - A report tells of the last attempt. A broker's NOT_ENOUGH_REPLICAS or TOPIC_AUTHORIZATION_FAILED
#   says that this attempt was not appended, nothing of those before it, which may have been
#   appended and their responses lost.
# - ``retries=0`` does not help: librdkafka retries after errors that refresh metadata, such as
#   NOT_LEADER_FOR_PARTITION, without counting (``rd_kafka_handle_Produce_error``). And a leader
#   that is deposed while a record waits for its followers answers NOT_LEADER_FOR_PARTITION after
#   appending it (KAFKA-13574).
# - Local errors (_MSG_TIMED_OUT, _PURGE_QUEUE, _UNKNOWN_PARTITION, _UNKNOWN_TOPIC, _FATAL) also
#   befall records that wait for their next attempt.
# - ``rd_kafka_message_status``, which knows whether a record may have been persisted, is not asked:
#   for errors it counts as refresh-and-retry it says "not persisted" too readily for the reason
#   above.
#
# A report without an error is ``ok``: the acknowledgement that the cell's ``acks`` asked for. With
# ``acks=0`` it is the client's own word, that the record was written to a socket.

TIMED_OUT = "_TIMED_OUT"
"""The error of whatever had no outcome in time: librdkafka's, and told of other libraries, too."""

DEFINITE_SENDS: Mapping[str, str] = {
    "_QUEUE_FULL": "the local queue is full; the record was not put into it",
    "MSG_SIZE_TOO_LARGE": "larger than the client's message.max.bytes; checked before queueing",
    "_UNKNOWN_PARTITION": "the topic has no such partition; checked before queueing",
    "_UNKNOWN_TOPIC": "the topic is known not to exist; checked before queueing",
    "UNKNOWN_TOPIC_OR_PART": "the topic is known not to exist; checked before queueing",
    "TOPIC_AUTHORIZATION_FAILED": "the topic is known to be forbidden; checked before queueing",
    "TOPIC_EXCEPTION": "the topic's name is known to be illegal; checked before queueing",
    "_FATAL": "the client has failed for good and takes no more records",
    "_STATE": "the client's transactional state forbids producing",
}
"""Errors with which the client refuses a record, and why the record cannot be appended."""


def of_refusal(error: KafkaError) -> SendType:
    """Outcome of a record that the client refused with ``error``."""
    return SendType.FAIL if error.name() in DEFINITE_SENDS else SendType.INFO


def of_report(error: KafkaError | None) -> SendType:
    """Outcome of a record whose delivery report carries ``error``."""
    return SendType.OK if error is None else SendType.INFO


# --- sends with another client library ------------------------------------------------------------
#
# ``fail`` is a claim: no attempt to send this record can have been appended, now or later; the
# reasons are the same as for librdkafka (:data:`DEFINITE_SENDS`). A library
# that has taken a record reports of its last attempt alone, and whatever it reports,
# NOT_ENOUGH_REPLICAS or a record that is too large, an attempt before it may have been appended and
# its answer lost. Java and franz-go, told to retry nothing, retry all the same what refreshes
# metadata or splits a batch; and aiokafka cannot be told. So ``failed`` is ``info``, always.
#
# What was refused never left the program, where that is known of the library:
# :data:`DEFINITE_PROGRAM_SENDS`. Of a user's own program nothing is known, and all of it is
# ``info``.

_METADATA = "the topic's metadata are waited for before the record is queued"

DEFINITE_PROGRAM_SENDS: Mapping[str, Mapping[str, str]] = {
    # KafkaProducer.doSend (4.1.1): waitOnMetadata, serialization, ensureValidRecordSize and
    # RecordAccumulator.append, in this order. What comes behind the append, with idempotence
    # (TransactionManager.maybeFailWithError: KafkaException, ProducerFencedException,
    # InvalidProducerEpochException, IllegalStateException), is not here: the record is queued then.
    "java": {
        "BufferExhaustedException": "no room within max.block.ms; RecordAccumulator.append",
        "TimeoutException": f"{_METADATA}; waitOnMetadata",
        "InvalidTopicException": f"{_METADATA}; waitOnMetadata",
        "TopicAuthorizationException": f"{_METADATA}; waitOnMetadata",
        "RecordTooLargeException": "larger than max.request.size; ensureValidRecordSize",
        "SerializationException": "serialized before it is queued",
    },
    # AIOKafkaProducer.send (0.14): everything that it raises comes before MessageBatch.append gives
    # a future, behind which it waits for nothing.
    "aiokafka": {
        "KafkaTimeoutError": "no room in the partition's batch; MessageAccumulator.add_message",
        "UnknownTopicOrPartitionError": f"{_METADATA}; AIOKafkaClient._wait_on_metadata",
        "TopicAuthorizationFailedError": f"{_METADATA}; AIOKafkaClient._wait_on_metadata",
        "MessageSizeTooLargeError": "larger than max_request_size; _serialize",
        "ProducerClosed": "the producer is closed; MessageAccumulator.add_message",
    },
    # Client.TryProduce (1.21): the promise is called with it before the record is counted as
    # buffered. MESSAGE_TOO_LARGE is a broker's answer, too.
    "franz-go": {
        "ErrMaxBuffered": "MaxBufferedRecords are buffered; the record was not",
    },
}
"""By library, the errors with which it refuses a record, and how it is known that the record cannot
be appended."""


def of_program_refusal(library: str, error: str) -> SendType:
    """Outcome of a record that ``library`` refused with ``error``."""
    return SendType.FAIL if error in DEFINITE_PROGRAM_SENDS.get(library, {}) else SendType.INFO


# --- commits of a consumer group ------------------------------------------------------------------
#
# ``fail`` is a claim: the coordinator was never asked to keep these offsets. An answer with an
# error does not support it, as little as one does for a send (``workloads.outcomes``). It
# tells of the last attempt: librdkafka (2.16, ``rdkafka_cgrp.c``) defers a commit that fails with
# NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE or _TRANSPORT and asks the next coordinator, and
# ``rd_kafka_handle_OffsetCommit`` retries others. So the first attempt may have been stored and its
# answer lost, and then the member's generation is over (ILLEGAL_GENERATION), it is fenced (_FATAL,
# FENCED_INSTANCE_ID) or there is nobody left to ask (_WAIT_COORD). A coordinator that is deposed
# while a commit waits for its followers answers NOT_COORDINATOR after appending it.
#
# What is certain is what librdkafka finds before each first attempt and never behind one
# (:data:`DEFINITE_COMMITS`). What is not in the table is ``info``: what we have not thought about,
# we do not know.

DEFINITE_COMMITS: Mapping[str, str] = {
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
    return SendType.FAIL if error.name() in DEFINITE_COMMITS else SendType.INFO


# --- calls to the transaction coordinator ---------------------------------------------------------
#
# ``fail`` of a commit is a claim: this transaction is not committed, now or later. A library asks
# the coordinator (EndTxn) again and again until its time is up, so an error tells of the last
# attempt alone, and one before it may have been carried out and its answer lost:
#
# - PRODUCER_FENCED and INVALID_PRODUCER_EPOCH (librdkafka's _FENCED, Java's
#   ProducerFencedException) say that a later session has begun; its ``init_transactions`` finishes
#   what was prepared, and that may be a commit. Whether it was asked for before that is for the
#   history to say (``checkers.checks.transaction_history``).
# - _TIMED_OUT, TimeoutException and any other error that calls itself retriable say nothing; they
#   are asked again.
# - An error that requires an abort (librdkafka's ``txn_requires_abort``, Java's abortable state: a
#   record was not delivered, the group's generation is over) nearly always comes before EndTxn; but
#   errors of an answer to it require one, too: INVALID_PRODUCER_ID_MAPPING and UNKNOWN_PRODUCER_ID
#   of librdkafka's (``rd_kafka_txn_handle_EndTxn``), UNKNOWN_PRODUCER_ID and TRANSACTION_ABORTABLE
#   of Java's (``TransactionManager.EndTxnHandler``). The abort that follows decides: answered, it
#   did abort (KIP-98: a coordinator aborts nothing that it has committed).
#
# So only what is refused before anything was asked is ``fail`` (:data:`DEFINITE_CALLS`).

_REFUSED_LOCALLY: Mapping[str, str] = {
    "_STATE": "the client's transactional state forbids it; checked before anything is sent",
    "_NOT_CONFIGURED": "the client has no transactional.id; likewise",
}
OFFSETS = "offsets"
"""Sending offsets to a transaction, which is no event of one."""

DEFINITE_CALLS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "librdkafka": {
        TransactionEvent.INIT: _REFUSED_LOCALLY,
        TransactionEvent.COMMIT: _REFUSED_LOCALLY,
        TransactionEvent.ABORT: _REFUSED_LOCALLY,
        OFFSETS: _REFUSED_LOCALLY,
    },
    # None of kafka-clients 4.1.1: TransactionManager.maybeFailWithError and transitionTo refuse
    # before anything is enqueued, by KafkaException, IllegalStateException, ProducerFencedException
    # and InvalidProducerEpochException; but classes are all that is told, and the first three are
    # also what an answer fails the same call with (EndTxnHandler, FindCoordinatorHandler:
    # fatalError), the last what an answer of before has left.
    "java": {},
}
"""By library and operation: errors with which the client refuses to ask, and why nothing was
asked. Of a program of the user's own nothing is known."""


def of_answer(library: str, operation: str, error: str | None, *, asked_before: bool) -> SendType:
    """Outcome of a call that ended with ``error``. ``asked_before``: whether it was called before,
    and timed out: then the client goes on with what it had begun, and a refusal tells nothing."""
    if error is None:
        return SendType.OK
    definite = error in DEFINITE_CALLS.get(library, {}).get(operation, {}) and not asked_before
    return SendType.FAIL if definite else SendType.INFO
