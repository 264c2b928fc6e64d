"""The section ``workload`` of a campaign file, and the clients of every cell that it stands for."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ackproof.config.documents import PatternDescription
from ackproof.harness.campaign.model.cells import Sweep, clients_of_cells
from ackproof.harness.campaign.model.values import Rate, Scalar, Section, Sizes, Where, holds_for
from ackproof.history.cell import LIBRDKAFKA, SYNC, Cell, Scope
from ackproof.history.messages import several
from ackproof.workloads import WORKLOADS
from ackproof.workloads.interface import (
    NO_PARAMETERS,
    Delivery,
    Group,
    Load,
    Parameters,
    ShareGroup,
    Transactions,
)

KEYS_MAX = 100_000
"""The largest number of keys of a producer, which holds all of them in memory."""


GroupName = Annotated[
    str,
    PatternDescription(
        r"^[a-z0-9][a-z0-9-]*$", "small letters, digits and -, a letter or digit first"
    ),
    Field(max_length=40),
]


class GroupSpec(Section):
    """A consumer group. Its members commit what they have read."""

    name: GroupName
    """Its name; `group.id` is the topic, a dash and this name."""
    members: Annotated[int, Field(ge=1)]
    """Its members. Those beyond the number of partitions are idle."""
    delivery: Annotated[Delivery, Field(strict=False)] = Delivery.AT_LEAST_ONCE
    """Commit after recording records, before, or by the library."""
    static: bool = False
    """Give each member a `group.instance.id` (KIP-345)."""
    client: Annotated[str, Field(min_length=1)] = LIBRDKAFKA
    """The client library of its members, or the path of a program."""
    where: Where = {}
    """[The cells](#values) that have it."""
    consumer: Mapping[str, Scalar] = {}
    """Further properties of its members, such as `session.timeout.ms`, or `group.protocol:
    consumer` (KIP-848)."""
    replacement: Mapping[str, Scalar] | None = None
    """Properties of members that replace crashed ones (`comes_back`). Default: `consumer`."""

    @property
    def group(self) -> Group:
        """Return the group as the workload receives it."""
        return Group(
            name=self.name,
            members=self.members,
            delivery=self.delivery,
            static=self.static,
            client=self.client,
            config=self.consumer,
            replacement=self.replacement,
        )


class ShareGroupSpec(Section):
    """A share group (KIP-932, Apache Kafka 4.2 or newer). Its members acknowledge each record."""

    name: GroupName
    """Its name; `group.id` is the topic, a dash and this name."""
    members: Annotated[int, Field(ge=1)]
    """Its members. They share the partitions."""
    releases: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.05
    """Share of deliveries that are released for another one."""
    rejects: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.01
    """Share of deliveries that are rejected."""
    where: Where = {}
    """[The cells](#values) that have it."""
    consumer: Mapping[str, Scalar] = {}
    """Further properties of its members, such as `max.poll.records`."""

    @property
    def group(self) -> ShareGroup:
        """Return the group as the workload receives it."""
        return ShareGroup(
            name=self.name,
            members=self.members,
            releases=self.releases,
            rejects=self.rejects,
            config=self.consumer,
        )


class TransactionsSpec(Section):
    """The clients of the workload `transactions`. The seed draws their actions."""

    records: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Mean number of records of a transaction."""
    aborts: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.2
    """Share of transactions that are aborted."""
    fences: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.02
    """Share of transactions during which a second producer starts with the same `transactional.id`;
    the first goes on as a zombie."""
    transformers: Annotated[int, Field(ge=0)] = 1
    """Clients of each cell that read it in a group and write back, in transactions with the offsets
    of their input."""

    @property
    def transactions(self) -> Transactions:
        """Return the transactions as the workload receives them."""
        return Transactions(
            records=self.records,
            aborts=self.aborts,
            fences=self.fences,
            transformers=self.transformers,
        )


class WorkloadSpec(Section):
    """The clients of every cell."""

    kind: str = "produce"
    """The workload: `ackproof workloads`."""
    rate: Rate
    """Records a second of each cell. `flat-out`: as fast as the clients can; needs `records`."""
    records: Annotated[int, Field(ge=1)] | None = None
    """The most records of each cell. Default: until the schedule ends."""
    record_bytes: Sizes = (100, 100)
    """Bytes of a record's value. A range is drawn evenly; a record has the same size in every
    run."""
    keys: Annotated[int, Field(ge=1, le=KEYS_MAX)] | None = None
    """Keys of each producer, used in turn (in transactions: drawn); at least one a partition. Key
    n goes to partition n modulo their number, or to that of `producer.partitioner` (for librdkafka
    all but `random`, for other libraries `murmur2`); an ack from another partition is reported.
    Default: no keys."""
    tombstones: Annotated[float, Field(ge=0, le=0.9, allow_inf_nan=False)] = 0.0
    """Share of records that delete their key, drawn by the seed. Needs compacted topics with
    `delete.retention.ms`."""
    producers: Annotated[int, Field(ge=1)] = 1
    """Producers of each cell."""
    producers_shared: bool = False
    """Let cells with the same settings of producers share them: each then sends to the topics of
    all these cells. Not with `producer.type: sync`."""
    readers: Annotated[int, Field(ge=0)] = 0
    """Tail readers of each cell: they read all partitions from the start, in no group. With the
    broker property `replica.selector.class:
    org.apache.kafka.common.replica.RackAwareReplicaSelector` all consumers read from followers
    (KIP-392): each broker has a rack of its own, and consumers take these in turn."""
    readers_where: Where = {}
    """[The cells](#values) with tail readers."""
    groups: tuple[GroupSpec, ...] = ()
    """The consumer groups of the cells."""
    share_groups: tuple[ShareGroupSpec, ...] = ()
    """The share groups of the cells."""
    transactions: TransactionsSpec | None = None
    """The clients of `kind: transactions`."""
    parameters: Mapping[str, Scalar] = {}
    """Parameters of a plug-in's workload: `ackproof workloads NAME`."""

    @property
    def is_transactional(self) -> bool:
        """Return whether every record is sent in a transaction."""
        return self.kind in WORKLOADS and WORKLOADS[self.kind].transactional

    @property
    def transactions_in_force(self) -> Transactions | None:
        """Return the settings of the transactions, with defaults, or None for a workload without
        transactions."""
        return (
            (self.transactions or TransactionsSpec()).transactions
            if self.is_transactional
            else None
        )

    @property
    def flat_out(self) -> bool:
        """Return whether the workload has no rate limit."""
        return math.isinf(self.rate)

    def records_of(self, duration_ms: float) -> float:
        """Return the largest number of records that are sent to a cell within ``duration_ms``."""
        limit = math.inf if self.records is None else self.records
        return min(limit, self.rate * duration_ms / 1000)

    @property
    def has_consumers(self) -> bool:
        """Return whether a cell may have tail readers or groups."""
        return bool(self.readers or self.groups or self.share_groups)

    @property
    def clients_at_most(self) -> int:
        """Return the number of clients of a cell that has all groups."""
        transactions = self.transactions_in_force
        members = sum(one.members for one in self.groups) + sum(
            one.members for one in self.share_groups
        )
        return (
            self.producers
            + self.readers
            + members
            + (transactions.transformers if transactions else 0)
        )

    @property
    def parameters_in_force(self) -> Parameters:
        """Return the parameters of a plug-in's workload, with defaults; none for a workload that
        does not exist. Raises ValidationError if they are invalid."""
        workload = WORKLOADS.get(self.kind)
        if workload is None:
            return NO_PARAMETERS
        return workload.parameters.model_validate(dict(self.parameters))

    def loads_of(self, cells: Sequence[Cell], racks: Sequence[str] = ()) -> Mapping[str, Load]:
        """Return the load of each cell of a run, by the cell's name.

        If producers are shared, the first of the cells that share them has all of them.
        """
        loads = {cell.name: self.load_of(cell, racks) for cell in cells}
        for first, *others in self.shared_producers(cells):
            loads[first.name] = replace(loads[first.name], shared_with=tuple(others))
            loads |= {one.name: replace(loads[one.name], producers=0) for one in others}
        return loads

    def shared_producers(self, cells: Iterable[Cell]) -> Sequence[Sequence[Cell]]:
        """Return the cells that share their producers, two or more together. A workload that writes
        in transactions is refused them."""
        if not self.producers_shared or self.is_transactional:
            return []
        alike: dict[tuple[object, ...], list[Cell]] = {}
        for cell in cells:
            if cell.producer_type != SYNC:
                own = (tuple(sorted(cell.of(scope))) for scope in (Scope.PRODUCER, Scope.PROGRAM))
                alike.setdefault(tuple(own), []).append(cell)
        return [some for some in alike.values() if len(some) > 1]

    def load_of(self, cell: Cell, racks: Sequence[str] = ()) -> Load:
        """Return the load of a cell that shares no producers. Loads are made nowhere else.

        ``racks`` are the racks of the cell's consumers. They decide only which replicas the
        consumers read from.
        """
        smallest, largest = self.record_bytes
        return Load(
            rate=None if self.flat_out else self.rate,
            records=self.records,
            record_bytes=smallest,
            record_bytes_max=None if smallest == largest else largest,
            keys=self.keys,
            tombstones=self.tombstones,
            producers=self.producers,
            readers=self.readers if holds_for(self.readers_where, cell.settings) else 0,
            groups=tuple(
                spec.group for spec in self.groups if holds_for(spec.where, cell.settings)
            ),
            share_groups=tuple(
                spec.group for spec in self.share_groups if holds_for(spec.where, cell.settings)
            ),
            racks=racks,
            transactions=self.transactions_in_force,
            parameters=self.parameters_in_force,
        )


def clients_named(cells: Sweep | None, workload: WorkloadSpec | None) -> Mapping[str, str]:
    """Return the client libraries and programs of cells and groups, each with the field that names
    it first. A section that is invalid (None) names none."""
    of_cells = () if cells is None else clients_of_cells(cells)
    named = dict.fromkeys(of_cells, "cells.client")
    for index, group in enumerate(() if workload is None else workload.groups):
        named.setdefault(group.client, f"workload.groups[{index}].client")
    return named


def clients_of(load: Load) -> int:
    """Return the number of clients of each cell."""
    members = sum(one.members for one in load.groups) + sum(
        one.members for one in load.share_groups
    )
    return load.producers + load.readers + members + _transformers(load)


def _transformers(load: Load) -> int:
    return 0 if load.transactions is None else load.transactions.transformers


def times_read(load: Load) -> int:
    """Return how often each record of a cell is read during the run. Each reader reads all records,
    and each group reads all once, including the group of the transformers."""
    return load.readers + len(load.groups) + len(load.share_groups) + bool(_transformers(load))


def idle(load: Load, cell: Cell) -> int:
    """Return the number of group members without a partition of ``cell`` while all members are
    present."""
    return sum(max(0, group.members - cell.partitions) for group in load.groups)


def described(spec: WorkloadSpec, cells: Sequence[Cell]) -> str:
    """Return the clients of each cell, by kind, for example ``each cell has 2 producers, 1 tail
    reader, group audit (3 members, at-least-once)``.

    If not all cells have the same clients, the text is ``4 cells have ..., 12 cells have ...``.
    """
    kinds = Counter(", ".join(_kinds(spec.load_of(cell))) for cell in cells)
    shared = [f"{len(some)} cells share their producers" for some in spec.shared_producers(cells)]
    if len(kinds) == 1:
        return "; ".join([f"each cell has {next(iter(kinds))}", *shared])
    return "; ".join(
        [
            f"{many} cells have {what}" if many > 1 else f"one cell has {what}"
            for what, many in kinds.items()
        ]
        + shared
    )


def _kinds(load: Load) -> Iterator[str]:
    yield several(load.producers, "producer") + _manner(load)
    if _transformers(load):
        yield several(_transformers(load), "transformer")
    if load.readers:
        yield several(load.readers, "tail reader")
    for group in load.groups:
        static = ", static" if group.static else ""
        members = several(group.members, "member")
        client = "" if group.client == LIBRDKAFKA else f" of {group.client}"
        yield f"group {group.name} ({members}{client}, {group.delivery}{static})"
    for share_group in load.share_groups:
        yield f"share group {share_group.name} ({several(share_group.members, 'member')})"


def _manner(load: Load) -> str:
    """Return the sending mode of the producers, or nothing if they send values at a rate for the
    whole run."""
    parts = [
        "as fast as possible" if load.rate is None else "",
        "" if load.records is None else f"at most {load.records:,} records",
        f"{load.tombstones:.0%} tombstones" if load.tombstones else "",
    ]
    manner = ", ".join(one for one in parts if one)
    return f" ({manner})" if manner else ""
