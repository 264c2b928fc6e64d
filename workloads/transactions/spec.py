"""The specifications of transactional clients, with their names."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from ackproof.history.cell import LIBRDKAFKA
from ackproof.workloads.configuration import PRODUCER_DEFAULTS, producer_properties
from ackproof.workloads.foreign import properties as foreign
from ackproof.workloads.interface import Transactions
from ackproof.workloads.spec import Config, ConsumerSpec, FinalReadSpec, ProducerSpec

TRANSACTION_TIMEOUT_MS = 10_000
"""The default of ``transaction.timeout.ms``. For so long, what a killed client leaves open delays
all readers. librdkafka's default is a minute."""

READ_TABLES = ("log", "reads", "committed", "committed_reads", "transaction_offsets")
"""The tables that the final read writes."""


def transformer_of(topic: str, number: int) -> str:
    """Return the name of a transformer, as :func:`workloads.spec.producer_of`."""
    return f"transformer-{topic}-{number}"


def transformers_group(topic: str) -> str:
    """Return Kafka's ``group.id`` of a topic's transformers."""
    return f"{topic}-transformers"


class TransactionalSpec(ProducerSpec):
    """The specification of a client that writes in transactions.

    Attributes:
        seed: The seed of whatever it draws, with its name.
        transaction_records, aborts, fences: As ``records``, ``aborts`` and ``fences`` in
            :class:`workloads.interface.Transactions`. ``records`` is a producer's own: how many it
            sends in all, after which its silence is expected.
        library: The library whose errors it reports, as in :data:`history.cell.LIBRARIES`, or a
            program's path.
        program: The command line of that library's program; librdkafka has none.
    """

    acks: Literal["all"] = "all"
    seed: int
    transaction_records: int = Field(ge=1)
    aborts: float = Field(ge=0, le=1)
    fences: float = Field(ge=0, le=1)
    library: str = LIBRDKAFKA
    program: tuple[str, ...] = ()

    @property
    def transactional_id(self) -> str:
        """The ``transactional.id``. It begins with the prefix of the run's topics, because other
        runs and applications may use the same cluster."""
        return f"{self.topic}-{self.client}"


class TransformerSpec(TransactionalSpec):
    """The specification of a transformer; ``reader`` is that of its reading, as a member of
    ``group``."""

    group: str = Field(min_length=1)
    reader: ConsumerSpec

    @property
    def client(self) -> str:
        """The name of the transformer, and of the writer of its tables."""
        return transformer_of(self.topic, self.producer)


class TransactionalReadSpec(FinalReadSpec):
    """The specification of the final read, once of everything and once of what is committed.

    ``groups`` are those whose offsets it fetches, by topic.
    """

    groups: Mapping[str, str] = Field(default_factory=dict)


def drawn(asked: Transactions, seed: int) -> Mapping[str, object]:
    """Return the part of a specification that is about draws."""
    return {
        "seed": seed,
        "transaction_records": asked.records,
        "aborts": asked.aborts,
        "fences": asked.fences,
    }


BATCHES = 10
"""The most records of one poll of a transformer, as a multiple of a producer's average transaction,
so that slow transformers catch up."""


def transformer_properties(spec: TransformerSpec) -> dict[str, str]:
    """Return what the program of a transformer is told of its consumer."""
    most = str(BATCHES * spec.transaction_records)
    return {**foreign.consumer_properties(spec.reader, spec.group), "max.poll.records": most}


def session_properties(spec: TransactionalSpec) -> Config:
    """Return the properties of a session's producer in librdkafka.

    librdkafka refuses a ``message.timeout.ms`` above ``transaction.timeout.ms``: it would wait for
    a record when its transaction is over. Raise SpecificationError for what may not be set.
    """
    given = spec.producer_config
    timeout = int(given.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
    waited = int(PRODUCER_DEFAULTS["message.timeout.ms"])
    return {
        **producer_properties(spec),
        "message.timeout.ms": given.get("message.timeout.ms", min(timeout, waited)),
        "enable.idempotence": True,
        "transaction.timeout.ms": timeout,
        "transactional.id": spec.transactional_id,
    }


def program_properties(spec: TransactionalSpec) -> dict[str, str]:
    """Return what a session's program is told, except servers, name and acks, by Kafka's names."""
    given = spec.producer_config
    timeout = int(given.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
    waited = min(timeout, foreign.delivery_timeout_ms({}))
    properties = {
        foreign.DELIVERY_TIMEOUT: waited,
        **given,
        "enable.idempotence": True,
        "transaction.timeout.ms": timeout,
        "transactional.id": spec.transactional_id,
    }
    return foreign.producer_properties(spec.library, properties)
