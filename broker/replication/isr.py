"""The ISR as the leader holds it: committed in ZooKeeper, and perhaps one change under way.

While a write is in flight, or nobody knows whether it happened, either ISR may be the one that
the controller elects from. The leader therefore answers to the *maximal* ISR, committed and
proposed together (KIP-497), until it learns which one holds.
"""

from dataclasses import dataclass, replace

from ackproof.broker.types import BrokerId, ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrState:
    """``proposed``: the ISR being written on top of ``zk_version``, or None.
    ``retry``: that write's outcome is unknown, and it is to be sent again."""

    committed: tuple[BrokerId, ...]
    zk_version: ZkVersion
    proposed: tuple[BrokerId, ...] | None = None
    retry: bool = False

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """All members that may count, whichever way the write in flight ends.

        {1, 2} is being written as {1}. By the proposal alone, 1 would acknowledge what it alone
        has; the write is refused, the controller elects 2, and the record is gone. By the
        committed ISR alone, when {1} is being written as {1, 2}: 2 may be elected already.
        """
        return frozenset(self.committed) | frozenset(self.proposed or ())

    def propose(self, isr: tuple[BrokerId, ...]) -> "IsrState":
        """With a write of ``isr`` in flight; only one at a time."""
        if self.proposed is not None:
            raise ValueError(f"an ISR write is in flight already: {self.proposed}")
        return replace(self, proposed=isr)

    def written(self, isr: tuple[BrokerId, ...], zk_version: ZkVersion) -> "IsrState":
        """With the proposal committed; unchanged if this is news of another, earlier write."""
        if self.proposed != isr or zk_version <= self.zk_version:
            return self
        return IsrState(committed=isr, zk_version=zk_version)

    def failed(self, *, conflict: bool) -> "IsrState":
        """The proposal stands: to be tried again; after a conflict, until the controller speaks.

        Given up instead, it might have been carried out unseen, and who is in it be elected while
        this leader no longer waits for it.
        """
        return replace(self, retry=self.proposed is not None and not conflict)

    def refused(self) -> "IsrState":
        """Without the proposal, which certainly was not carried out."""
        return replace(self, proposed=None, retry=False)
