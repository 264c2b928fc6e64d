"""What became of a send by another library: when an error is ``fail``, and when ``info``.

``fail`` is a claim: no attempt to send this record can have been appended, now or later; the
reasons are those of :mod:`workloads.producing.outcomes`, which has librdkafka's table. A library
that has taken a record reports of its last attempt alone, and whatever it reports,
NOT_ENOUGH_REPLICAS or a record that is too large, an attempt before it may have been appended and
its answer lost. Java and franz-go, told to retry nothing, retry all the same what refreshes
metadata or splits a batch; and aiokafka cannot be told. So ``failed`` is ``info``, always.

What was refused never left the program, where that is known of the library: :data:`DEFINITE`. Of a
user's own program nothing is known, and all of it is ``info``.
"""

from collections.abc import Mapping

from ackproof.history.schema import SendType

_METADATA = "the topic's metadata are waited for before the record is queued"

DEFINITE: Mapping[str, Mapping[str, str]] = {
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


def of_refusal(library: str, error: str) -> SendType:
    """Outcome of a record that ``library`` refused with ``error``."""
    return SendType.FAIL if error in DEFINITE.get(library, {}) else SendType.INFO
