"""Exclusive ownership of log directories."""

from pathlib import Path

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    CorruptCheckpoint,
    Directory,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ackproof.broker.log.manager import InconsistentBrokerId, InconsistentClusterId, LogManager
from ackproof.broker.types import BrokerId

OURS = MetaProperties(BrokerId(1), "kVzcnVwDQEi6cPWOTWnCAA")


def opened(*directories: Path, owner: MetaProperties = OURS) -> LogManager:
    return LogManager(directories, lambda _: LogConfig(), owner=owner)


def test_new_directory_is_claimed(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert read_meta_properties(Directory(tmp_path)) == OURS
    opened(tmp_path).close()


@pytest.mark.parametrize(
    ("other", "error", "says"),
    [
        (
            MetaProperties(BrokerId(2), OURS.cluster_id),
            InconsistentBrokerId,
            r"meta\.properties: broker\.id=2, but this is broker 1; broker\.id should be 2",
        ),
        (
            MetaProperties(BrokerId(1), "other"),
            InconsistentClusterId,
            r"meta\.properties: cluster\.id=other, but this cluster is kVzcnVwDQEi6cPWOTWnCAA; ",
        ),
    ],
)
def test_foreign_directory_is_rejected_unchanged(
    tmp_path: Path, other: MetaProperties, error: type[Exception], says: str
) -> None:
    new, foreign = tmp_path / "new", tmp_path / "foreign"
    foreign.mkdir()
    write_meta_properties(Directory(foreign), other)
    (foreign / CLEAN_SHUTDOWN).touch()
    with pytest.raises(error, match=says):
        opened(new, foreign)
    assert (foreign / CLEAN_SHUTDOWN).exists(), "its owner's next start is still a clean one"
    assert read_meta_properties(Directory(foreign)) == other
    assert read_meta_properties(Directory(new)) is None, "nothing is claimed in part"
    opened(foreign, owner=other).close()


def test_directory_with_a_file_without_broker_id_is_not_new(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text("version=0\n")
    with pytest.raises(CorruptCheckpoint, match=META_PROPERTIES):
        opened(tmp_path)
