"""Nodes whose processes have too little: cases of the suite of all backends."""

import os
import signal
from pathlib import Path

import pytest

from ackproof.infra.agent.cgroups import RUN
from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import Backend, Capability, Command, InfraError, Node
from ackproof.infra.machine.waiting import wait_until
from tests.support.backends.capability_cases import is_never_offered
from tests.support.processes.deadlines import PATIENCE_S

GREEDY = "import os; [os.urandom(1 << 20) for _ in range({})]"


def control_groups(run: str = os.environ.get(RUN, "")) -> list[str]:
    """Return the control groups on this machine of a run of this name."""
    tops = ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory")
    return [str(path) for top in tops for path in Path(top).glob(f"ackproof-*.{run}") if run]


def _is_refused(
    backend: Backend, node: Node, capability: Capability, what: LimitedResource
) -> None:
    if not is_never_offered(backend, capability):
        with pytest.raises(InfraError):
            node.limit(what, 1 << 20)


def too_little_cpu(backend: Backend, _scratch: Path) -> None:
    """For what runs, and for what is started later; or refused, where it cannot be."""
    node = backend.node("a")
    if Capability.LIMIT_CPU not in backend.capabilities:
        _is_refused(backend, node, Capability.LIMIT_CPU, LimitedResource.CPU)
        return
    busy = node.start(_python(node, "busy", "while True: pass"))
    assert node.counted(LimitedResource.CPU) == {}
    for _ in range(2):
        node.limit(LimitedResource.CPU, 20)
    wait_until(
        lambda: node.counted(LimitedResource.CPU)["throttled"] > 3,
        PATIENCE_S,
        "the kernel to make it wait",
    )
    busy.signal(signal.SIGKILL)
    assert busy.wait(PATIENCE_S) == -signal.SIGKILL
    before = node.counted(LimitedResource.CPU)["throttled"]
    node.start(_python(node, "later", "while True: pass"))
    wait_until(
        lambda: node.counted(LimitedResource.CPU)["throttled"] > before + 3,
        PATIENCE_S,
        "the next, too",
    )
    for _ in range(2):
        node.lift(LimitedResource.CPU)
        assert node.counted(LimitedResource.CPU) == {}
    assert control_groups() == []


def too_little_memory(backend: Backend, _scratch: Path) -> None:
    """Check that a process beyond its limit is killed and counted, or that the limit is refused."""
    node = backend.node("a")
    if Capability.LIMIT_MEMORY not in backend.capabilities:
        _is_refused(backend, node, Capability.LIMIT_MEMORY, LimitedResource.MEMORY)
        return
    greedy = (
        "import os, sys; sys.stdin = open(sys.argv[1]); sys.stdin.read(); "
        "print([os.urandom(1 << 20) for _ in range(200)])"
    )
    door = node.directory / "door"
    assert node.start(Command(name="mkfifo", argv=["mkfifo", str(door)])).wait(PATIENCE_S) == 0
    argv = [node.software.python, "-c", greedy, str(door)]
    process = node.start(Command(name="greedy", argv=argv))
    node.limit(LimitedResource.MEMORY, 16 << 20)
    assert node.counted(LimitedResource.MEMORY)["killed"] == 0
    # It waits at the door until the peer has been there.
    opens = node.start(Command(name="opens", argv=["cp", "/dev/null", str(door)]))
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert opens.wait(PATIENCE_S) == 0
    told = node.counted(LimitedResource.MEMORY)
    assert told["killed"] >= 1
    assert told["hits"] >= 1
    node.lift(LimitedResource.MEMORY)
    assert node.counted(LimitedResource.MEMORY) == {}
    spared = node.start(_python(node, "spared", GREEDY.format(50)))
    assert spared.wait(PATIENCE_S) == 0
    assert control_groups() == []


def _python(node: Node, name: str, code: str) -> Command:
    return Command(name=name, argv=[node.software.python, "-c", code])
