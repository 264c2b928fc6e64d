"""Which partitions a task reconciles, and which of them at a time.

A task for each of 1,800 small partitions would cost more to hand out than to carry out, and each by
itself more to reconcile than a handful together. Groups and handfuls are of neighbours, so that
what a task writes is in the order of the items.
"""

from collections.abc import Iterator, Sequence
from math import inf

from ackproof.checkers.reconciling.work_item import WorkItem
from ackproof.history.storage import each, located, size

ITEM_BYTES = 100_000
"""What a partition costs whatever it holds: as much as reading so many bytes."""


HANDFUL_BYTES = 1_000_000
"""Compressed, of all partitions of a handful that is of more than one: in memory some 30 MB."""

HANDFUL_MAX = 20
"""Partitions in a handful. More gain nothing: what is kept of each drives the others' out of the
processor's caches."""


def grouped(
    items: Sequence[WorkItem], groups: int, smallest: int = 0, largest: float = inf
) -> list[list[Sequence[WorkItem]]]:
    """Divide items into groups of neighbours with about as many bytes each, and each group into
    handfuls.

    A group holds an equal share of all bytes, but at least ``smallest`` and at most ``largest``
    bytes; in these counts what a partition costs whatever it holds. So there are at most as many
    groups as asked for, or more if the largest bound needs them. A partition of more is a group of
    its own, or the last of one.
    """
    held = bytes_of(items)
    sizes = [ITEM_BYTES + own for own in held]
    share = min(max(sum(sizes) / groups, smallest), largest)
    found: list[list[Sequence[WorkItem]]] = []
    begun, filled = 0, 0
    for place, own in enumerate(sizes, start=1):
        filled += own
        # By what all groups so far should hold: what one lacks or exceeds is the next one's.
        if filled >= share * (len(found) + 1) or place == len(items):
            found.append(list(_handfuls(items[begun:place], held[begun:place])))
            begun = place
    return found


def _handfuls(items: Sequence[WorkItem], sizes: Sequence[int]) -> Iterator[Sequence[WorkItem]]:
    begun, filled = 0, 0
    for place, own in enumerate(sizes):
        filled += own
        if place > begun and (filled > HANDFUL_BYTES or place - begun == HANDFUL_MAX):
            yield items[begun:place]
            begun, filled = place, own
    yield items[begun:]


def bytes_of(items: Sequence[WorkItem]) -> list[int]:
    """What the files of each take, compressed as they are."""
    stored = any("://" in file for item in items[:1] for file in _files(item))
    return each(_bytes, items, stored=stored)


def _bytes(item: WorkItem) -> int:
    return sum(map(_size, _files(item)))


def _files(item: WorkItem) -> Iterator[str]:
    yield from item.sends
    yield from item.log
    for consumer in item.consumers:
        yield from consumer.polls


def _size(file: str) -> int:
    """0 of what is not there, or cannot be looked at: that is told by who reads it."""
    try:
        return size(located(file))
    except OSError:
        return 0
