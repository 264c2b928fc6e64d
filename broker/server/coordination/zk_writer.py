"""Writes of several nodes, all or none.

The operations of :mod:`broker.coordination` do not always describe the tree: "parents are created
as needed", "with all that is in it". ZooKeeper's transactions do: each operation creates, sets,
deletes or checks one node. The tree is therefore read first, and a transaction is built on that
guess. If it fails at a guess, another write was faster, and the transaction is built again.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from ackproof.broker.coordination import events
from ackproof.broker.coordination.nodes import ABSENT, ANY_VERSION, Kind, Node
from ackproof.broker.server.coordination import nodes
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.session import (
    OutcomeUnknown,
    SessionExpired,
    SessionNumber,
    ZkSession,
)
from ackproof.broker.types import BrokerId, ZkVersion

GUESSES_MAX: Final = 100
"""The number of faster other writes after which a write is rejected. Its author can handle that."""

Settings = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The outcome of a write. ``queued`` has the names that requests got in their queues."""

    result: events.Result
    versions: Mapping[Node, ZkVersion]
    queued: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """One operation of a transaction. If it is ``guessed``, its author does not claim that it
    fits."""

    apply: Callable[[Any], None]
    guessed: bool = False
    put: Node | None = None
    queued: bool = False
    makes: str | None = None
    """A parent node, which several operations of a write may need."""


NOTHING_DONE: Final = WriteOutcome(events.Result.REFUSED, {})
UNKNOWN: Final = WriteOutcome(events.Result.UNKNOWN, {})


class Writer:
    """Carries out writes in one broker's sessions. ``broker`` is the broker whose leaderships they
    claim, and ``new_uuid`` the source of topic ids."""

    def __init__(
        self,
        session: ZkSession,
        broker: BrokerId,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self._session = session
        self._broker = broker
        self._new_uuid = new_uuid

    async def write(
        self,
        ops: Sequence[events.Op],
        session: SessionNumber | None,
        settings: Settings | None = None,
    ) -> WriteOutcome:
        """Write everything or nothing, in ``session`` (None: whichever is current when it is sent).

        ``settings`` are those of topics that the write creates. Raise nothing but ZkClosed.
        """
        try:
            if all(isinstance(op, events.Dequeue) for op in ops):
                return await self._dequeue(ops, session)
            for _ in range(GUESSES_MAX):
                steps = [step for op in ops for step in await self._steps(op, settings or {})]
                outcome = await self._commit(_once_each(steps), session)
                if outcome is not None:
                    await self._tidy(ops)
                    return outcome
        except OutcomeUnknown:
            return UNKNOWN
        return NOTHING_DONE

    async def give_id(self, topic: str) -> None:
        """Give an id to a topic that is older than topic ids. Several brokers that do so get the
        same id. Raise ZkClosed alone."""
        where = znodes.topic(topic)
        while (node := await self._session.get(where)) is not None and not node[0]:
            with contextlib.suppress(BadVersionError, NoNodeError, SessionExpired):
                session, version = self._session.number, node[1].version
                await self._session.set(where, self._new_id(), version, session)

    async def _commit(
        self, steps: Sequence[_Step], session: SessionNumber | None
    ) -> WriteOutcome | None:
        """Commit a transaction. Return None if a guess was wrong."""
        if not steps:
            return WriteOutcome(events.Result.DONE, {})

        def submit(client: KazooClient) -> Any:
            transaction = client.transaction()
            for step in steps:
                step.apply(transaction)
            return transaction.commit_async()

        results = await self._session.once(submit, session)
        for step, result in zip(steps, results, strict=True):
            if isinstance(result, RolledBackError | RuntimeInconsistency):
                continue
            if isinstance(result, KazooException):
                return None if step.guessed else NOTHING_DONE
        return WriteOutcome(
            events.Result.DONE,
            {
                step.put: ZkVersion(getattr(result, "version", 0))
                for step, result in zip(steps, results, strict=True)
                if step.put is not None
            },
            tuple(
                str(result).rpartition("/")[2]
                for step, result in zip(steps, results, strict=True)
                if step.queued
            ),
        )

    async def _dequeue(
        self, ops: Iterable[events.Op], session: SessionNumber | None
    ) -> WriteOutcome:
        """Remove entries one after the other: one that is gone already must not keep the others."""
        for op in ops:
            assert isinstance(op, events.Dequeue)
            where = f"{nodes.queue(op.broker)}/{op.name}"
            try:
                await self._session.once(partial(_delete, where), session)
            except NoNodeError:
                continue
        return WriteOutcome(events.Result.DONE, {})

    async def _tidy(self, ops: Iterable[events.Op]) -> None:
        """Remove topics from ``partitions_reassigned`` that have no partition left there."""
        topics = {
            op.node.partition.topic
            for op in ops
            if isinstance(op, events.Delete) and op.node.kind is Kind.REASSIGNED
        }
        for topic in sorted(topics):
            try:
                await self._session.once(partial(_delete, nodes.reassigned(topic)), None)
            except (KazooException, OutcomeUnknown):
                continue

    # --- what a write comes to --------------------------------------------------------------

    async def _steps(self, op: events.Op, settings: Settings) -> list[_Step]:
        match op:
            case events.PutIsr():
                data = nodes.encode_isr(op.isr, op.epoch)
                return await self._put(Node(Kind.ISR, op.partition), data, op.expected)
            case events.PutAssigned():
                data = nodes.encode_ids(op.replicas, op.removing)
                return await self._put(op.node, data, op.expected)
            case events.CreateTopic():
                where, data = znodes.topic(op.topic), self._new_id()
                new = op.expected == ABSENT
                return [
                    _Step(_create(where, data) if new else _set(where, data, op.expected)),
                    *await self._configure(op.topic, settings.get(op.topic, {})),
                ]
            case events.DeletePartition():
                return await self._remove_all(nodes.partition(op.partition))
            case events.RemoveBroker():
                # A transaction cannot require that a node be absent. Creating and deleting it has
                # the same effect.
                registered = znodes.broker_id(op.broker)
                absent = [
                    _Step(_create(registered, b"")),
                    _Step(_remove(registered, ANY_VERSION)),
                ]
                return [*absent, *await self._remove_all(nodes.queue(op.broker))]
            case events.DeleteTopic():
                home = znodes.topic(op.topic)
                steps = [_Step(_remove(home, op.expected))]
                if op.expected == ANY_VERSION:
                    steps = await self._remove_empty(home)
                for further in (znodes.topic_config, nodes.reassigned):
                    steps += await self._remove_empty(further(op.topic))
                return steps
            case _:
                return [self._step(op)]

    def _step(self, op: events.Op) -> _Step:
        """Return the step of an operation that describes the tree itself."""
        match op:
            case events.Check():
                return _Step(_check(nodes.path(op.node), op.expected))
            case events.TakeTopic():
                data = b"" if op.topic_id is None else nodes.encode_topic_id(op.topic_id)
                return _Step(_set(znodes.topic(op.topic), data, op.expected))
            case events.CreateLeader():
                node = Node(Kind.LEADER, op.partition)
                data = nodes.encode_leader(self._broker, op.epoch)
                return _Step(_create(nodes.path(node), data, ephemeral=True), put=node)
            case events.SetLeader():
                node = Node(Kind.LEADER, op.partition)
                data = nodes.encode_leader(self._broker, op.epoch)
                return _Step(_set(nodes.path(node), data, ANY_VERSION), put=node)
            case events.Delete():
                return _Step(_remove(nodes.path(op.node), op.expected))
            case events.Enqueue():
                where = f"{nodes.queue(op.broker)}/{nodes.REQUEST}"
                data = nodes.encode_request(op.request)
                return _Step(_create(where, data, sequence=True), queued=True)
            case events.Dequeue():
                return _Step(_remove(f"{nodes.queue(op.broker)}/{op.name}", ANY_VERSION))
            case _:
                raise TypeError(f"unknown operation {op!r}")

    async def _put(self, node: Node, data: bytes, expected: ZkVersion) -> list[_Step]:
        where, above = nodes.path(node), nodes.parent(node)
        if expected not in (ABSENT, ANY_VERSION):
            return [_Step(_set(where, data, expected), put=node)]
        if expected == ANY_VERSION and await self._exists(where):
            return [_Step(_set(where, data, ANY_VERSION), guessed=True, put=node)]
        missing = [_Step(_create(above, b""), guessed=True, makes=above)]
        if await self._exists(above):
            missing = []
        taken = expected == ANY_VERSION
        return [*missing, _Step(_create(where, data), guessed=taken, put=node)]

    def _new_id(self) -> bytes:
        return nodes.encode_topic_id(self._new_uuid())

    async def _configure(self, topic: str, settings: Mapping[str, str]) -> list[_Step]:
        """Return the steps for a topic's settings. Those of a former topic of that name are
        replaced."""
        where, data = znodes.topic_config(topic), znodes.encode_config(settings)
        if await self._exists(where):
            return [_Step(_set(where, data, ANY_VERSION), guessed=True)]
        return [_Step(_create(where, data), guessed=True)]

    async def _remove_all(self, where: str) -> list[_Step]:
        if not await self._exists(where):
            return []
        below = sorted(await self._session.children(where))
        return [
            _Step(_remove(each, ANY_VERSION), guessed=True)
            for each in (*(f"{where}/{name}" for name in below), where)
        ]

    async def _remove_empty(self, where: str) -> list[_Step]:
        stat = await self._exists(where)
        if stat is None or stat.numChildren:
            return []
        return [_Step(_remove(where, ANY_VERSION), guessed=True)]

    async def _exists(self, where: str) -> Any:
        return await self._session.request(lambda client: client.exists_async(where))


def _once_each(steps: Iterable[_Step]) -> list[_Step]:
    """Return the steps without those that create what an earlier one creates."""
    made: set[str] = set()
    kept = []
    for step in steps:
        if step.makes is None or step.makes not in made:
            kept.append(step)
        if step.makes is not None:
            made.add(step.makes)
    return kept


def _check(where: str, version: int) -> Callable[[Any], None]:
    return lambda transaction: transaction.check(where, version)


def _create(
    where: str, data: bytes, *, ephemeral: bool = False, sequence: bool = False
) -> Callable[[Any], None]:
    return lambda transaction: transaction.create(
        where, data, ephemeral=ephemeral, sequence=sequence
    )


def _set(where: str, data: bytes, version: int) -> Callable[[Any], None]:
    return lambda transaction: transaction.set_data(where, data, version=version)


def _remove(where: str, version: int) -> Callable[[Any], None]:
    return lambda transaction: transaction.delete(where, version=version)


def _delete(where: str, client: KazooClient) -> Any:
    return client.delete_async(where)
