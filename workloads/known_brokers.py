"""Whether librdkafka still knows a broker that it could ask.

A broker that sees all of them fenced answers Metadata with topics and without brokers. librdkafka
(from 2.10 on, where it began to drop brokers that metadata do not name; seen with 2.16) then drops
all that it has, those of ``bootstrap.servers`` too. Whether it takes these up again is a race:
``rd_kafka_handle_Metadata``, when it is through, stops the timer by which it would, and what says
that it is about to stays set (confluentinc/librdkafka#5301). A client that has lost that race runs
on, lets everything time out that it is given, and asks nobody any more, ever. Its settings do not
help: ``metadata.recovery.strategy=rebootstrap``, which is the default, is that timer, and
``metadata.recovery.rebootstrap.trigger.ms`` counts from a request for metadata, which takes a
broker. What helps is another client.

Its error callback need not hear of it. Its statistics list every broker with its source.
"""

from ackproof.workloads.spec import Config

STATISTICS_MS = 5_000
LOOKS = 2
"""So often in a row none is listed of a client that has none: in between, it may be taking up
those of ``bootstrap.servers`` again."""
_SOURCES = ('"source":"configured"', '"source":"learned"')


class KnownBrokers:
    """What one client says of the brokers that it knows."""

    def __init__(self) -> None:
        self._without = 0

    @property
    def properties(self) -> Config:
        """With which the client is to be made, so that it says so: to :meth:`told`."""
        return {"statistics.interval.ms": STATISTICS_MS}

    @property
    def none_left(self) -> bool:
        """Whether it knows none any more, and will not."""
        return self._without >= LOOKS

    def told(self, statistics: str) -> None:
        """Its statistics, as JSON. Not read as such: they are long."""
        knows = any(source in statistics for source in _SOURCES)
        self._without = 0 if knows else self._without + 1
