"""The disk in memory: it behaves as a real one, except for the injected faults."""

import errno
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ackproof.broker.log.disk import REAL, FileSystem
from ackproof.broker.wire.batch import HEADER_BYTES
from simulation.loop import Killed, SimulatedLoop, SimulatedProcess
from simulation.machines.disk import READ, SYNC, UNLIMITED_BYTES, WRITE, SimulatedDisk
from simulation.machines.node import process_files
from tests.support.builders.examples import examples

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.builds(
    lambda parts: Path(*parts), st.lists(NAMES, min_size=1, max_size=3).map(lambda p: ["d", *p])
)
SIBLINGS = st.builds(lambda path, name: (path, path.with_name(name)), PATHS, NAMES)
HOME = Path("/d")
FILE = HOME / "file"
SEEDS = range(60)


class RealAndMemory(RuleBasedStateMachine):
    """A comparison of both file systems: each operation must give the same result."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.memory = SimulatedDisk(Random(1))
        self.open_files: list[tuple[int, int]] = []
        self.both(lambda files, root: files.make_directory(root / "d"))

    def both(self, action: Callable[[FileSystem, Path], Any]) -> Any:
        real = outcome(lambda: action(REAL, self.folder))
        assert outcome(lambda: action(self.memory, Path("/"))) == real
        return real

    def of_one(self, number: int, action: Callable[[FileSystem, int], Any]) -> None:
        if self.open_files:
            real, memory = self.open_files[number % len(self.open_files)]
            expected = outcome(lambda: action(REAL, real))
            assert outcome(lambda: action(self.memory, memory)) == expected

    @rule(path=PATHS)
    def open(self, path: Path) -> None:
        real = outcome(lambda: REAL.open(self.folder / path))
        memory = outcome(lambda: self.memory.open("/" / path))
        if isinstance(real, int):
            self.open_files.append((real, memory))
        else:
            assert memory == real

    @rule(number=st.integers(0, 9), data=st.binary(min_size=1, max_size=30))
    def write(self, number: int, data: bytes) -> None:
        self.of_one(number, lambda files, descriptor: files.write(descriptor, memoryview(data)))

    @rule(number=st.integers(0, 9), size=st.integers(0, 50), position=st.integers(0, 50))
    def pread(self, number: int, size: int, position: int) -> None:
        self.of_one(number, lambda files, descriptor: files.pread(descriptor, size, position))

    @rule(number=st.integers(0, 9), size=st.integers(0, 50))
    def truncate(self, number: int, size: int) -> None:
        self.of_one(number, lambda files, descriptor: files.truncate(descriptor, size))

    @rule(number=st.integers(0, 9))
    def size_and_sync(self, number: int) -> None:
        self.of_one(number, lambda files, descriptor: files.sync(descriptor))
        self.of_one(number, lambda files, descriptor: files.size(descriptor))
        self.of_one(number, lambda files, descriptor: files.drop_cached_pages(descriptor))

    @rule(number=st.integers(0, 9))
    def lock(self, number: int) -> None:
        self.of_one(number, lambda files, descriptor: files.lock(descriptor))

    @rule(number=st.integers(0, 9))
    def duplicate(self, number: int) -> None:
        if self.open_files:
            real, memory = self.open_files[number % len(self.open_files)]
            self.open_files.append((REAL.duplicate(real), self.memory.duplicate(memory)))

    @rule(number=st.integers(0, 9))
    def close(self, number: int) -> None:
        self.of_one(number, lambda files, descriptor: files.close(descriptor))
        if self.open_files:
            del self.open_files[number % len(self.open_files)]

    @rule(path=PATHS)
    def read(self, path: Path) -> None:
        self.both(lambda files, root: files.read(root / path))

    @rule(path=PATHS)
    def make_directory(self, path: Path) -> None:
        self.both(lambda files, root: files.make_directory(root / path))

    @rule(pair=SIBLINGS)
    def rename(self, pair: tuple[Path, Path]) -> None:
        source, target = pair
        if REAL.is_directory(self.folder / source) and REAL.is_directory(self.folder / target):
            return  # the system removes an empty one, which is not tested
        self.both(lambda files, root: files.rename(root / source, root / target))

    @rule(path=PATHS)
    def remove(self, path: Path) -> None:
        self.both(lambda files, root: files.remove(root / path))

    @rule(path=PATHS)
    def remove_tree(self, path: Path) -> None:
        if not (self.folder / path).is_file():
            self.both(lambda files, root: files.remove_tree(root / path))

    @rule(path=PATHS)
    def sync_directory(self, path: Path) -> None:
        self.both(lambda files, root: files.sync_directory(root / path))

    @invariant()
    def hold_the_same(self) -> None:
        if hasattr(self, "memory"):
            assert tree(self.memory, Path("/d")) == tree(REAL, self.folder / "d")

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            for real, _ in self.open_files:
                REAL.close(real)
            shutil.rmtree(self.folder)


def test_lock_is_shared_with_an_earlier_duplicate() -> None:
    """Test the rule of flock: the lock belongs to the open file."""
    disk = SimulatedDisk(Random(1))
    disk.make_directory(HOME)
    descriptor, other = disk.open(FILE), disk.open(FILE)
    duplicate = disk.duplicate(descriptor)
    disk.lock(descriptor)
    disk.lock(duplicate)
    disk.close(descriptor)
    with pytest.raises(BlockingIOError):
        disk.lock(other)
    disk.close(duplicate)
    disk.lock(other)


def test_partial_write_takes_at_least_one_byte() -> None:
    disk = SimulatedDisk(Random(1), short=Random(1))
    disk.make_directory(HOME)
    descriptor = disk.open(FILE)
    taken = [disk.write(descriptor, b"some") for _ in range(500)]
    assert {1, 2, 3} < set(taken) <= {1, 2, 3, 4}
    assert disk.size(descriptor) == sum(taken)


def outcome(action: Callable[[], Any]) -> Any:
    """Return the result of the action, or the name of its error."""
    try:
        return action()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def tree(files: FileSystem, path: Path) -> Any:
    """Return all names below ``path``, with their kinds and contents."""
    if not files.is_directory(path):
        return files.read(path)
    return {name: tree(files, path / name) for name in sorted(files.names(path))}


TestRealAndMemory = RealAndMemory.TestCase
TestRealAndMemory.settings = settings(max_examples=examples(30), stateful_step_count=40)


def disk_with(content: bytes, seed: int = 0) -> tuple[SimulatedDisk, int]:
    """Return a disk with one durable file, and its descriptor."""
    disk = SimulatedDisk(Random(seed))
    disk.make_directory(HOME)
    descriptor = disk.open(FILE)
    disk.write(descriptor, content)
    for directory in (HOME, HOME.parent):
        disk.sync_directory(directory)
    disk.sync(descriptor)
    return disk, descriptor


def after_power_loss(
    content: bytes, act: Callable[[SimulatedDisk, int], object], path: Path = FILE
) -> set[bytes | None]:
    """Return the contents of the file after ``act`` and a power failure, over many seeds. None
    stands for a missing file."""
    found: set[bytes | None] = set()
    for seed in SEEDS:
        disk, descriptor = disk_with(content, seed)
        act(disk, descriptor)
        disk.lose_power()
        left = disk.names(HOME)
        found.add(disk.read(path) if path.name in left else None)
    return found


def test_synced_bytes_survive() -> None:
    def act(disk: SimulatedDisk, descriptor: int) -> None:
        disk.write(descriptor, b"new")
        disk.sync(descriptor)

    assert after_power_loss(b"old", act) == {b"oldnew"}


def test_unsynced_bytes_survive_vanish_or_are_torn() -> None:
    new = b"n" * 2000
    found = after_power_loss(b"old", lambda disk, descriptor: disk.write(descriptor, new))
    assert all(left is not None and left.startswith(b"old") for left in found)
    assert {b"old", b"old" + new} <= found
    lengths = {len(left) for left in found if left is not None}
    assert len(lengths) > 5, "torn anywhere"
    assert all(3 <= length <= 2003 for length in lengths)
    rests = [left[3:].strip(b"n") for left in found if left]
    assert any(rest and not rest.strip(b"\0") for rest in rests), "zeros for sectors"
    assert any(rest.strip(b"\0") for rest in rests), "garbage for sectors"


def test_unsynced_truncation_may_be_undone_with_later_appends() -> None:
    def act(disk: SimulatedDisk, descriptor: int) -> None:
        disk.truncate(descriptor, 2)
        disk.write(descriptor, b"X")

    assert after_power_loss(b"old", act) >= {b"old", b"ol", b"olX"}
    assert b"olXd" not in after_power_loss(b"old", act)


def test_file_with_an_unsynced_name_may_vanish() -> None:
    other = HOME / "other"

    def act(disk: SimulatedDisk, _: int) -> None:
        descriptor = disk.open(other)
        disk.write(descriptor, b"new")
        disk.sync(descriptor)

    assert after_power_loss(b"old", act, other) == {None, b"new"}


def test_unsynced_removal_may_be_undone() -> None:
    def act(disk: SimulatedDisk, _: int) -> None:
        disk.remove(FILE)

    assert after_power_loss(b"old", act) == {None, b"old"}


def test_disk_knows_names_that_may_survive_a_power_failure() -> None:
    disk = SimulatedDisk(Random(1))
    disk.make_directory(HOME)
    disk.sync_directory(HOME)
    assert not disk.may_reappear(FILE)
    disk.close(disk.open(FILE))
    assert not disk.is_durable(FILE)
    disk.sync_directory(HOME)
    assert disk.is_durable(FILE)
    disk.remove(FILE)
    assert (disk.may_reappear(FILE), disk.is_durable(FILE)) == (True, False)
    disk.close(disk.open(FILE))
    assert not disk.is_durable(FILE)  # it may be neither the old one nor the new one
    disk.remove(FILE)
    disk.sync_directory(HOME)
    assert not disk.may_reappear(FILE)


def test_disk_counts_its_failures() -> None:
    disk = SimulatedDisk(Random(1), capacity=1)
    descriptor = disk.open(HOME.parent / "file")
    disk.fail(["read"])
    with pytest.raises(OSError, match="Input/output"):
        disk.pread(descriptor, 1, 0)
    assert disk.failures == 0
    disk.fail(["sync"])
    with pytest.raises(OSError, match="Input/output"):
        disk.sync(descriptor)
    disk.fail(())
    disk.write(descriptor, b"a")
    with pytest.raises(OSError, match="No space"):
        disk.write(descriptor, b"b")
    assert disk.failures == 2


def test_garbled_reads_leave_the_stored_bytes_intact() -> None:
    disk = SimulatedDisk(Random(1))
    path, content = HOME / "file", bytes(range(100))
    disk.make_directory(HOME)
    descriptor, other = disk.open(path), disk.open(HOME.parent / "file")
    for each in (descriptor, other):
        disk.write(each, content)
    disk.corrupt_reads([HOME])
    read = disk.pread(descriptor, 100, 0)
    assert [at for at in range(100) if read[at] != content[at]] == [HEADER_BYTES]
    assert disk.pread(descriptor, HEADER_BYTES, 0) == content[:HEADER_BYTES]
    assert disk.pread(other, 100, 0) == content
    disk.corrupt_reads(())
    assert disk.pread(descriptor, 100, 0) == content
    disk.corrupt_reads([HOME])
    disk.kill()
    assert disk.pread(disk.open(path), 100, 0) == content


def replace(disk: SimulatedDisk, *, synced: bool) -> None:
    descriptor = disk.open(HOME / "tmp")
    disk.write(descriptor, b"new")
    if synced:
        disk.sync(descriptor)
    disk.rename(HOME / "tmp", FILE)


def test_unsynced_rename_is_atomic() -> None:
    found = after_power_loss(b"old", lambda disk, _: replace(disk, synced=True))
    assert found == {b"old", b"new"}


def test_rename_does_not_sync_the_renamed_file() -> None:
    def act(disk: SimulatedDisk, _: int) -> None:
        replace(disk, synced=False)
        disk.sync_directory(HOME)

    assert after_power_loss(b"old", act) > {b"", b"new"}


def test_unsynced_directory_vanishes_with_its_contents() -> None:
    inner = HOME / "inner"
    left = set()
    for seed in SEEDS:
        disk, _ = disk_with(b"", seed)
        disk.make_directory(inner)
        disk.sync(disk.open(inner / "x"))
        disk.sync_directory(inner)
        disk.lose_power()
        left.add(disk.is_directory(inner) and tuple(disk.names(inner)))
    assert left == {False, ("x",)}


def test_unsynced_name_changes_may_happen_out_of_order() -> None:
    left = set()
    for seed in SEEDS:
        disk, _ = disk_with(b"", seed)
        for name in "ab":
            disk.open(HOME / name)
        disk.lose_power()
        left.add("".join(sorted(disk.names(HOME))))
    assert left == {"file", "afile", "bfile", "abfile"}


def test_killed_process_loses_only_its_locks_and_descriptors() -> None:
    disk, descriptor = disk_with(b"old")
    disk.lock(descriptor)
    disk.write(descriptor, b"new")
    with pytest.raises(BlockingIOError):
        disk.lock(disk.open(FILE))
    disk.kill()
    assert disk.read(FILE) == b"oldnew"
    disk.lock(disk.open(FILE))
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.write(descriptor, b"zombie")


def test_failed_sync_may_lose_bytes_for_good() -> None:
    def act(disk: SimulatedDisk, descriptor: int) -> None:
        disk.write(descriptor, b"new")
        disk.fail([SYNC])
        with pytest.raises(OSError, match="Input/output error"):
            disk.sync(descriptor)
        disk.fail([])
        disk.write(descriptor, b"er")
        assert disk.read(FILE) == b"oldnewer"
        disk.sync(descriptor)

    assert after_power_loss(b"old", act) == {b"oldnewer", b"old\0\0\0er"}


def test_bytes_lost_by_a_failed_sync_may_be_seen_by_the_next_process() -> None:
    found = set()
    for seed in SEEDS:
        disk, descriptor = disk_with(b"old", seed)
        disk.write(descriptor, b"new")
        disk.fail([SYNC])
        with pytest.raises(OSError, match="Input/output error"):
            disk.sync(descriptor)
        disk.fail([])
        disk.kill()
        found.add(disk.read(FILE))
    assert found == {b"oldnew", b"old\0\0\0"}


def test_full_disk_stores_the_bytes_that_fit() -> None:
    disk, descriptor = disk_with(b"old")
    disk.capacity = 5
    assert disk.disk_usage(HOME) == (5, 2)
    assert disk.write(descriptor, b"new") == 2
    with pytest.raises(OSError, match="No space left"):
        disk.write(descriptor, b"w")
    disk.truncate(descriptor, 1)
    assert disk.free == 4
    disk.remove(FILE)
    assert disk.free == 5
    disk.capacity = UNLIMITED_BYTES


def test_failing_disk_raises_errors_of_reads_and_writes() -> None:
    lengths = set()
    for seed in SEEDS:
        disk, descriptor = disk_with(b"old", seed)
        disk.fail([WRITE, READ])
        with pytest.raises(OSError, match="Input/output error"):
            disk.write(descriptor, b"new")
        with pytest.raises(OSError, match="Input/output error"):
            disk.pread(descriptor, 1, 0)
        with pytest.raises(OSError, match="Input/output error"):
            disk.read(FILE)
        disk.fail([])
        lengths.add(len(disk.read(FILE)))
    assert lengths == {3, 4, 5, 6}, "a write that fails may be done in part"


def test_dead_process_cannot_use_its_disk() -> None:
    disk, process, loop = (
        SimulatedDisk(Random(1)),
        SimulatedProcess("host"),
        SimulatedLoop(Random(1)),
    )
    succeeded: list[str] = []
    files = process_files(disk, process, succeeded.append)
    asked: list[str] = []
    disk.watch = asked.append
    files.make_directory(Path("/data"))
    descriptor = files.open(Path("/data/log"))

    def kill(kind: str) -> None:
        asked.append(kind)
        loop.kill(process)

    disk.watch = kill
    with pytest.raises(Killed):
        files.write(descriptor, b"the last that it wrote")
    before = [*asked]
    with pytest.raises(Killed):
        files.rename(Path("/data/log"), Path("/data/other"))
    with pytest.raises(Killed):
        files.write(descriptor, b"never")
    assert asked == before
    assert disk.read(Path("/data/log")) == b"the last that it wrote"
    assert succeeded == ["make_directory", "open", "write"]
