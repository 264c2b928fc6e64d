"""Where each leader epoch began in this log, kept in ``leader-epoch-checkpoint`` (KIP-101).

The history itself is the replica's value :class:`~broker.replication.epochs.Epochs`; this is the
one on disk, in Kafka's format: version 0, count, one "epoch offset" per line.

Every batch names its epoch, so the file need not be newer than what recovery walks: it is written
with a flush, before the recovery point moves, and what lies above is had from the batches again
(``PartitionLog.open``). Written at each change, two fsyncs each, a failover of 1,000
partitions would be 2,000 of them in a row before the first fetch is served.

The file may therefore speak of what has gone since. A follower cut to 40 where the file says "epoch
9 begins at 50", and then fetched records of epoch 8 up to 55; its broker is killed. Believed, the
file would have it ask its leader for epoch 9, and cut by the answer at the wrong place. So recovery
believes the batches it walks, and forgets what contradicts them.
"""

from ackproof.broker.log.disk.checkpoints import (
    CorruptCheckpoint,
    checkpoint_content,
    read_checkpoint,
)
from ackproof.broker.log.disk.files import Directory, Steps, carry_out
from ackproof.broker.replication.epochs import Epochs
from ackproof.broker.types import LeaderEpoch, Offset

FILE_NAME = "leader-epoch-checkpoint"


class LeaderEpochCache:
    """The epochs of one partition's log; changes are on disk when ``write`` returns."""

    def __init__(self, directory: Directory) -> None:
        """Reads the file, if there is one.

        Raises:
            CorruptCheckpoint: it is not as Kafka or we write it.
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
        """(epoch, its first offset), ascending."""
        return self._epochs.entries

    @property
    def latest(self) -> LeaderEpoch:
        """The latest epoch, or -1."""
        return self._epochs.latest

    def write(self) -> None:
        """Makes the changes durable, if there are any."""
        carry_out(self.write_steps())

    def write_steps(self) -> Steps:
        """As ``write``; if it is overtaken, by another that knows more."""
        epochs = self._epochs
        if epochs != self._written:
            content = checkpoint_content([f"{epoch} {start}" for epoch, start in epochs.entries])
            # Nobody knows what stands there until this is over. "Epoch 5 begins at 25" is being
            # written, the log is cut to 20 and flushed again: what was written before is to be
            # written once more, or the first write would come through after that.
            self._written = None
            if (yield from self._directory.replace_steps(FILE_NAME, content)):
                self._written = epochs

    def assign(self, epoch: int, start_offset: int) -> None:
        """Notes that ``epoch`` begins at ``start_offset``, unless it is the latest already."""
        self._epochs = self._epochs.assign(LeaderEpoch(epoch), Offset(start_offset))

    def truncate_from_end(self, end_offset: int) -> None:
        """Forgets the epochs that begin at ``end_offset`` or later."""
        self._epochs = self._epochs.truncate_from_end(Offset(end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Forgets the epochs that ended by ``start_offset``; the one around it begins there."""
        self._epochs = self._epochs.truncate_from_start(Offset(start_offset))

    def clear(self) -> None:
        """Forgets every epoch."""
        self._epochs = Epochs()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[LeaderEpoch, Offset]:
        """The largest known epoch not above ``epoch`` and its end; see :class:`Epochs`."""
        return self._epochs.end_offset_for(LeaderEpoch(epoch), Offset(log_end_offset))

    def epoch_for_offset(self, offset: int) -> LeaderEpoch:
        """The epoch in which the record at ``offset`` was appended, or -1 if unknown."""
        started = [epoch for epoch, start in self._epochs.entries if start <= offset]
        return started[-1] if started else LeaderEpoch(-1)


def _read(directory: Directory) -> Epochs:
    try:
        pairs = [line.split(" ") for line in read_checkpoint(directory, FILE_NAME)]
        return Epochs(tuple((LeaderEpoch(int(e)), Offset(int(start))) for e, start in pairs))
    except ValueError as error:
        path = directory.path / FILE_NAME
        raise CorruptCheckpoint(f"{path}: {error}, expected ascending 'epoch offset'") from error
