"""What became of a send: the one place that decides between ``ok``, ``fail`` and ``info``.

``fail`` is a claim: no attempt to send this record can have been appended, now or later. Only the
client's refusal to take the record supports it. librdkafka's ``rd_kafka_producev``, and
``rd_kafka_produce_batch`` of each record, copies it into its queue only when it tells of no error,
so a record that was refused never left the process (:data:`DEFINITE`). A refusal with an error that
is not in the table is ``info`` all the same: what we have not thought about, we do not know.

A delivery report with an error is always ``info``, whatever the error:

- A report tells of the last attempt. A broker's NOT_ENOUGH_REPLICAS or TOPIC_AUTHORIZATION_FAILED
  says that this attempt was not appended, nothing of those before it, which may have been appended
  and their responses lost.
- ``retries=0`` does not help: librdkafka retries after errors that refresh metadata, such as
  NOT_LEADER_FOR_PARTITION, without counting (``rd_kafka_handle_Produce_error``). And a leader that
  is deposed while a record waits for its followers answers NOT_LEADER_FOR_PARTITION after
  appending it (KAFKA-13574).
- Local errors (_MSG_TIMED_OUT, _PURGE_QUEUE, _UNKNOWN_PARTITION, _UNKNOWN_TOPIC, _FATAL) also
  befall records that wait for their next attempt.
- ``rd_kafka_message_status``, which knows whether a record may have been persisted, is not asked:
  for errors it counts as refresh-and-retry it says "not persisted" too readily for the reason
  above.

A report without an error is ``ok``: the acknowledgement that the cell's ``acks`` asked for. With
``acks=0`` it is the client's own word, that the record was written to a socket.
"""

from collections.abc import Mapping

from confluent_kafka import KafkaError

from ackproof.history.schema import SendType

TIMED_OUT = "_TIMED_OUT"
"""The error of whatever had no outcome in time: librdkafka's, and told of other libraries, too."""

DEFINITE: Mapping[str, str] = {
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
    return SendType.FAIL if error.name() in DEFINITE else SendType.INFO


def of_report(error: KafkaError | None) -> SendType:
    """Outcome of a record whose delivery report carries ``error``."""
    return SendType.OK if error is None else SendType.INFO
