"""An administrator of the cluster in memory. The view shows the effect of each order, or does
not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ackproof.infra.api.capabilities import AdminTimeout, Election, LogDirectory, NoSuchTopic
from ackproof.infra.api.interface import ClusterView, ViewUnavailable

Key = tuple[str, int]

_DIRECTORIES = ("/disks/1", "/disks/2")
"""The log directories that each broker describes."""


@dataclass
class MemoryAdmin:
    """An administrator. ``view`` is that of the cluster. A leader remains while it can, because a
    new order of replicas is no election."""

    view: Callable[[], ClusterView]
    answer_ms: int = 20
    assigned: dict[Key, list[int]] = field(default_factory=dict)
    """The replicas that were ordered, by partition."""
    own: dict[str, int] = field(default_factory=dict)
    """The numbers of partitions of topics that were created by orders."""
    isrs: dict[Key, list[int]] = field(default_factory=dict)
    """The ISRs that do not include all replicas."""
    epochs: dict[Key, int] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    starts: dict[Key, int] = field(default_factory=dict)
    leads: dict[Key, int] = field(default_factory=dict)
    lies: dict[tuple[int, str, int], str] = field(default_factory=dict)
    """The log directories of replicas that were moved, by broker and partition. The others lie in
    the first one."""
    moving: dict[tuple[int, str, int], str] = field(default_factory=dict)
    """The log directories to which replicas are being moved."""
    limits: dict[int, int] = field(default_factory=dict)
    """The limits of moves between log directories, by broker. With one, no move ends."""
    deaf: bool = False
    """Whether it accepts orders and does nothing, like a fault without effect."""
    silent: bool = False
    """Whether it executes orders without changing the view."""
    refusal: Exception | None = None
    refusals: float = float("inf")
    """The number of further orders that are refused."""
    orders: list[str] = field(default_factory=list)

    def leader(self, key: Key, isr: Sequence[int]) -> int:
        """Return the leader among the live in-sync replicas."""
        before = self.leads.get(key)
        return before if before is not None and before in isr else isr[0] if isr else -1

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], within_s: float
    ) -> None:
        def carry_out() -> None:
            one = self.view().partitions.get((topic, partition))
            if one is None:
                raise NoSuchTopic(topic)
            self.leads[topic, partition] = one.leader
            self.assigned[topic, partition] = list(replicas)

        self._order("reassign", within_s, carry_out)

    def elect(self, election: Election, topic: str, partition: int, within_s: float) -> bool:
        key = topic, partition
        one = self.view().partitions[key]
        if election is Election.UNCLEAN and one.leader != -1:
            return False

        def carry_out() -> None:
            live = [b for b in one.replicas if b in self.view().brokers]
            if election is Election.UNCLEAN:
                self.isrs[key] = live[:1]
            self.leads.pop(key, None)
            self.epochs[key] = one.leader_epoch + 1

        self._order(f"elect {election}", within_s, carry_out)
        return True

    def create_topic(
        self, topic: str, assignment: Sequence[Sequence[int]], within_s: float
    ) -> None:
        def carry_out() -> None:
            self.own[topic] = len(assignment)
            self.assigned |= {(topic, n): list(ids) for n, ids in enumerate(assignment)}

        self._order("create", within_s, carry_out)

    def grow_topic(self, topic: str, partitions: int, within_s: float) -> None:
        self._order("grow", within_s, lambda: self.own.update({topic: partitions}))

    def delete_topic(self, topic: str, within_s: float) -> None:
        self._order("delete", within_s, lambda: self.own.pop(topic, None))

    def set_topic_config(self, topic: str, name: str, value: str | None, within_s: float) -> None:
        def carry_out() -> None:
            own = self.configs.setdefault(topic, {})
            own.pop(name, None)
            own |= {} if value is None else {name: value}

        self._order("set", within_s, carry_out)

    def topic_config(self, topic: str) -> Mapping[str, str]:
        self.view()
        return dict(self.configs.get(topic, {}))

    def append(self, topic: str, partition: int, records: int, within_s: float) -> None:
        assert records > 0
        self._order("append", within_s, lambda: self.starts.setdefault((topic, partition), 0))

    def delete_records(self, topic: str, partition: int, before: int, within_s: float) -> None:
        self._order("trim", within_s, lambda: self.starts.update({(topic, partition): before}))

    def log_start(self, topic: str, partition: int, within_s: float) -> int:
        assert within_s > 0
        return self.starts.get((topic, partition), 0)

    def log_directories(self, broker: int, within_s: float) -> Sequence[LogDirectory]:
        assert within_s > 0
        if broker not in self.view().brokers:
            raise AdminTimeout(f"broker {broker}")
        there = [key for key, one in self.view().partitions.items() if broker in one.replicas]
        return [
            LogDirectory(
                path=path,
                logs=frozenset(key for key in there if self._lies(broker, key) == path),
                futures=frozenset(key for key in there if self.moving.get((broker, *key)) == path),
            )
            for path in _DIRECTORIES
        ]

    def move_log(
        self, broker: int, topic: str, partition: int, directory: str, within_s: float
    ) -> None:
        key = broker, topic, partition
        moves = self.moving if broker in self.limits else self.lies
        self._order("move", within_s, lambda: moves.update({key: directory}))

    def limit_log_moves(self, broker: int, bytes_per_s: int | None, within_s: float) -> None:
        def carry_out() -> None:
            self.limits.pop(broker, None)
            if bytes_per_s is not None:
                self.limits[broker] = bytes_per_s
                return
            for key in [key for key in self.moving if key[0] == broker]:
                self.lies[key] = self.moving.pop(key)

        self._order("limit", within_s, carry_out)

    def _lies(self, broker: int, key: Key) -> str:
        return self.lies.get((broker, *key), _DIRECTORIES[0])

    def _order(self, order: str, within_s: float, carry_out: Callable[[], object]) -> None:
        assert within_s > 0
        self.orders.append(order)
        if self.refusal is not None and self.refusals > 0:
            self.refusals -= 1
            raise self.refusal
        try:
            if not self.deaf:
                carry_out()
        except ViewUnavailable as silence:
            raise AdminTimeout(order) from silence
        if self.silent:
            raise AdminTimeout(order)
