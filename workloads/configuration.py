"""What librdkafka is told: our defaults, and which properties a campaign may not change.

The defaults suit runs whose faults last about ten seconds. A paused leader keeps its connections
open, so only a time-out tells the client: ``socket.timeout.ms`` is shorter than such a fault, and
``message.timeout.ms`` leaves time for the retry at the next leader. ``request.timeout.ms``, how
long a broker may wait for its followers, is shorter still, so that the broker answers before the
client gives up. ``topic.metadata.refresh.interval.ms`` stays as it is: a client that looked for
new leaders all the time would never write to one that was deposed behind a partition.
"""

from collections.abc import Mapping

from history.cell import Cell, Scope
from workloads.spec import Config, ProducerSpec, SpecificationError

PRODUCER_DEFAULTS: Mapping[str, str | bool | int] = {
    "enable.idempotence": False,
    "linger.ms": 5,
    "message.timeout.ms": 20_000,
    "request.timeout.ms": 5_000,
    "socket.timeout.ms": 6_000,
    "socket.connection.setup.timeout.ms": 5_000,
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 1_000,
    "queue.buffering.max.messages": 100_000,
}

RESERVED: Mapping[str, str] = {
    "bootstrap.servers": "the harness knows where the cluster is",
    "acks": "it is what the cell is about: set the cell's acks",
    "delivery.report.only.error": "acknowledgements would not be recorded",
    "transactional.id": "sends are not transactional",
    "plugin.library.paths": "a campaign file must not make anybody load a program",
    "ssl.engine.location": "a campaign file must not make anybody load a program",
}
"""Properties that ``producer_config`` may not set, and why."""

_ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "request.required.acks": "acks",
    "delivery.timeout.ms": "message.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
}
_POSITIVE = ("message.timeout.ms", "queue.buffering.max.messages")
_CONNECTION = ("security.protocol", "sasl.", "ssl.", "enable.ssl.", "broker.address.family")


def canonical(name: str) -> str:
    """The name of a property that librdkafka knows under several."""
    return _ALIASES.get(name, name)


def producer_config(cell: Cell) -> Config:
    """What the cell says of its producer, but for acks, which a specification has apart."""
    return {name: value for name, value in cell.of(Scope.PRODUCER) if name != "acks"}


def producer_properties(spec: ProducerSpec) -> Config:
    """The properties of a producer. Raises SpecificationError for what may not be set."""
    given = {canonical(name): value for name, value in spec.producer_config.items()}
    for name in RESERVED.keys() & given.keys():
        raise SpecificationError(f"producer_config may not set {name}: {RESERVED[name]}")
    properties: Config = {
        **PRODUCER_DEFAULTS,
        **given,
        "client.id": f"{spec.cell}-{spec.producer}",
        "bootstrap.servers": spec.bootstrap_servers,
        "acks": spec.acks,
    }
    for name in _POSITIVE:
        if not _is_positive(properties[name]):
            raise SpecificationError(f"{name} must be a number above 0: no limit is no option")
    return properties


def connection_properties(producer_config: Mapping[str, str | int | float | bool]) -> Config:
    """Those of a producer's properties that any client needs to connect (security)."""
    return {name: value for name, value in producer_config.items() if name.startswith(_CONNECTION)}


def _is_positive(value: str | float) -> bool:
    try:
        return int(value) > 0
    except ValueError:
        return False
