"""kill -9 of the harness at any moment: what was recorded can be checked, and nothing is left.

``make test-kills KILLS=100 ON="local docker ssh"``; a minute or two for each kill, several at a
time. The moment of a kill follows from its number: a step of the run, or a fault, and how long
after that began.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil
import pytest

from ackproof.infra.backends.ssh.hosts import survey
from ackproof.infra.backends.ssh.inventory import load
from ackproof.infra.machine.registry import Registry
from ackproof.infra.machine.waiting import wait_until
from tests.support.backends.containers import owned_things
from tests.support.processes.deadlines import PATIENCE_S, TEST_S
from tests.support.processes.process import family, gone
from tests.support.ssh.hosts import SshHosts, ssh_hosts

pytestmark = [pytest.mark.kills, pytest.mark.timeout(TEST_S)]

KILLS = int(os.environ.get("ACKPROOF_KILLS", "3"))
FIRST = int(os.environ.get("ACKPROOF_KILLS_FIRST", "0"))
ON = os.environ.get("ACKPROOF_KILLS_ON", "local").split()
BARE_EVERY = 10
"""A host on which nothing of ours is yet; the others have what a run would bring: a minute less."""
NODES = ("zookeeper-1", "client-1", "broker-1", "broker-2", "broker-3")

MOMENTS = (
    *("  deploy", "  ready", "  workload", "  recover", "  flush", "  final-read", "  collect"),
    *("  teardown", "isolate#1 verified", "starve-cpu#2 verified", "power-failure#3 verified"),
    *("slow-disk#4 verified", "checking", "judging"),
)
"""Said when it begins; the last two after the run is over."""
LATER_S = (0.0, 0.3, 1.0, 3.0, 8.0)

CAMPAIGN = {
    "schedule": {"warmup": "2s", "gap": "1s", "tail": "2s", "order": "listed", "settle": "20s"},
    "evidence": {"acked.min": 50},
    "limits": {"fault": "2m", "recover": "2m"},
}
LINKS = {"fault": "isolate", "target": "leader(acks-1-minisr-2, any)", "hold": "4s"}
STARVED = {"fault": "starve-cpu", "target": "controller", "hold": "4s"}
POWER = {"fault": "power-failure", "target": "one", "hold": "2s"}
SLOW = {"fault": "slow-disk", "target": "one", "hold": "4s"}
FAULTS = {
    "local": (LINKS, STARVED, POWER, SLOW),
    "docker": (LINKS, STARVED, POWER),
    "ssh": (LINKS, STARVED),
}
"""Of the kinds that leave something in the kernel: rules, control groups, mounts, limits."""

HELD, INCONCLUSIVE, INFRASTRUCTURE = 0, 3, 5


@dataclass(frozen=True, slots=True)
class Moment:
    """``later_s`` after these words were said."""

    words: str
    later_s: float


def moment(number: int) -> Moment:
    rng = Random(f"kill {number}")
    return Moment(rng.choice(MOMENTS), rng.choice(LATER_S))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), 5) as found:
        yield found


Left = Callable[[Sequence[psutil.Process]], object]


@pytest.fixture
def left(backend: str, request, ackproof) -> Left:
    """Return a function that lists the possible leftovers of these processes on that backend. The
    engine and this machine also have things of other harnesses, which come and go meanwhile."""
    if backend == "ssh":
        hosts = request.getfixturevalue("hosts")
        return lambda _: [hosts.state(number) for number in range(len(hosts.addresses))]
    if backend == "docker":
        return lambda processes: owned_things(by=[process.pid for process in processes])
    return lambda _: kernel_things(ackproof.directory)


@pytest.fixture
def inventory(backend: str, request) -> list[str]:
    """Arguments of the commands ``run`` and ``clean``."""
    if backend != "ssh":
        return []
    return ["--inventory", str(request.getfixturevalue("hosts").inventory)]


@pytest.fixture
def clean(ackproof, number: int, inventory: Sequence[str]) -> Callable[[], None]:
    """Has the command remove what is left, and find nothing that it cannot remove."""
    there = ["--all", *inventory] if inventory else []
    bare = number % BARE_EVERY == 0
    if there and not bare:
        there.append("--keep-software")

    def cleaned() -> None:
        done = ackproof("clean", *there)
        assert done.returncode == HELD, f"{done.stdout}{done.stderr}"

    if there:  # the distribution's packages stay, whichever test needs them first
        survey(load(Path(inventory[-1])), NODES, frozenset(), print)
        if bare:
            cleaned()
    return cleaned


@pytest.mark.parametrize("number", range(FIRST, FIRST + KILLS))
@pytest.mark.parametrize("backend", ON)
def test_a_killed_harness_leaves_its_history_and_nothing_else(
    ackproof, backend: str, number: int, left: Left, inventory: list[str], clean: Callable[[], None]
) -> None:
    before = left([])
    ackproof.vary({**CAMPAIGN, "faults": list(FAULTS[backend])})
    at = moment(number)
    running = ackproof.start(
        *("run", "small.yaml", "--backend", backend, "--out", "results", *inventory)
    )
    processes, runs = killed(running, ackproof, at)
    assert gone(processes), f"{at}: something runs on"

    clean()
    assert not Registry(ackproof.state).run_ids(), str(at)
    results = ackproof.directory / "results"
    assert not (results / "scratch").exists(), str(at)
    assert not control_groups(runs), str(at)
    assert left(processes) == before, str(at)
    history_is_checkable(ackproof, results, at)


def killed(running: "subprocess.Popen[bytes]", ackproof, at: Moment):
    """Kills it then, or finds that it has ended; its processes, and the ids of its runs."""
    wait_until(
        lambda: running.poll() is not None or at.words in ackproof.output.read_text(),
        PATIENCE_S,
        f"{at.words!r}, or the end",
    )
    with suppress(subprocess.TimeoutExpired):
        running.wait(at.later_s)
    processes = family(running)
    runs = Registry(ackproof.state).run_ids()
    running.kill()
    running.wait(PATIENCE_S)
    return processes, runs


def history_is_checkable(ackproof, results: Path, at: Moment) -> None:
    """Or it is said clearly that there is none, or too little. No guarantee is broken by it."""
    checked = ackproof("check", "results")
    said = checked.stdout + checked.stderr
    assert checked.returncode in (HELD, INCONCLUSIVE, INFRASTRUCTURE, 2), f"{at}: {said}"
    assert "Traceback" not in said, f"{at}: {said}"
    if checked.returncode == 2:
        assert not (results / "manifest.json").exists(), f"{at}: {said}"
        assert "results" in said, f"{at}: it names what is missing: {said}"
        return
    document = json.loads((results / "verdict.json").read_text())
    assert document["verdict"] in ("pass", "inconclusive", "not-guaranteed"), f"{at}: {said}"
    if document["verdict"] == "inconclusive":
        assert document["findings"], f"{at}: it does not say why"


# --- what may be left on this machine -------------------------------------------------------------


def kernel_things(directory: Path) -> list[str]:
    """Mounts and loop devices of what lies below ``directory``."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    devices = [
        path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")
    ]
    return [line for line in (*mounts, *devices) if str(directory) in line]


def control_groups(runs) -> list[Path]:
    """Return the control groups with a run's id in their name."""
    groups = Path("/sys/fs/cgroup")
    return [path for run in runs for path in groups.rglob(f"*{run}*")]
