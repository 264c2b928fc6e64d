"""The start of each leader epoch in a log, kept in ``leader-epoch-checkpoint`` (KIP-101).

The history itself is the replica's value :class:`~broker.replication.local.Epochs`. This module
keeps it on disk, in Kafka's format: version 0, count, one "epoch offset" per line.

Every batch names its epoch. The file therefore need not be newer than the part of the log that
recovery reads. It is written with a flush, before the recovery point moves, and epochs above it are
restored from the batches (``PartitionLog.open``). If it were written at each change, with two
fsyncs each, a failover of 1,000 partitions would need 2,000 fsyncs in a row before the first fetch
is served.

The file may therefore name epochs that are gone. Suppose it says "epoch 9 begins at 50". The
follower is truncated to 40, fetches records of epoch 8 up to 55, and its broker is killed. If the
file were trusted, the follower would ask its leader about epoch 9, and truncate at the wrong place.
So recovery trusts the batches that it reads, and drops what contradicts them.
"""

from ackproof.broker.log.disk import (
    CorruptCheckpoint,
    Directory,
    Steps,
    carry_out,
    checkpoint_content,
    read_checkpoint,
)
from ackproof.broker.replication.local import Epochs
from ackproof.broker.types import LeaderEpoch, Offset

FILE_NAME = "leader-epoch-checkpoint"


class LeaderEpochCache:
    """The epochs of one partition's log. Changes are on disk when ``write`` returns."""

    def __init__(self, directory: Directory) -> None:
        """Read the file, if there is one.

        Raises:
            CorruptCheckpoint: the file is not in Kafka's format.
        """
        self._directory = directory
        self._epochs = _read(directory)
        self._written: Epochs | None = self._epochs

    @property
    def history(self) -> Epochs:
        """The epochs as an immutable value."""
        return self._epochs

    @property
    def entries(self) -> tuple[tuple[LeaderEpoch, Offset], ...]:
        """The epochs as (epoch, first offset), ascending."""
        return self._epochs.entries

    @property
    def latest(self) -> LeaderEpoch:
        """The latest epoch, or -1."""
        return self._epochs.latest

    def write(self) -> None:
        """Make the changes durable, if there are any."""
        carry_out(self.write_steps())

    def write_steps(self) -> Steps:
        """Do as ``write``. Another call that overtakes this one writes a newer state."""
        epochs = self._epochs
        if epochs != self._written:
            content = checkpoint_content([f"{epoch} {start}" for epoch, start in epochs.entries])
            # The content of the file is unknown until this ends. Suppose "epoch 5 begins at 25" is
            # being written, and the log is truncated to 20 and flushed again. The previous content
            # must then be written once more. Otherwise the first write could take effect after
            # that.
            self._written = None
            if (yield from self._directory.replace_steps(FILE_NAME, content)):
                self._written = epochs

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` begins at ``start_offset``, unless it is the latest already."""
        self._epochs = self._epochs.assign(LeaderEpoch(epoch), Offset(start_offset))

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at ``end_offset`` or later."""
        self._epochs = self._epochs.truncate_from_end(Offset(end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that ended by ``start_offset``. The epoch that spans it begins there."""
        self._epochs = self._epochs.truncate_from_start(Offset(start_offset))

    def clear(self) -> None:
        """Drop every epoch."""
        self._epochs = Epochs()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch not above ``epoch``, and its end; see :class:`Epochs`."""
        return self._epochs.end_offset_for(LeaderEpoch(epoch), Offset(log_end_offset))

    def epoch_for_offset(self, offset: int) -> LeaderEpoch:
        """Return the epoch in which the record at ``offset`` was appended, or -1 if unknown."""
        started = [epoch for epoch, start in self._epochs.entries if start <= offset]
        return started[-1] if started else LeaderEpoch(-1)


def _read(directory: Directory) -> Epochs:
    try:
        pairs = [line.split(" ") for line in read_checkpoint(directory, FILE_NAME)]
        return Epochs(tuple((LeaderEpoch(int(e)), Offset(int(start))) for e, start in pairs))
    except ValueError as error:
        path = directory.path / FILE_NAME
        raise CorruptCheckpoint(f"{path}: {error}, expected ascending 'epoch offset'") from error
