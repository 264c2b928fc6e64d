"""A cell: one combination of topic and client settings, with a topic of its own.

A cell maps Kafka's names to values. The settings that the code reads by name are properties of it,
one each, below. Further properties of the topic and of the producer are in the same map, as
``topic.<name>`` and ``producer.<name>``, because both have a ``compression.type``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

Value = str | int | float | bool
"""A value of a Kafka or librdkafka property."""

T = TypeVar("T", bound=Value)


class Scope(StrEnum):
    """The place where a setting takes effect."""

    CREATION = "creation"
    """The creation of the topic."""
    TOPIC = "topic"
    """The topic's configuration."""
    PRODUCER = "producer"
    """The producer's configuration."""
    CONSUMER = "consumer"
    """The consumers that read the topic while it is written."""
    PROGRAM = "program"
    """The choice of the producer's program."""
    WORKLOAD = "workload"
    """The program that passes the records to the client library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[T]):
    """A setting with a known name. As an attribute of a cell, it is its value there.

    Attributes:
        name: Kafka's name for it.
        parse: Returns the value of an entry in a campaign file or a manifest. Raises ValueError
            with a message that says what would be right.
        scope: The place where it takes effect.
        default: Returns the value for a cell that does not set it; None if every cell must.
        short: Its short name in names of cells.
        named: Whether it is part of the name of every cell. Other settings are if they are swept,
            except at their usual value (:func:`harness.campaign.model.cells.combinations`).
        meaning: One or two sentences that say what it does, for the reference of the campaign file.
    """

    name: str
    parse: Callable[[object], T]
    scope: Scope
    default: "Callable[[Cell], T] | None" = None
    short: str | None = None
    named: bool = False
    meaning: str = ""

    @property
    def written(self) -> Mapping[str, object]:
        """The JSON Schema of a value in a campaign file."""
        return _WRITTEN.get(self.parse, {})

    def __get__(self, cell: "Cell | None", _owner: "type[Cell]") -> T:
        if cell is None:
            raise AttributeError(f"{self.name} is a setting of a cell: see SETTINGS")
        if self.name in cell.settings:
            return self.parse(cell.settings[self.name])
        if self.default is None:
            raise ValueError(f"the cell {cell.name} has no {self.name}")
        return self.default(cell)


def _acks(value: object) -> str:
    """Return the value as text. YAML reads ``acks: [0, 1, all]`` as two numbers and a word; -1 is
    Kafka's number for all."""
    if isinstance(value, bool) or str(value) not in ("0", "1", "all", "-1"):
        raise ValueError(f"acks is 0, 1 or all (-1), not {value!r}")
    return "all" if str(value) == "-1" else str(value)


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"a whole number from 1, not {value!r}")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false, not {value!r}")
    return value


READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"
ISOLATION_LEVELS = (READ_COMMITTED, READ_UNCOMMITTED)


def _isolation(value: object) -> str:
    if value not in ISOLATION_LEVELS:
        raise ValueError(f"isolation.level is {' or '.join(ISOLATION_LEVELS)}, not {value!r}")
    return str(value)


LIBRDKAFKA = "librdkafka"
LIBRARIES = (LIBRDKAFKA, "java", "aiokafka", "franz-go")
"""The client libraries that Ackproof has programs for. Plug-ins add others."""


_CLIENT = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*(:[0-9]+(\.[0-9]+)+)?")


def is_program(client: str) -> bool:
    """Return whether the client is the path of a user's own program and not the name of a
    library."""
    return "/" in client


def library_of(client: str) -> str:
    """Return the name of a client without the version that it may have: ``java`` of
    ``java:4.1.1``."""
    return client if is_program(client) else client.partition(":")[0]


def _client(value: object) -> str:
    """Return the name of a client. A history is read without the plug-ins of its run, so only the
    harness checks, when it reads a campaign, whether the name exists."""
    if not isinstance(value, str) or not (_CLIENT.fullmatch(value) or is_program(value)):
        raise ValueError(unknown_client(value, LIBRARIES))
    return value


def unknown_client(value: object, known: Iterable[str]) -> str:
    """Return that a value names no client, and which values would."""
    names = ", ".join(known)
    return f"{names}, or the path of a program (with a slash), not {value!r}"


SYNC = "sync"
ASYNC = "async"


def _producer_type(value: object) -> str:
    if value not in (SYNC, ASYNC):
        raise ValueError(f"producer.type is {SYNC} or {ASYNC}, not {value!r}")
    return str(value)


_WRITTEN: Mapping[Callable[[object], Value], Mapping[str, object]] = {
    _acks: {"enum": ["0", "1", "all", "-1", 0, 1, -1]},
    _count: {"type": "integer", "minimum": 1},
    _flag: {"type": "boolean"},
    _isolation: {"enum": list(ISOLATION_LEVELS)},
    _producer_type: {"enum": [SYNC, ASYNC]},
}

_IN_FLIGHT_IDEMPOTENT = 5
_IN_FLIGHT: Mapping[str, int] = {LIBRDKAFKA: 1_000_000, "java": 5, "aiokafka": 1, "franz-go": 1}
"""The default of each library without idempotence: librdkafka's CONFIGURATION.md, Java's
ProducerConfig, franz-go's MaxProduceRequestsInflightPerBroker. aiokafka allows no other value."""
_IN_FLIGHT_OF_OTHERS = 5
"""The default for other programs, which is Kafka's."""


def _in_flight(cell: "Cell") -> int:
    if cell.enable_idempotence:
        return _IN_FLIGHT_IDEMPOTENT
    return _IN_FLIGHT.get(library_of(cell.client), _IN_FLIGHT_OF_OTHERS)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of settings.

    Attributes:
        name: The name, for example ``acks-all.minisr-2``. Payloads contain it.
        topic: The name of its topic, for example ``acks-all-minisr-2``.
        settings: The settings by name; see the module.
    """

    name: str
    topic: str
    settings: Mapping[str, Value] = field(default_factory=dict)

    acks = Setting(
        name="acks",
        parse=_acks,
        scope=Scope.PRODUCER,
        named=True,
        meaning="Acks that a send waits for: none, the leader's (1), or all in-sync replicas' "
        "(all, -1).",
    )
    min_insync_replicas = Setting(
        name="min.insync.replicas",
        parse=_count,
        scope=Scope.TOPIC,
        default=lambda _: 1,
        short="minisr",
        named=True,
        meaning="The smallest ISR with which acks=all is accepted.",
    )
    replication_factor = Setting(
        name="replication.factor",
        parse=_count,
        scope=Scope.CREATION,
        default=lambda _: 3,
        short="rf",
        meaning="Replicas of each partition; at most the number of brokers.",
    )
    partitions = Setting(
        name="partitions",
        parse=_count,
        scope=Scope.CREATION,
        default=lambda _: 1,
        meaning="Partitions of the cell's topic.",
    )
    unclean_leader_election = Setting(
        name="unclean.leader.election.enable",
        parse=_flag,
        scope=Scope.TOPIC,
        default=lambda _: False,
        short="unclean",
        meaning="Let a replica outside the ISR lead if no member can; acked records may be lost.",
    )
    enable_idempotence = Setting(
        name="enable.idempotence",
        parse=_flag,
        scope=Scope.PRODUCER,
        default=lambda _: False,
        short="idempotence",
        meaning="Number records, so that no retry is written twice. Needs acks=all.",
    )
    max_in_flight = Setting(
        name="max.in.flight.requests.per.connection",
        parse=_count,
        scope=Scope.PRODUCER,
        default=_in_flight,
        short="inflight",
        meaning="Requests in flight to one broker. Default: 5 with enable.idempotence, else the"
        " library's own.",
    )
    producer_type = Setting(
        name="producer.type",
        parse=_producer_type,
        scope=Scope.WORKLOAD,
        default=lambda _: ASYNC,
        short="producer",
        meaning="sync: wait for each record's outcome before the next, even if that is then late. "
        "async: queue records and send batches. The name is Kafka 0.8's.",
    )
    client = Setting(
        name="client",
        parse=_client,
        scope=Scope.PROGRAM,
        default=lambda _: LIBRDKAFKA,
        meaning="The producers' library, also a plug-in's (docs/extend.md) or Java's client in"
        " another release (java:4.1.1), or the path of your own program, which needs --program"
        " (docs/client-protocol.md).",
    )

    isolation = Setting(
        name="isolation.level",
        parse=_isolation,
        scope=Scope.CONSUMER,
        default=lambda _: READ_UNCOMMITTED,
        short="isolation",
        meaning="Which records of the workload transactions consumers see: committed ones or all.",
    )

    def of(self, scope: Scope) -> Iterator[tuple[str, Value]]:
        """Yield everything that is set for ``scope``: known settings, then further properties."""
        for name, setting in SETTINGS.items():
            if setting.scope is scope and name in self.settings:
                yield name, setting.parse(self.settings[name])
        prefix = f"{scope}."
        for name, value in self.settings.items():
            if name.startswith(prefix) and name not in SETTINGS:
                yield name.removeprefix(prefix), value

    @property
    def retries(self) -> int | None:
        """The number of times that the producer sends a record again. None if it is not set, so
        that only time limits it (librdkafka's ``retries``, for which the longer name is an
        alias)."""
        for name in ("producer.retries", "producer.message.send.max.retries"):
            said = as_text(self.settings.get(name, ""))
            if said.isdecimal():
                return int(said)
        return None

    @property
    def flushes_every_record(self) -> bool:
        """Whether a broker syncs each record before it acknowledges it, or before it confirms it to
        the leader (``flush.messages=1``)."""
        return as_text(self.settings.get("topic.flush.messages", "")) == "1"

    @property
    def compacts(self) -> bool:
        """Whether the log is compacted (``cleanup.policy``), so that records may be removed from
        it."""
        return "compact" in as_text(self.settings.get("topic.cleanup.policy", ""))

    @property
    def delete_retention_ms(self) -> int | None:
        """The time for which compaction keeps a tombstone (``delete.retention.ms``), in
        milliseconds; None if the cell does not set it."""
        text = as_text(self.settings.get("topic.delete.retention.ms", ""))
        return int(text) if text.isdecimal() else None

    @property
    def tiered(self) -> bool:
        """Whether brokers copy its closed segments to a remote tier, and delete their own copies
        (KIP-405)."""
        return as_text(self.settings.get("topic.remote.storage.enable", "")) == "true"

    @property
    def reads_committed(self) -> bool:
        """Whether its consumers read committed records only."""
        return self.isolation == READ_COMMITTED

    @property
    def topic_partitions(self) -> tuple[tuple[str, int], ...]:
        """Its partitions, each as topic and number."""
        return tuple((self.topic, number) for number in range(self.partitions))


SETTINGS: Mapping[str, Setting[str] | Setting[int] | Setting[bool]] = {
    setting.name: setting for setting in vars(Cell).values() if isinstance(setting, Setting)
}
"""The settings with known names."""


def as_text(value: Value) -> str:
    """Return a value as Kafka writes it: ``true``, not ``True``."""
    return str(value).lower() if isinstance(value, bool) else str(value)
