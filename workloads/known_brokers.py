"""The check whether librdkafka still knows a broker that it could ask.

A broker that sees all brokers fenced answers Metadata with topics and without brokers. librdkafka
began in 2.10 to drop brokers that metadata do not name (seen with 2.16). It then drops all brokers
that it has, those of ``bootstrap.servers`` too.

Whether it takes these up again is a race (confluentinc/librdkafka#5301). When
``rd_kafka_handle_Metadata`` is through, it stops the timer for that, but the mark that the timer is
about to run stays set. A client that has lost that race runs on, lets everything that it is given
time out, and never asks any broker again.

Its settings do not help. ``metadata.recovery.strategy=rebootstrap``, which is the default, is that
timer. ``metadata.recovery.rebootstrap.trigger.ms`` counts from a request for metadata, which takes
a broker. Only another client helps.

Its error callback may hear nothing of it. Its statistics list every broker with its source.
"""

from ackproof.workloads.spec import Config

STATISTICS_MS = 5_000
LOOKS = 2
"""How many statistics in a row list no broker for a client that has none. With fewer, it may be
taking up those of ``bootstrap.servers`` again."""
_SOURCES = ('"source":"configured"', '"source":"learned"')


class KnownBrokers:
    """The brokers that one client knows, by its own statistics."""

    def __init__(self) -> None:
        self._without = 0

    @property
    def properties(self) -> Config:
        """The properties that make the client report to :meth:`on_statistics`."""
        return {"statistics.interval.ms": STATISTICS_MS}

    @property
    def none_left(self) -> bool:
        """Whether the client knows no broker any more, and will not know one."""
        return self._without >= LOOKS

    def on_statistics(self, statistics: str) -> None:
        """Note its statistics, as JSON; they are not parsed, because they are long."""
        knows = any(source in statistics for source in _SOURCES)
        self._without = 0 if knows else self._without + 1
