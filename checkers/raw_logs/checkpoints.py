"""The high watermarks that brokers write down, in ``replication-offset-checkpoint`` beside the logs
of a directory: a line with the format's version, 0, one with how many there are, and one for each
partition, ``topic partition offset`` (Kafka's *OffsetCheckpointFile*)."""

from ackproof.history.storage import AnyPath

FILE = "replication-offset-checkpoint"


def high_watermark(log: AnyPath, partition: tuple[str, int]) -> int | None:
    """That of the partition whose log is in this directory; None where nothing is written of it, or
    not in that format. Up to five seconds old, and lower than it is
    (``replica.high.watermark.checkpoint.interval.ms``)."""
    try:
        version, _, *entries = (log.parent / FILE).read_text().splitlines()
    except (OSError, ValueError):
        return None
    topic, number = partition
    for entry in entries if version == "0" else ():
        match entry.split(" "):
            case [name, which, offset] if (name, which) == (topic, str(number)):
                return int(offset) if offset.isdecimal() else None
    return None
