"""Groups with a clock and a log: what a test does in place of the server."""

import itertools
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import (
    Commit,
    DeleteGroup,
    DeleteOffsets,
    Expire,
    Heartbeat,
    Join,
    Leave,
    Leaving,
    Moment,
    OffsetAndMetadata,
    PartitionsDeleted,
    Protocol,
    Respond,
    Store,
    Stored,
    Sync,
    Tick,
)
from ackproof.broker.groups.loading import Loading
from ackproof.broker.types import Millis, TopicPartition
from ackproof.broker.wire.group_records import decode, encode
from tests.support.oracles.group_rules import CheckedGroups

WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (Protocol("range", b"r"),)
TP = TopicPartition("t", 0)


@dataclass
class World:
    """Requests are numbered; ``answers`` holds what they were told. Records reach ``log`` when
    they are stored, and :meth:`reload` is what a new coordinator makes of it."""

    config: GroupConfig = field(default_factory=GroupConfig)
    now: int = 0
    auto: bool = True
    """Everything is stored at once, successfully."""
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    answers: dict[int, object] = field(default_factory=dict)

    def __post_init__(self):
        self._numbers = itertools.count()
        self.asked = set()
        self.reload()

    @property
    def at(self):
        return Moment(Millis(self.now), WALL_MS + self.now)

    def reload(self):
        loading = Loading()
        for offset, record in enumerate(self.log):
            loading.add(*decode(*record), offset)
        self.groups = CheckedGroups(self.config, loading, self.at)
        self.stores = []

    # --- events ---------------------------------------------------------------------------

    def feed(self, event):
        for effect in self.groups.step(event):
            if isinstance(effect, Respond):
                assert effect.request in self.asked, "answered twice, or never asked"
                self.asked.discard(effect.request)
                self.answers[effect.request] = effect.answer
            else:
                assert isinstance(effect, Store)
                self.stores.append(effect)
        while self.auto and self.stores:
            self.store()

    def store(self, error=ErrorCode.none):
        """The oldest append is done."""
        effect = self.stores.pop(0)
        offset = -1
        if error is ErrorCode.none:
            offset = len(self.log)
            for key, value in effect.records:
                self.log.append((encode(key), None if value is None else encode(value)))
        self.feed(Stored(at=self.at, token=effect.token, error=error, offset=offset))

    def tick(self, ms=0):
        """Time goes by in steps of 100 ms, as on a broker."""
        end = self.now + ms
        while self.now < end:
            self.now = min(end, self.now + 100)
            self.feed(Tick(at=self.at))
        if ms == 0:
            self.feed(Tick(at=self.at))

    def _ask(self, kind, **values):
        number = next(self._numbers)
        self.asked.add(number)
        self.feed(kind(at=self.at, request=number, group="g", **values))
        return number

    def answer(self, number):
        return self.answers.get(number)

    def join(self, member_id="", *, instance=None, protocols=RANGE, **values):
        settings = {
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "new_member_id": f"m{next(self._numbers)}",
        } | values
        return self._ask(
            Join, member_id=member_id, instance_id=instance, protocols=protocols, **settings
        )

    def sync(self, member_id, generation, assignments=None, **values):
        return self._ask(
            Sync,
            member_id=member_id,
            generation=generation,
            assignments=assignments or {},
            **values,
        )

    def heartbeat(self, member_id, generation, **values):
        number = self._ask(Heartbeat, member_id=member_id, generation=generation, **values)
        return self.answers[number].error

    def leave(self, *leaving):
        return self.answers[self._ask(Leave, leaving=tuple(Leaving(*who) for who in leaving))]

    def commit(self, offset, member_id="", generation=-1, tp=TP, metadata=""):
        offsets = {tp: OffsetAndMetadata(offset=offset, metadata=metadata)}
        return self._ask(Commit, member_id=member_id, generation=generation, offsets=offsets)

    def delete_group(self):
        return self._ask(DeleteGroup)

    def delete_offsets(self, *partitions):
        return self._ask(DeleteOffsets, partitions=frozenset(partitions))

    def expire(self):
        self.feed(Expire(at=self.at))

    def partitions_deleted(self, *partitions):
        self.feed(PartitionsDeleted(at=self.at, partitions=frozenset(partitions)))

    # --- whole stories ----------------------------------------------------------------------

    @property
    def group(self):
        return self.groups["g"]

    def committed(self, tp=TP):
        if "g" not in self.groups.by_id or tp not in self.group.offsets.committed:
            return None
        return self.group.offsets.committed[tp].value.offset

    def enter(self, **values):
        """A newcomer with its member id, waiting to join."""
        answer = self.answer(self.join(**values))
        assert answer.error is ErrorCode.member_id_required
        return answer.member_id, self.join(answer.member_id, **values)

    def stable(self, count=1, **values):
        """``count`` members in a stable group, the leader first; static ones with ``instances``."""
        instances = values.pop("instances", None)
        if instances:
            requests = [self.join(instance=i, **values) for i in instances]
        else:
            requests = [self.enter(**values)[1] for _ in range(count)]
        self.tick(self.config.initial_rebalance_delay_ms * (len(requests) + 1))
        joins = [self.answer(number) for number in requests]
        generation = joins[0].generation
        for join in joins:
            assert join.error is ErrorCode.none
            everyone = {j.member_id: b"for " + j.member_id.encode() for j in joins}
            self.sync(join.member_id, generation, everyone if join.members else None)
        return [join.member_id for join in sorted(joins, key=lambda j: not j.members)]
