"""The section ``workload`` of a campaign file, and the clients of every cell that it stands for."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from ackproof.config.documents import Worded
from ackproof.harness.campaign.model.values import Rate, Scalar, Section, Sizes, Where, holds_for
from ackproof.history.cell import Cell
from ackproof.workloads import WORKLOADS
from ackproof.workloads.interface import (
    NO_PARAMETERS,
    Delivery,
    Group,
    Load,
    Parameters,
    Transactions,
)

KEYS_MAX = 100_000
"""Of a producer, which has all of them in memory."""


class GroupSpec(Section):
    """A consumer group of each cell, or of some: its members share the partitions, and commit what
    they have read."""

    name: Annotated[
        str,
        Worded(r"^[a-z0-9][a-z0-9-]*$", "small letters, digits and -, a letter or digit first"),
        Field(max_length=40),
    ]
    """What it is called; its `group.id` is the topic, a dash and this name."""
    members: Annotated[int, Field(ge=1)]
    """How many it has. Those beyond the number of partitions are idle until others are gone."""
    delivery: Annotated[Delivery, Field(strict=False)] = Delivery.AT_LEAST_ONCE
    """When a member commits: `at-least-once`: after it has recorded what it was shown;
    `at-most-once`: before that; `auto-commit`: whenever the client library does."""
    static: bool = False
    """Whether each member has a `group.instance.id` (KIP-345)."""
    where: Where = {}
    """Settings of the cells that have it; all have it without `where`."""
    consumer: Mapping[str, Scalar] = {}
    """Further properties of its members, by librdkafka's names, such as `session.timeout.ms`."""

    @property
    def group(self) -> Group:
        """What the workload is told of it."""
        return Group(
            name=self.name,
            members=self.members,
            delivery=self.delivery,
            static=self.static,
            config=self.consumer,
        )


class TransactionsSpec(Section):
    """What the clients of the workload `transactions` do. What each of them does when is drawn by
    the seed."""

    records: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Records of a transaction, on average."""
    aborts: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.2
    """The share of transactions that are aborted."""
    fences: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.02
    """The share of a producer's transactions in whose middle a second producer with the same
    `transactional.id` begins; the first goes on, as a zombie."""
    transformers: Annotated[int, Field(ge=0)] = 1
    """How many clients of each cell read it in one group and write what they make of it back into
    it, in transactions that commit the offsets of what they read, too."""

    @property
    def as_told(self) -> Transactions:
        """What the workload is told of it."""
        return Transactions(
            records=self.records,
            aborts=self.aborts,
            fences=self.fences,
            transformers=self.transformers,
        )


class WorkloadSpec(Section):
    """What the clients of every cell do."""

    kind: str = "produce"
    """Which workload: `ackproof workloads`."""
    rate: Rate
    """Records a second, of each cell: of all its producers together. `flat-out`: as many as their
    clients take, which needs `records`."""
    records: Annotated[int, Field(ge=1)] | None = None
    """How many records each cell is sent at the most, of all its producers together; then they fall
    silent. Without it, they send as long as the schedule lasts."""
    record_bytes: Sizes = (100, 100)
    """Bytes of a record's value; `[100, 2000]`: each size in between is as likely, and the same
    record has the same size in every run."""
    keys: Annotated[int, Field(ge=1, le=KEYS_MAX)] | None = None
    """How many keys the records of each producer have, at least one a partition. They take turns,
    and each belongs to one partition: key n to partition n modulo their number, or the one that the
    cell's `producer.partitioner` picks for it (librdkafka's, but for `random`). Then librdkafka
    picks the partition as it sends, and a record that is acknowledged in another one is found.
    Without it, records have no key."""
    producers: Annotated[int, Field(ge=1)] = 1
    """How many send to each cell."""
    readers: Annotated[int, Field(ge=0)] = 0
    """How many tail readers each cell has. Each reads all partitions from their beginning, as they
    grow, in no group. With the broker property `replica.selector.class:
    org.apache.kafka.common.replica.RackAwareReplicaSelector` they and the members of groups read
    from followers, too (KIP-392): each broker stands in a rack of its own (`broker.rack`), and of
    the readers of a cell, as of the members of a group, the first stands in that of `broker-1`
    (`client.rack`), the second in that of `broker-2`, and so on in turn."""
    readers_where: Where = {}
    """Settings of the cells that have tail readers; all have them without it."""
    groups: tuple[GroupSpec, ...] = ()
    """The consumer groups of the cells."""
    transactions: TransactionsSpec | None = None
    """Of `kind: transactions` alone: what its clients do."""
    parameters: Mapping[str, Scalar] = {}
    """Settings of a plug-in's workload, by its names: `ackproof workloads NAME`."""

    @property
    def is_transactional(self) -> bool:
        """Whether everything is sent in transactions."""
        return self.kind in WORKLOADS and WORKLOADS[self.kind].transactional

    @property
    def transactions_in_force(self) -> Transactions | None:
        """What is said of transactions, or the defaults; None where there are none."""
        return (self.transactions or TransactionsSpec()).as_told if self.is_transactional else None

    @property
    def flat_out(self) -> bool:
        """Whether it has no rate."""
        return math.isinf(self.rate)

    def records_of(self, duration_ms: float) -> float:
        """How many records a cell is sent, at the most, while that passes."""
        limit = math.inf if self.records is None else self.records
        return min(limit, self.rate * duration_ms / 1000)

    @property
    def clients_at_most(self) -> int:
        """How many clients a cell has that has all groups."""
        told = self.transactions_in_force
        members = sum(group.members for group in self.groups)
        return self.producers + self.readers + members + (told.transformers if told else 0)

    @property
    def parameters_in_force(self) -> Parameters:
        """The settings of a plug-in's workload, with defaults; none of a workload that does not
        exist. Raises ValidationError."""
        workload = WORKLOADS.get(self.kind)
        if workload is None:
            return NO_PARAMETERS
        return workload.parameters.model_validate(dict(self.parameters))

    def load_of(self, cell: Cell, racks: Sequence[str] = ()) -> Load:
        """What the workload is told of a cell: the one place where a load is made. ``racks``: where
        its consumers stand, which decides nothing but whom they read from."""
        smallest, largest = self.record_bytes
        return Load(
            rate=None if self.flat_out else self.rate,
            records=self.records,
            record_bytes=smallest,
            record_bytes_max=None if smallest == largest else largest,
            keys=self.keys,
            producers=self.producers,
            readers=self.readers if holds_for(self.readers_where, cell.settings) else 0,
            groups=tuple(
                spec.group for spec in self.groups if holds_for(spec.where, cell.settings)
            ),
            racks=racks,
            transactions=self.transactions_in_force,
            parameters=self.parameters_in_force,
        )


def clients_of(load: Load) -> int:
    """How many clients each cell has."""
    members = sum(group.members for group in load.groups)
    return load.producers + load.readers + members + _transformers(load)


def _transformers(load: Load) -> int:
    return 0 if load.transactions is None else load.transactions.transformers


def times_read(load: Load) -> int:
    """How often each record of a cell is read while it runs: each reader has all, and each group
    has all once, that of transformers, too."""
    return load.readers + len(load.groups) + bool(_transformers(load))


def idle(load: Load, cell: Cell) -> int:
    """How many members of groups have no partition of ``cell`` while all of them are there."""
    return sum(max(0, group.members - cell.partitions) for group in load.groups)


def described(spec: WorkloadSpec, cells: Iterable[Cell]) -> str:
    """The clients of each cell, by kind: ``each cell has 2 producers, 1 tail reader, group audit (3
    members, at-least-once)``; where not all have the same, ``4 cells have ..., 12 cells have ...``.
    """
    kinds = Counter(", ".join(_kinds(spec.load_of(cell))) for cell in cells)
    if len(kinds) == 1:
        return f"each cell has {next(iter(kinds))}"
    return "; ".join(
        f"{many} cells have {what}" if many > 1 else f"one cell has {what}"
        for what, many in kinds.items()
    )


def _kinds(load: Load) -> Iterator[str]:
    yield _counted(load.producers, "producer") + _manner(load)
    if _transformers(load):
        yield _counted(_transformers(load), "transformer")
    if load.readers:
        yield _counted(load.readers, "tail reader")
    for group in load.groups:
        static = ", static" if group.static else ""
        members = _counted(group.members, "member")
        yield f"group {group.name} ({members}, {group.delivery}{static})"


def _manner(load: Load) -> str:
    """How they send, where that is not at a rate as long as it lasts."""
    told = [
        "flat out" if load.rate is None else "",
        "" if load.records is None else f"{load.records:,} records at the most",
    ]
    manner = ", ".join(one for one in told if one)
    return f" ({manner})" if manner else ""


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
