"""Requirements of every backend's disks: cases like those of ``conformance_cases``.

On a backend without disks, the same cases check that it reports so and refuses requests.
"""

import signal
from pathlib import Path, PurePosixPath

import pytest

from ackproof.infra.api.capabilities import Disk, ProbeBlocks
from ackproof.infra.api.interface import Backend, Capability, Command, InfraError, Node, Process
from ackproof.infra.machine.waiting import wait_until
from tests.support.backends.capability_cases import is_never_offered
from tests.support.processes.deadlines import PATIENCE_S

MEGABYTES = 32
WRITES = """
import os, sys
def write(name, *parts):
    path = os.path.join(sys.argv[1], name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    with open(path, "ab", buffering=0) as file:
        os.fsync(directory)
        for part, synced in parts:
            file.write(part)
            if synced:
                os.fsync(file.fileno())
def written():
    import signal
    print("written", flush=True)
    signal.pause()
"""
KEPT, LOST = b"kept" * 1000, b"lost" * 1000


def disks_lose_what_was_not_synced(backend: Backend, _scratch: Path) -> None:
    node = backend.node("a")
    if (disk := _disk(backend, node)) is None:
        return
    for number in (1, 2):
        write = f"write('f', ({KEPT!r}, 1), ({LOST!r}, 0))"
        _killed_when_written(node, disk, f"writes-{number}", write)
        node.disk(f"made-meanwhile-{number}", MEGABYTES)
        disk.lose_power(f"token {number}", "lost")
        assert node.read(disk.data / "f") == KEPT * number
        assert disk.witnesses() == ProbeBlocks(synced=f"token {number}", unsynced="")
    disk.remove()
    disk.remove()


def a_disk_in_use_does_not_go(backend: Backend, _scratch: Path) -> None:
    node = backend.node("a")
    if (disk := _disk(backend, node)) is None:
        return
    keeps = f"file = open({str(disk.data / 'open')!r}, 'w'); import signal; "
    user = _python(node, "uses", f"{keeps} print('written', flush=True); signal.pause()")
    for act in (disk.restore, disk.remove):
        with pytest.raises(InfraError, match="busy"):
            act()
    assert disk.refuses_writes() is None
    user.signal(signal.SIGKILL)
    user.wait(PATIENCE_S)
    disk.restore()


def disks_fail_and_are_mended(backend: Backend, _scratch: Path) -> None:
    node = backend.node("a")
    if (disk := _disk(backend, node)) is None:
        return
    other = node.disk("other", MEGABYTES)
    assert disk.refuses_writes() is None
    for fail, mend, refusal in (
        (disk.fill, disk.empty, "ENOSPC"),
        (disk.cut_off, disk.restore, "EIO"),
        (disk.make_read_only, disk.restore, "EROFS"),
    ):
        fail()
        assert disk.refuses_writes() == refusal
        assert other.refuses_writes() is None, "each fails for itself"
        mend()
        assert disk.refuses_writes() is None
    disk.fill()
    disk.fill()
    disk.empty()
    disk.empty()


def slow_disks(backend: Backend, _scratch: Path) -> None:
    node = backend.node("a")
    if (disk := _disk(backend, node)) is None:
        return
    if Capability.SLOW_DISKS not in backend.capabilities:
        if not is_never_offered(backend, Capability.SLOW_DISKS):
            with pytest.raises(InfraError):
                disk.slow(1 << 20)
        return
    assert disk.bytes_per_s() is None
    disk.slow(4096)
    disk.slow(8192)
    assert disk.bytes_per_s() == 8192
    program = f"{WRITES}\nwrite('f', (bytes(1 << 20), 1))\nwritten()"
    writer = node.start(
        Command(name="slow", argv=[node.software.python, "-c", program, str(disk.data)])
    )
    log = node.log_directory / "slow.log"
    with pytest.raises(TimeoutError):
        wait_until(lambda: b"written" in _content(node, log), 1, "what takes two minutes")
    disk.unslow()
    disk.unslow()
    assert disk.bytes_per_s() is None
    wait_until(lambda: b"written" in _content(node, log), PATIENCE_S, "what takes no time now")
    writer.signal(signal.SIGKILL)
    writer.wait(PATIENCE_S)


def tails_are_torn(backend: Backend, _scratch: Path) -> None:
    """Check that a torn tail is no whole batch and that the kept bytes are unchanged."""
    node = backend.node("a")
    if (disk := _disk(backend, node)) is None:
        return
    batch = (0).to_bytes(8, "big") + (100).to_bytes(4, "big") + b"x" * 100
    for tail in ("torn", "zeroed", "half-zeroed"):
        logs = {
            f"{tail}-{number}/{0:020}.log": lost for number, lost in enumerate((b"", batch * 2))
        }  # what is lost comes last: to sync another file makes its length durable, as zeros
        write = "\n".join(
            f"write({log!r}, ({batch!r}, 1), ({lost!r}, 0))" for log, lost in logs.items()
        )
        _killed_when_written(node, disk, tail, write)
        disk.lose_power(tail, tail)
        for log, lost in logs.items():
            found = node.read(disk.data / log)
            assert found.startswith(batch)
            left = found.removeprefix(batch)
            assert 0 < len(left) <= max(512, len(batch) * 2)
            begun = left.rstrip(b"\0")  # the length of a file may be kept, with zeros
            assert (batch * 2).startswith(begun)
            assert bool(begun) == bool(len(begun) % len(batch)) == (tail != "zeroed")
            assert tail == "torn" or len(left) == len(lost or batch), (tail, left)
    assert all(damage.there for damage in node.damage(disk.data))


def files_are_damaged(backend: Backend, _scratch: Path) -> None:
    """On any disk: no disk of the node's own is needed."""
    node = backend.node("a")
    logs = node.directory / "logs-of-a-broker"
    for topic in ("__internal", "orders"):
        for base, content in ((0, b"closed" * 50), (300, b"active" * 50)):
            node.write(logs / f"{topic}-0" / f"{base:020}.log", content)
            node.write(logs / f"{topic}-0" / f"{base:020}.index", b"index" * 8)
    node.write(logs / "recovery-point-offset-checkpoint", b"0\n0\n")
    node.write(logs / "orders-0" / "leader-epoch-checkpoint", b"0\n0\n")
    before = _contents(node, logs)
    for number, kind in enumerate(("closed-segment", "active-segment", "index"), start=1):
        node.flip_bit(logs, kind, number / 10)
    after = _contents(node, logs)
    changed = {path for path, content in after.items() if before[path] != content}
    assert {path.suffix for path in changed} == {".log", ".index"}
    assert {path.parent.name for path in changed} == {"orders-0"}
    assert sum(_bits(before[path], after[path]) for path in changed) == 3
    with pytest.raises(InfraError, match=r"every timeindex in .* is empty"):
        node.flip_bit(logs, "timeindex", 0.5)
    node.flip_bits(logs, "index", 0.5)
    indexes = [path for path in after if path.suffix == ".index" and "orders" in path.parent.name]
    each = _contents(node, logs)
    assert [_bits(after[path], each[path]) for path in indexes] == [1, 1]
    assert sum(_bits(after[path], each[path]) for path in after) == 2
    damage = node.damage(logs)[-1]
    assert (damage.file, damage.what) == ("*.index", "a bit of each of 2")
    with pytest.raises(InfraError, match=r"every timeindex in .* is empty"):
        node.flip_bits(logs, "timeindex", 0.5)
    for name in ("recovery-point-offset-checkpoint", "leader-epoch-checkpoint"):
        node.remove_files(logs, name)
        with pytest.raises(InfraError, match=f"no {name}"):
            node.remove_files(logs, name)
    assert [damage.there for damage in node.damage(logs)] == [True] * 6
    for path, content in before.items():
        node.write(path, content)
    assert [damage.there for damage in node.damage(logs)] == [False] * 6


CASES = (
    disks_lose_what_was_not_synced,
    a_disk_in_use_does_not_go,
    disks_fail_and_are_mended,
    slow_disks,
    tails_are_torn,
    files_are_damaged,
)


def leave_a_busy_disk(backend: Backend, node: Node, name: str) -> None:
    """For who is killed then: a disk under that name that is written to, slowly."""
    if Capability.LOSE_UNSYNCED_WRITES not in backend.capabilities:
        return
    disk = node.disk(name, MEGABYTES)
    if Capability.SLOW_DISKS in backend.capabilities:
        disk.slow(4096)
    program = f"{WRITES}\nwhile True: write('f', (bytes(1 << 20), 1))"
    node.start(Command(name="busy", argv=[node.software.python, "-c", program, str(disk.data)]))


def images_in_use(name: str) -> list[str]:
    """The loop devices of this machine with an image of that name."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [file.parts[3] for file in files if name in file.read_text()]


def _disk(backend: Backend, node: Node) -> Disk | None:
    """None, and refused, where the backend says that it has none."""
    if Capability.LOSE_UNSYNCED_WRITES in backend.capabilities:
        return node.disk("1", MEGABYTES)
    with pytest.raises(InfraError):
        node.disk("1", MEGABYTES)
    return None


def _killed_when_written(node: Node, disk: Disk, name: str, write: str) -> None:
    process = _python(node, name, f"{WRITES}\n{write}\nwritten()", str(disk.data))
    process.signal(signal.SIGKILL)
    process.wait(PATIENCE_S)


def _python(node: Node, name: str, program: str, *arguments: str) -> Process:
    """A program that has come to its word ``written``."""
    process = node.start(Command(name=name, argv=[node.software.python, "-c", program, *arguments]))
    log = node.log_directory / f"{name}.log"
    wait_until(lambda: b"written" in _content(node, log), PATIENCE_S, name)
    return process


def _content(node: Node, path: PurePosixPath) -> bytes:
    try:
        return node.read(path)
    except FileNotFoundError:
        return b""


def _contents(node: Node, logs: PurePosixPath) -> dict[PurePosixPath, bytes]:
    names = ["recovery-point-offset-checkpoint", "orders-0/leader-epoch-checkpoint"]
    for topic in ("__internal", "orders"):
        names += (f"{topic}-0/{b:020}{kind}" for b in (0, 300) for kind in (".log", ".index"))
    return {logs / name: node.read(logs / name) for name in names}


def _bits(one: bytes, other: bytes) -> int:
    assert len(one) == len(other)
    return sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True))
