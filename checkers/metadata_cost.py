"""Requests of a run to the servers that keep the metadata. No verdict rests on them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperWork:
    """What a run asked of ZooKeeper; None for what is not known.

    Attributes:
        writes_to_create: Transactions while the topics of the cells were made.
        writes_under_faults: Transactions from the first fault until the cluster had recovered.
        watches: That the brokers held when every topic was whole.
    """

    writes_to_create: int | None = None
    writes_under_faults: int | None = None
    watches: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """A broker was killed (kill -9) while a topic had so many ``partitions``; None for what is not
    known.

    Attributes:
        moved: How many of them it led.
        led_ms: From the kill until a client's metadata named another leader of the last of them.
        acked_ms: From the kill until the last of them acknowledged a record (acks=all).
        writes: ZooKeeper's transactions meanwhile.
        watches: That the brokers held before.
    """

    partitions: int
    moved: int | None = None
    led_ms: int | None = None
    acked_ms: int | None = None
    writes: int | None = None
    watches: int | None = None
