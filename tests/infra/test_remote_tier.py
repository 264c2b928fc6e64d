"""The harness's side of the remote tier: what it tells brokers, and what it reads of them."""

from pathlib import Path, PurePosixPath

import pytest

from ackproof.infra.api.capabilities import TierProblem, TierUse
from ackproof.infra.api.interface import InfraError
from ackproof.infra.systems.kafka import remote_tier
from ackproof.infra.systems.kafka.releases import released


class Files:
    """A node with files alone."""

    def __init__(self, directory: Path) -> None:
        self.directory = PurePosixPath(directory)

    def write(self, path: PurePosixPath, content: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    def read(self, path: PurePosixPath) -> bytes:
        return Path(path).read_bytes()


@pytest.fixture
def tier(tmp_path: Path) -> remote_tier.RemoteTier:
    node = Files(tmp_path / "tier")
    return remote_tier.RemoteTier(node, "storage.jar", 3)  # type: ignore[arg-type]


def operations(tmp_path: Path, text: str) -> None:
    place = tmp_path / "tier" / "operations" / "2"
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("a") as file:
        file.write(text)


def test_tier_that_was_never_fetched_cannot_be_deployed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InfraError, match=r"tier of Apache Kafka 4\.3\.1 was never fetched"):
        remote_tier.class_path(released("4.3.1"))


def test_fault_is_written_for_its_broker_and_emptied_at_its_end(
    tier: remote_tier.RemoteTier, tmp_path: Path
) -> None:
    place = tmp_path / "tier" / "faults" / "2"
    assert tier.use(2).problem is None
    tier.disturb(2, TierProblem.SLOW, 700)
    assert place.read_text() == "fault-1 slow 700\n"
    assert (tier.use(2).problem, tier.use(3).problem) == (TierProblem.SLOW, None)
    tier.restore(2)
    assert place.read_text() == ""
    assert tier.use(2).problem is None


def test_operations_are_counted_from_the_last_fault_on(
    tier: remote_tier.RemoteTier, tmp_path: Path
) -> None:
    assert tier.use(2) == TierUse(problem=None, disturbed=0, passed=0)
    tier.disturb(2, TierProblem.ABSENT, 1)
    operations(tmp_path, "copy - passed\ncopy fault-1 refused\nfetch fault-1 refused\n")
    assert tier.use(2) == TierUse(problem=TierProblem.ABSENT, disturbed=2, passed=0)
    tier.restore(2)
    operations(tmp_path, "copy - passed\ncopy - pas")
    assert tier.use(2) == TierUse(problem=None, disturbed=2, passed=1)
    tier.disturb(2, TierProblem.READ_ONLY, 1)
    assert tier.use(2).disturbed == 0
