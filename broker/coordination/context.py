"""What the parts of one broker's coordination share."""

from dataclasses import dataclass, field

from ackproof.broker.coordination.events import Op, ReadBrokers, WatchReassignments
from ackproof.broker.coordination.nodes import Assigned
from ackproof.broker.coordination.outbox import Outbox, Then
from ackproof.broker.coordination.settings import Settings
from ackproof.broker.coordination.variants import Variant
from ackproof.broker.types import BrokerId, Millis, TopicPartition

NO_SESSION = 0
NEVER = Millis(0)


@dataclass(slots=True, kw_only=True)
class Context:
    """``now`` is set at the beginning of each step."""

    settings: Settings
    variant: Variant
    outbox: Outbox = field(default_factory=Outbox)
    now: Millis = NEVER
    session: int = NO_SESSION
    stopping: bool = False
    orders: dict[TopicPartition, Assigned] = field(default_factory=dict)
    """``partitions_reassigned``, as last read."""
    _reading_brokers: bool = False
    _listens: bool = False

    @property
    def me(self) -> BrokerId:
        """This broker's id."""
        return self.settings.broker

    def write(self, ops: tuple[Op, ...], then: Then | None = None) -> None:
        """Have ``ops`` written in the session that the variant says."""
        self.outbox.write(ops, self.variant.session(self.session), then)

    def ask_for_brokers(self) -> None:
        """Have the live brokers read, once for all who want to know."""
        if not self._reading_brokers:
            self._reading_brokers = True
            self.outbox.put(ReadBrokers())

    def brokers_read(self) -> None:
        """Who asks from now on wants a newer answer."""
        self._reading_brokers = False

    def listen_to_reassignments(self) -> None:
        """ "Zookeeper listeners ONLY on the leader"."""
        if not self._listens:
            self._listens = True
            self.outbox.put(WatchReassignments())

    def begin_session(self, session: int) -> None:
        """Watches and reads of the last one are gone."""
        self.session = session
        self._reading_brokers = self._listens = False

    def end_session(self) -> None:
        """Nobody waits any more for what was begun in it."""
        self.session = NO_SESSION
        self.outbox.forget()
