"""``partition.metadata``: the topic id of a partition's log (KIP-516).

A topic that is deleted and created again has the same name and another id. A log that was not
deleted meanwhile belongs to the former topic, whatever its directory is called.

Kafka's format (``PartitionMetadataFile``): ``version: 0``, a newline, ``topic_id:`` and the id, no
newline at the end. Kafka writes the file in the background, at the latest before the first append.
Here it is on disk before the replica has a role.
"""

import re
import uuid

from ackproof.broker.log.disk import CorruptCheckpoint, Directory, Steps, carry_out
from ackproof.broker.wire.uuids import decode_uuid, encode_uuid

FILE_NAME = "partition.metadata"

_CONTENT = re.compile(r"version:\s+[0-9]+\ntopic_id:\s+(?P<topic_id>\S+)\s*")


class InconsistentTopicId(Exception):
    """A log of another topic of the same name."""


class PartitionMetadataFile:
    """The topic id of one partition's log. The value of ``topic_id`` is on disk."""

    def __init__(self, directory: Directory) -> None:
        """Read the file, if there is one.

        Raises:
            CorruptCheckpoint: the file is not in Kafka's format.
        """
        self._directory = directory
        self._topic_id = _read(directory)

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The topic's id, or None as long as it is not known."""
        return self._topic_id

    def assign(self, topic_id: uuid.UUID | None) -> None:
        """Do as ``assign_steps``, and finish before returning."""
        carry_out(self.assign_steps(topic_id))

    def assign_steps(self, topic_id: uuid.UUID | None) -> Steps:
        """Assign the log to this topic. None or zero is a topic without an id, which fits any log.

        Raises:
            InconsistentTopicId: it belongs to another topic, and nothing has changed.
            OSError: the disk refuses an operation, and nothing has changed.
        """
        if topic_id is None or topic_id.int == 0 or topic_id == self._topic_id:
            return
        if self._topic_id is not None:
            raise InconsistentTopicId(
                f"the log is of topic id {encode_uuid(self._topic_id)}, "
                f"not of {encode_uuid(topic_id)}"
            )
        content = f"version: 0\ntopic_id: {encode_uuid(topic_id)}"
        if (yield from self._directory.replace_steps(FILE_NAME, content.encode())):
            self._topic_id = topic_id


def _read(directory: Directory) -> uuid.UUID | None:
    """Read the topic id. Versions above 0 are read as well, and a zero id is refused, as in
    Kafka."""
    try:
        content = directory.read(FILE_NAME)
    except FileNotFoundError:
        return None
    try:
        found = _CONTENT.fullmatch(content.decode())
        topic_id = decode_uuid(found["topic_id"]) if found else None
    except ValueError:
        topic_id = None
    if topic_id is None or topic_id.int == 0:
        raise CorruptCheckpoint(
            f"{directory.path / FILE_NAME}: {content[:80]!r}, "
            "expected 'version: 0' and 'topic_id: <id>' on two lines"
        )
    return topic_id
