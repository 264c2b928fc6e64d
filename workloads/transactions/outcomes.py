"""What became of what was asked of a transaction's coordinator: ``ok``, ``fail`` or ``info``.

``fail`` of a commit is a claim: this transaction is not committed, now or later. A library asks
the coordinator (EndTxn) again and again until its time is up, so an error tells of the last attempt
alone, and one before it may have been carried out and its answer lost:

- PRODUCER_FENCED and INVALID_PRODUCER_EPOCH (librdkafka's _FENCED, Java's ProducerFencedException)
  say that a later session has begun; its ``init_transactions`` finishes what was prepared, and that
  may be a commit. Whether it was asked for before that is for the history to say
  (``checkers.transactions.outcomes``).
- _TIMED_OUT, TimeoutException and any other error that calls itself retriable say nothing; they are
  asked again.
- An error that requires an abort (librdkafka's ``txn_requires_abort``, Java's abortable state: a
  record was not delivered, the group's generation is over) nearly always comes before EndTxn; but
  errors of an answer to it require one, too: INVALID_PRODUCER_ID_MAPPING and UNKNOWN_PRODUCER_ID of
  librdkafka's (``rd_kafka_txn_handle_EndTxn``), UNKNOWN_PRODUCER_ID and TRANSACTION_ABORTABLE of
  Java's (``TransactionManager.EndTxnHandler``). The abort that follows decides: answered, it did
  abort (KIP-98: a coordinator aborts nothing that it has committed).

So only what is refused before anything was asked is ``fail`` (:data:`DEFINITE`).
"""

from collections.abc import Mapping

from ackproof.history.schema import SendType
from ackproof.history.transactional import TransactionEvent

_LOCAL: Mapping[str, str] = {
    "_STATE": "the client's transactional state forbids it; checked before anything is sent",
    "_NOT_CONFIGURED": "the client has no transactional.id; likewise",
}
OFFSETS = "offsets"
"""Sending offsets to a transaction, which is no event of one."""

DEFINITE: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "librdkafka": {
        TransactionEvent.INIT: _LOCAL,
        TransactionEvent.COMMIT: _LOCAL,
        TransactionEvent.ABORT: _LOCAL,
        OFFSETS: _LOCAL,
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
    definite = error in DEFINITE.get(library, {}).get(operation, {}) and not asked_before
    return SendType.FAIL if definite else SendType.INFO
