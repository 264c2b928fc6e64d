"""The outcome of each call of a client: the one place that decides between ``ok``, ``fail`` and
``info``."""

from collections.abc import Mapping

from confluent_kafka import KafkaError

from ackproof.history.names import SendType
from ackproof.history.transactional import TransactionEvent

# --- sends with librdkafka ------------------------------------------------------------------------
#
# ``fail`` is a claim: no attempt to send this record can have been appended, now or later. Only the
# client's refusal to take the record supports it. librdkafka's ``rd_kafka_producev``, and
# ``rd_kafka_produce_batch`` for each record, copies it into its queue only when it returns no
# error. So a record that was refused never left the process (:data:`DEFINITE_SENDS`). A refusal
# with an error that is not in the table is ``info`` all the same, because its meaning was not
# examined.
#
# A delivery report with an error is always ``info``, whatever the error:
#
# - A report describes the last attempt. A broker's NOT_ENOUGH_REPLICAS or
#   TOPIC_AUTHORIZATION_FAILED says that this attempt was not appended. It says nothing of those
#   before it, which may have been appended and their responses lost.
# - ``retries=0`` does not help. librdkafka retries after errors that refresh metadata, such as
#   NOT_LEADER_FOR_PARTITION, without counting (``rd_kafka_handle_Produce_error``). And a leader
#   that is deposed while a record waits for its followers answers NOT_LEADER_FOR_PARTITION after
#   appending it (KAFKA-13574).
# - Local errors (_MSG_TIMED_OUT, _PURGE_QUEUE, _UNKNOWN_PARTITION, _UNKNOWN_TOPIC, _FATAL) also hit
#   records that wait for their next attempt.
# - ``rd_kafka_message_status``, which knows whether a record may have been persisted, is not asked.
#   For errors that it counts as refresh-and-retry it says "not persisted" too readily, for the
#   reason above.
#
# A report without an error is ``ok``: the acknowledgement that the cell's ``acks`` asked for. With
# ``acks=0`` it is the client's own word that the record was written to a socket.

TIMED_OUT = "_TIMED_OUT"
"""The error of everything that had no outcome in time: librdkafka's, and used for other libraries,
too."""

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
"""The errors with which the client refuses a record, and why the record cannot be appended."""


def of_refusal(error: KafkaError) -> SendType:
    """Return the outcome of a record that the client refused with ``error``."""
    return SendType.FAIL if error.name() in DEFINITE_SENDS else SendType.INFO


def of_report(error: KafkaError | None) -> SendType:
    """Return the outcome of a record whose delivery report carries ``error``."""
    return SendType.OK if error is None else SendType.INFO


# --- sends with another client library ------------------------------------------------------------
#
# ``fail`` is a claim: no attempt to send this record can have been appended, now or later. The
# reasons are the same as for librdkafka (:data:`DEFINITE_SENDS`). A library that has taken a record
# reports only its last attempt. Whatever it reports, NOT_ENOUGH_REPLICAS or a record that is too
# large, an attempt before it may have been appended and its answer lost. Java and franz-go, told to
# retry nothing, still retry what refreshes metadata or splits a batch; and aiokafka has no such
# setting. So ``failed`` is ``info``, always.
#
# A refused record never left the program, where that is known of the library:
# :data:`DEFINITE_PROGRAM_SENDS`. For a user's own program nothing is known, and everything is
# ``info``.

_METADATA = "the topic's metadata are waited for before the record is queued"

DEFINITE_PROGRAM_SENDS: Mapping[str, Mapping[str, str]] = {
    # KafkaProducer.doSend (4.1.1) runs waitOnMetadata, serialization, ensureValidRecordSize and
    # RecordAccumulator.append, in this order. Errors behind the append, with idempotence, are not
    # here, because the record is then queued (TransactionManager.maybeFailWithError:
    # KafkaException, ProducerFencedException, InvalidProducerEpochException,
    # IllegalStateException).
    "java": {
        "BufferExhaustedException": "no room within max.block.ms; RecordAccumulator.append",
        "TimeoutException": f"{_METADATA}; waitOnMetadata",
        "InvalidTopicException": f"{_METADATA}; waitOnMetadata",
        "TopicAuthorizationException": f"{_METADATA}; waitOnMetadata",
        "RecordTooLargeException": "larger than max.request.size; ensureValidRecordSize",
        "SerializationException": "serialized before it is queued",
    },
    # AIOKafkaProducer.send (0.14) raises all its errors before MessageBatch.append gives a future,
    # and waits for nothing behind that.
    "aiokafka": {
        "KafkaTimeoutError": "no room in the partition's batch; MessageAccumulator.add_message",
        "UnknownTopicOrPartitionError": f"{_METADATA}; AIOKafkaClient._wait_on_metadata",
        "TopicAuthorizationFailedError": f"{_METADATA}; AIOKafkaClient._wait_on_metadata",
        "MessageSizeTooLargeError": "larger than max_request_size; _serialize",
        "ProducerClosed": "the producer is closed; MessageAccumulator.add_message",
    },
    # Client.TryProduce (1.21) calls the promise with it before the record is counted as buffered.
    # MESSAGE_TOO_LARGE is a broker's answer, too.
    "franz-go": {
        "ErrMaxBuffered": "MaxBufferedRecords are buffered; the record was not",
    },
}
"""The errors with which each library refuses a record, and how it is known that the record cannot
be appended."""


def of_program_refusal(library: str, error: str) -> SendType:
    """Return the outcome of a record that ``library`` refused with ``error``."""
    return SendType.FAIL if error in DEFINITE_PROGRAM_SENDS.get(library, {}) else SendType.INFO


# --- commits of a consumer group ------------------------------------------------------------------
#
# ``fail`` is a claim: the coordinator was never asked to keep these offsets. An answer with an
# error does not support it, as with a send. It describes the last attempt. librdkafka (2.16,
# ``rdkafka_cgrp.c``) defers a commit that fails with NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE or
# _TRANSPORT and asks the next coordinator. ``rd_kafka_handle_OffsetCommit`` retries others.
#
# So the first attempt may have been stored and its answer lost. Then the member's generation is
# over (ILLEGAL_GENERATION), it is fenced (_FATAL, FENCED_INSTANCE_ID) or no coordinator is left to
# ask (_WAIT_COORD). A coordinator that is deposed while a commit waits for its followers answers
# NOT_COORDINATOR after appending it.
#
# Only what librdkafka finds before each first attempt and never behind one is certain
# (:data:`DEFINITE_COMMITS`). An error that is not in the table is ``info``, because its meaning was
# not examined.

DEFINITE_COMMITS: Mapping[str, str] = {
    "_NO_OFFSET": "no partition has an offset; rd_kafka_cgrp_offsets_commit looks before it sends",
    "_ASSIGNMENT_LOST": "asked for whatever the client has, which it has not any more; looked for "
    "only while the commit names no offsets, which from the first attempt on it does",
    "_UNKNOWN_GROUP": "the client is in no group; rd_kafka_commit0 does not even queue it",
}
"""The errors of a commit that was never sent, and how that is known."""


def of_commit(error: KafkaError | None) -> SendType:
    """Return the outcome of an offset whose commit ended with ``error``."""
    if error is None:
        return SendType.OK
    return SendType.FAIL if error.name() in DEFINITE_COMMITS else SendType.INFO


# --- calls to the transaction coordinator ---------------------------------------------------------
#
# ``fail`` of a commit is a claim: this transaction is not committed, now or later. A library asks
# the coordinator (EndTxn) again and again until its time is up. So an error describes only the last
# attempt, and one before it may have been carried out and its answer lost:
#
# - PRODUCER_FENCED and INVALID_PRODUCER_EPOCH (librdkafka's _FENCED, Java's
#   ProducerFencedException) say that a later session has begun. Its ``init_transactions`` finishes
#   what was prepared, and that may be a commit. The history shows whether it was asked for before
#   that (``checkers.checks.transaction_history``).
# - _TIMED_OUT, TimeoutException and any other error that calls itself retriable say nothing; they
#   are asked again.
# - An error that requires an abort nearly always comes before EndTxn (librdkafka's
#   ``txn_requires_abort``, Java's abortable state: a record was not delivered, the group's
#   generation is over). But errors of an answer to it require one, too: librdkafka's
#   INVALID_PRODUCER_ID_MAPPING and UNKNOWN_PRODUCER_ID (``rd_kafka_txn_handle_EndTxn``), Java's
#   UNKNOWN_PRODUCER_ID and TRANSACTION_ABORTABLE (``TransactionManager.EndTxnHandler``). The abort
#   that follows decides: if it is answered, it did abort (KIP-98: a coordinator aborts nothing that
#   it has committed).
#
# So only what is refused before any request is ``fail`` (:data:`DEFINITE_CALLS`).

_REFUSED_LOCALLY: Mapping[str, str] = {
    "_STATE": "the client's transactional state forbids it; checked before anything is sent",
    "_NOT_CONFIGURED": "the client has no transactional.id; checked before anything is sent",
}
OFFSETS = "offsets"
"""The operation that sends offsets to a transaction, which is no event of one."""

DEFINITE_CALLS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "librdkafka": {
        TransactionEvent.INIT: _REFUSED_LOCALLY,
        TransactionEvent.COMMIT: _REFUSED_LOCALLY,
        TransactionEvent.ABORT: _REFUSED_LOCALLY,
        OFFSETS: _REFUSED_LOCALLY,
    },
    # There are none for kafka-clients 4.1.1. TransactionManager.maybeFailWithError and transitionTo
    # refuse before anything is enqueued, by KafkaException, IllegalStateException,
    # ProducerFencedException and InvalidProducerEpochException. But only the class is reported. The
    # first three can also come from an answer to the same call (EndTxnHandler,
    # FindCoordinatorHandler: fatalError), and the last from an earlier answer.
    "java": {},
}
"""The errors with which a client refuses to ask, by library and operation, and why nothing was
asked. For a program of the user's own nothing is known."""


def of_answer(library: str, operation: str, error: str | None, *, asked_before: bool) -> SendType:
    """Return the outcome of a call that ended with ``error``.

    ``asked_before`` says whether it was called before, and timed out. The client then goes on with
    what it had begun, and a refusal proves nothing.
    """
    if error is None:
        return SendType.OK
    definite = error in DEFINITE_CALLS.get(library, {}).get(operation, {}) and not asked_before
    return SendType.FAIL if definite else SendType.INFO
