"""What became of what was asked of a transaction's coordinator: ``ok``, ``fail`` or ``info``.

``fail`` of a commit is a claim: this transaction is not committed, now or later. librdkafka asks
the coordinator (EndTxn) again and again until its time is up, so an error tells of the last attempt
alone, and one before it may have been carried out and its answer lost:

- PRODUCER_FENCED and INVALID_PRODUCER_EPOCH (as _FENCED, which is fatal) say that a later session
  has begun; its ``init_transactions`` finishes what was prepared, and that may be a commit. Whether
  it was asked for before that is for the history to say (``checkers.transactions.outcomes``).
- _TIMED_OUT and any other error that calls itself retriable say nothing; they are asked again.
- An error that requires an abort (``txn_requires_abort``: a record was not delivered, the group's
  generation is over) nearly always comes before EndTxn; but INVALID_PRODUCER_ID_MAPPING and
  UNKNOWN_PRODUCER_ID of an answer to it require one, too (``rd_kafka_txn_handle_EndTxn``). The
  abort that follows decides: answered, it did abort (KIP-98: a coordinator aborts nothing that it
  has committed).

So only what is refused before anything was asked is ``fail`` (:data:`DEFINITE`).
"""

from collections.abc import Mapping

from confluent_kafka import KafkaError

from history.schema import SendType

DEFINITE: Mapping[str, str] = {
    "_STATE": "the client's transactional state forbids it; checked before anything is sent",
    "_NOT_CONFIGURED": "the client has no transactional.id; likewise",
}
"""Errors with which the client refuses to ask, and why nothing was asked."""


def of_answer(error: KafkaError | None, *, asked_before: bool) -> SendType:
    """Outcome of a call that ended with ``error``. ``asked_before``: whether it was called before,
    and timed out: then the client goes on with what it had begun, and a refusal tells nothing."""
    if error is None:
        return SendType.OK
    definite = error.name() in DEFINITE and not asked_before
    return SendType.FAIL if definite else SendType.INFO
