"""Looks over the shoulders of all brokers and of ZooKeeper, and changes nothing.

While :func:`~simulation.observer.brokers.watching` is entered, every step of a replica, of the
controller and of the groups is seen right after it was carried out, in whatever broker; the
invariants of the partition that it touched are checked there and then. What does not hold ends the
run (``fail``), since an exception inside a broker would be handled by it.
"""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from weakref import WeakSet

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.replication.events import (
    Append,
    Effect,
    Event,
    LeaderLostRecords,
    LogStartMoved,
    Stopped,
    Truncate,
)
from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.server.zk import znodes
from ackproof.broker.types import NO_LEADER, ControllerEpoch, TopicPartition
from simulation.machines.node import BEGINNING_WALL_MS
from simulation.observer.coverage import Coverage
from simulation.observer.following import keeping_up, parting, taking_in
from simulation.observer.leadership import joining, orders_done, proposing, resigning
from simulation.observer.logs import epochs, producers, retention, times
from simulation.observer.logs.on_disk import read_shadow
from simulation.observer.moments import repeated, told, viewing
from simulation.observer.moments.broker_settings import BrokerSettings
from simulation.observer.moments.cluster_shown import ClusterShown
from simulation.observer.moments.low_watermarks import LowWatermarks
from simulation.observer.moments.producer_ids import ProducerIdBlocks
from simulation.observer.stored_commits import StoredCommits
from simulation.partition.invariants import Partition
from simulation.partition.laggards import Lag
from simulation.partition.topic import Topic
from simulation.violation import Violation


class Observer:
    """What was seen of one world.

    Args:
        now: virtual seconds.
        fail: ends the run with this violation.
        checks_data: whether the brokers' configuration promises anything about records.
        unclean: whether it allows elections outside the ISR.
        lag_max: how far behind it lets members of the ISR be.
    """

    def __init__(
        self,
        now: Callable[[], float],
        fail: Callable[[BaseException], None],
        *,
        checks_data: bool,
        unclean: bool,
        lag_max: Lag = Lag(),  # noqa: B008
    ) -> None:
        self.coverage: Coverage = Coverage()
        self.notes: list[tuple[float, str]] = []
        """What happened, for the story."""
        self.topics: dict[str, Topic] = {}
        self.configs: dict[str, dict[str, str]] = {}
        """Settings by topic, as last written."""
        self.settings = BrokerSettings()
        self.cluster = ClusterShown()
        self.producer_ids = ProducerIdBlocks()
        self.stored_commits: defaultdict[int, StoredCommits] = defaultdict(StoredCommits)
        """By partition of ``__consumer_offsets``."""
        self.ever_led: set[told.Led] = set()
        """Also of topics that are gone."""
        self.controller: int | None = None
        self.controller_session = 0
        self.peek: Callable[[str], tuple[bytes | None, int]] = lambda _: (None, -1)
        """A node's data and version, in ZooKeeper."""
        self.controller_epoch = ControllerEpoch(0)
        self.registered: dict[int, int] = {}
        """By which transaction a broker did last: its epoch."""
        self.registered_in: set[int] = set()
        """The sessions in which brokers ever were."""
        self.group_ends: Counter[str] = Counter()
        """How often nothing was left of a group, and it was deleted."""
        self.held_at: dict[int, float] = {}
        """When a broker was last paused, or went on."""
        self.ahead_ms = 0  # all clocks
        self._low_watermarks = LowWatermarks()
        self._now = now
        self._fail = fail
        self._checks_data = checks_data
        self._unclean_everywhere = unclean
        self._lag_max = lag_max
        self.unclean: set[str] = set()  # topics with elections outside the ISR
        self._hosted: dict[tuple[int, TopicPartition], server.Partition] = {}
        self.since: dict[tuple[int, TopicPartition], float] = {}
        """When a replica was seen for the first time in its broker's life."""
        self._stopped: WeakSet[server.Partition] = WeakSet()
        """No broker's any more: what they hear of yet, as of an ISR that was being written, tells
        nothing of what a broker hosts."""

    def note(self, what: str) -> None:
        """For the story."""
        self.notes.append((self._now(), what))

    def held(self, broker: int) -> None:
        """It was paused just now, or goes on: until then its timers did not."""
        self.held_at[broker] = self._now()

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """Within, a violation ends the run."""
        try:
            yield
        except Violation as violation:
            self._fail(violation)

    def partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """All that are there and not about to go."""
        for name, topic in self.topics.items():
            if not topic.is_doomed:
                for number, partition in topic.partitions.items():
                    yield TopicPartition(name, number), partition

    def epoch_led_by(self, broker: int, tp: TopicPartition) -> int | None:
        """In which epoch ``broker`` leads, as ZooKeeper has it and as it knows itself; else None.

        One that was deposed, or elected once more, and has heard of neither answers out of what
        it knew; nobody can blame it.
        """
        partition, hosted = self.find(tp), self._hosted.get((broker, tp))
        if partition is None or partition.state is None or hosted is None:
            return None
        state = partition.state
        knows = hosted.replica.leader_epoch == state.leader_epoch
        return state.leader_epoch if state.leader == broker and knows else None

    def hosted(self, broker: int, tp: TopicPartition) -> server.Partition | None:
        """The replica that was seen there last; another one in each life of the broker."""
        return self._hosted.get((broker, tp))

    def find(self, tp: TopicPartition) -> Partition | None:
        """None: there is no such partition, or it is being deleted."""
        topic = self.topics.get(tp.topic)
        return None if topic is None or topic.is_doomed else topic.partitions.get(tp.partition)

    # --- ZooKeeper ----------------------------------------------------------------------------

    def znode_changed(self, path: str, data: bytes | None, version: int, zxid: int) -> None:
        """A node was created or written by transaction ``zxid``; ``data`` None: it was deleted."""
        parts = path.split("/")[1:]
        match parts:
            case ["brokers", "topics", topic]:
                with self.failing():
                    self._topic_changed(topic, data)
            case ["brokers", "topics", topic, "partitions", number, "state"] if data is not None:
                with self.failing():
                    self._state_changed(TopicPartition(topic, int(number)), data, version)
            case ["brokers", "ids", broker]:
                self._broker_changed(int(broker), zxid, came=data is not None)
            case ["controller"]:
                self.controller = None if data is None else int(znodes.decode_controller(data))
                self.note(
                    "nobody is controller"
                    if self.controller is None
                    else f"broker {self.controller} takes the office of controller"
                )
            case ["controller_epoch"] if data is not None:
                with self.failing():
                    self._controller_epoch_changed(znodes.decode_controller_epoch(data))
            case ["admin", "delete_topics", topic] if data is not None:
                if topic in self.topics:
                    self.topics[topic].is_doomed = True
                    self.note(f"topic {topic} is to be deleted")
            case ["config", "topics", topic] if data is not None:
                self._configured(topic, dict(znodes.decode_config(path, data)))

    def _configured(self, topic: str, config: dict[str, str]) -> None:
        self.configs[topic] = config
        unclean = config.get("unclean.leader.election.enable") == "true"
        (self.unclean.add if unclean else self.unclean.discard)(topic)
        if topic in self.topics:
            for partition in self.topics[topic].partitions.values():
                partition.configured(_min_isr(config))

    def _broker_changed(self, broker: int, zxid: int, *, came: bool) -> None:
        self.note(f"broker {broker} {'registered' if came else 'unregistered'}")
        if came:
            self.registered[broker] = zxid
            for _, partition in self.partitions():
                partition.registered(broker, zxid)

    def _topic_changed(self, topic: str, data: bytes | None) -> None:
        if data is None:
            former = self.topics.pop(topic, None)
            if former is not None:
                orders_done.gone(topic, former.assignment, self._hosts(topic, former))
            self.configs.pop(topic, None)
            self.unclean.discard(topic)
            return
        written = znodes.decode_topic(topic, data)
        known = self.topics.get(topic)
        if known is None or known.topic_id != written.topic_id:
            known = self.topics[topic] = Topic(written.topic_id, written)
        lost = sorted(known.partitions.keys() - written.partitions.keys())
        if lost:
            raise Violation("PartitionsStay", f"{topic} has no partitions {lost} any more")
        if not known.is_doomed:  # of one that is, states are not taken in any more
            orders_done.moved(topic, known.assignment, written, known.partitions)
            for number, each in known.partitions.items():
                before = known.assignment.partitions[number].adding
                each.added(set(written.partitions[number].adding) - set(before))
        known.assignment = written
        for number in written.partitions:
            if number not in known.partitions:
                self.add_partition(known, TopicPartition(topic, number))

    def _hosts(self, name: str, topic: Topic) -> Iterator[tuple[int, TopicPartition]]:
        for (broker, tp), hosted in self._hosted.items():
            if tp.topic == name and hosted.log.metadata.topic_id == topic.topic_id:
                yield broker, tp

    def add_partition(self, topic: Topic, tp: TopicPartition) -> None:
        """Unless it is known."""
        if tp.partition not in topic.partitions:
            added = Partition(str(tp), checks_data=self._checks_data, note=self.note)
            added.lag_max = self._lag_max
            if tp.topic in self.configs:
                added.configured(_min_isr(self.configs[tp.topic]))
            topic.partitions[tp.partition] = added

    def _state_changed(self, tp: TopicPartition, data: bytes, version: int) -> None:
        partition, state = self.find(tp), znodes.decode_state(tp, data, version)
        self.ever_led.add((tp, state.leader, state.leader_epoch))
        if partition is None:
            return
        before = partition.state
        elected = before is not None and state.leader_epoch != before.leader_epoch
        if elected and state.controller_epoch != self.controller_epoch:
            self._note_state(tp, state)
            raise Violation(
                "ControllerFenced",
                f"{tp}: elected in controller epoch {state.controller_epoch}, "
                f"the current one is {self.controller_epoch}",
            )
        self.state_is(tp, partition, state)

    def _note_state(self, tp: TopicPartition, state: PartitionState) -> None:
        led = "nobody leads" if state.leader == NO_LEADER else f"{state.leader} leads"
        self.note(f"{tp}: {led} in epoch {state.leader_epoch}, the ISR is {list(state.isr)}")

    def state_is(self, tp: TopicPartition, partition: Partition, state: PartitionState) -> None:
        """What ZooKeeper says of a partition from now on."""
        self._note_state(tp, state)
        partition.state_written(
            state, unclean=self._unclean_everywhere or tp.topic in self.unclean, now=self._now()
        )

    def _controller_epoch_changed(self, epoch: ControllerEpoch) -> None:
        if epoch < self.controller_epoch:
            raise Violation(
                "EpochNeverBack", f"controller epoch {self.controller_epoch} to {epoch}"
            )
        self.controller_epoch = epoch

    # --- disks --------------------------------------------------------------------------------

    def lost_power(self, broker: int, *, disk_too: bool = False) -> None:
        """To be told before the broker is gone, if it goes: what it had synced is all that it keeps
        for certain."""
        for tp, partition in self.partitions():
            hosted = self._hosted.get((broker, tp))
            synced = hosted.log.recovery_point if hosted is not None else 0
            with self.failing():
                partition.damaged(broker, 0 if disk_too else synced, now=self._now())
        if disk_too:
            self._hosted = {key: h for key, h in self._hosted.items() if key[0] != broker}

    def cut_short(self, broker: int) -> None:
        """It was killed, or ended in disorder."""
        for _, partition in self.partitions():
            partition.cut_short(broker)

    def ended_in_order(self, broker: int) -> None:
        """It had been asked to, and has closed its logs."""
        for _, partition in self.partitions():
            partition.closed(broker)

    # --- replicas -----------------------------------------------------------------------------

    def before_step(self, broker: int, hosted: server.Partition) -> None:
        """The first step of a replica's life is the time to look at the log that it found."""
        key = (broker, hosted.tp)
        if self._hosted.get(key) is hosted or hosted in self._stopped:
            return
        self._hosted[key], self.since[key] = hosted, self._now()
        partition = self._observed(hosted)
        if partition is not None:
            read, config = read_shadow(hosted.log), self.configs.get(hosted.tp.topic, {})
            if partition.checks_data and read is not None:
                seat, now = partition.seat(broker), self._wall_ms()
                retention.found(hosted, partition, seat, read.start, config, wall_ms=now)
            partition.hosted(broker, read, hosted.replica.high_watermark)
            if partition.checks_data and read is not None:
                epochs.found(hosted.tp, broker, hosted.log, read, deleted=partition.given_up)
                producers.check(hosted.tp, broker, hosted.log, read)
                times.check(hosted.tp, broker, hosted.log, read)

    def after_step(
        self, broker: int, hosted: server.Partition, event: Event, effects: list[Effect]
    ) -> None:
        """The effects are carried out."""
        if hosted in self._stopped:
            return
        resigning.stepped(broker, hosted)
        partition = self._observed(hosted)
        if type(event) is Stopped:
            self._stopped.add(hosted)
            self._hosted.pop((broker, hosted.tp), None)
            if partition is not None:
                partition.removed(broker)
            return
        if partition is None:
            return
        self._tell(broker, hosted, effects)
        if type(event) is LogStartMoved:
            self._retired(broker, hosted, partition, event)
        if hosted.tp.topic == OFFSETS_TOPIC:
            self._commits_appended(hosted.tp.partition, effects)
        seat = partition.seat(broker)
        taking_in.stepped(partition.name, hosted.replica, seat.log.end, event, effects)
        joining.stepped(broker, hosted.replica, partition, event, effects)
        proposing.stepped(broker, hosted.replica, partition, event, effects)
        partition.stepped(broker, hosted.replica, event, tuple(effects))
        keeping_up.stepped(partition.name, hosted.replica, event)
        if seat.known and seat.readable:
            parting.stepped(partition.name, hosted.replica, seat.log, event)
            repeated.stepped(partition.name, seat.log, event)
        told.stepped(broker, hosted, partition, event, changed=bool(effects))
        self._low_watermarks.stepped(broker, hosted, event, changed=bool(effects))
        if effects:
            viewing.check(broker, hosted)
        if effects and partition.checks_data:
            epochs.kept(hosted.tp, broker, hosted.log, hosted.replica)
            producers.kept(hosted.tp, broker, hosted.log, effects)
            times.kept(hosted.tp, broker, hosted.log, effects)

    def deleted(self, broker: int, tp: TopicPartition) -> None:
        """``broker`` has deleted a replica that it had not opened in this life."""
        partition = self.find(tp)
        self._hosted.pop((broker, tp), None)
        if partition is not None:
            partition.removed(broker)

    def step_failed(self, broker: int, hosted: server.Partition) -> None:
        """The effects were not carried out, or some of them."""
        partition = self._observed(hosted)
        if partition is not None:
            partition.failed(broker)

    def _tell(self, broker: int, hosted: server.Partition, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Truncate:
                self.note(f"broker {broker} cuts {hosted.tp} at {effect.offset}")
            elif type(effect) is LeaderLostRecords:
                lost = f"the leader of {hosted.tp} lost records"
                self.note(f"broker {broker} raises the alarm: {lost}")

    def _retired(
        self, broker: int, hosted: server.Partition, partition: Partition, event: LogStartMoved
    ) -> None:
        seat, config = partition.seat(broker), self.configs.get(hosted.tp.topic, {})
        if partition.checks_data and seat.readable:
            committed, now = seat.high_watermark, self._wall_ms()
            retention.taken(hosted, seat, event.offset, config, committed=committed, wall_ms=now)

    def _wall_ms(self) -> int:
        return BEGINNING_WALL_MS + int(self._now() * 1000) + self.ahead_ms

    def _commits_appended(self, number: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append) and effect.leader_epoch is not None:
                self.stored_commits[number].appended(effect, self._now())

    def _observed(self, hosted: server.Partition) -> Partition | None:
        """None: another topic of that name, or one that is about to go."""
        topic = self.topics.get(hosted.tp.topic)
        if topic is None or topic.is_doomed or topic.topic_id != hosted.log.metadata.topic_id:
            return None
        return topic.partitions.get(hosted.tp.partition)


def _min_isr(config: Mapping[str, str]) -> int:
    return int(config.get("min.insync.replicas", 1))
