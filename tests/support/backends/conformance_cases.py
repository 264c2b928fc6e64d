"""Requirements of every backend: cases with a backend and a directory of this machine.

The tests of tests/backends run them wherever the backend works.
"""

import hashlib
import os
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import psutil
import pytest

from ackproof.infra.agent.measuring import accepts
from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import (
    Backend,
    Capability,
    Command,
    InfraError,
    Node,
    Process,
    ProcessState,
)
from ackproof.infra.machine.waiting import wait_until
from tests.support.backends import disk_cases
from tests.support.backends.limit_cases import control_groups, too_little_cpu, too_little_memory
from tests.support.backends.link_cases import cut, heal
from tests.support.backends.peer import PORT, peers
from tests.support.processes.deadlines import PATIENCE_S

MARK = "ACKPROOF_TEST_MARK"
SILENCE_S = 0.5
BIG_BYTES = 100 << 20
SECOND_NS = 1_000_000_000


def nodes_reach_each_other(backend: Backend, _scratch: Path) -> None:
    a, b = backend.node("a"), backend.node("b")
    assert backend.node("a") is a
    assert a.address != b.address
    assert not backend.reaches(a, b, PORT), "no server listens yet"
    with peers(a, b):
        for source, target in ((a, b), (b, a), (a, a)):
            assert backend.reaches(source, target, PORT)
        assert accepts(a.address, PORT), "the harness reaches it"


def a_cut_is_one_way_and_hits_open_connections(backend: Backend, _scratch: Path) -> None:
    a, b = backend.node("a"), backend.node("b")
    with peers(a, b) as (near, far):
        near.connect(far)
        near.send("before ")
        wait_until(lambda: far.received() == "before ", PATIENCE_S, "the connection to work")
        cut(backend, a, b)
        cut(backend, a, b)
        near.send("a to b")
        far.send("b to a")
        wait_until(lambda: near.received() == "b to a", PATIENCE_S, "the way that is not cut")
        with pytest.raises(TimeoutError):
            wait_until(lambda: far.received() != "before ", SILENCE_S, "what is cut")
        assert accepts(b.address, PORT), "the harness is never cut"
        heal(backend, a, b)
        heal(backend, a, b)
        wait_until(lambda: far.received() == "before a to b", PATIENCE_S, "what was sent meanwhile")
        assert backend.reaches(a, b, PORT)


def a_cut_is_silent_for_new_connections(backend: Backend, _scratch: Path) -> None:
    a, b = backend.node("a"), backend.node("b")
    with peers(a, b):
        cut(backend, a, b)
        for source, target in ((a, b), (b, a)):  # the answers of a are dropped
            begun = time.monotonic()
            assert not backend.reaches(source, target, PORT, timeout=0.4)
            assert time.monotonic() - begun >= 0.4, "dropped, not refused"
        heal(backend, a, b)
        assert backend.reaches(b, a, PORT)


def a_cut_leaves_other_links_alone(backend: Backend, _scratch: Path) -> None:
    a, b, c = (backend.node(name) for name in "abc")
    with peers(a, b, c):
        cut(backend, a, b)
        cut(backend, b, a)
        for source, target in ((a, c), (c, a), (b, c), (c, b), (a, a)):
            assert backend.reaches(source, target, PORT)
        heal(backend, a, b)
        assert not backend.reaches(a, b, PORT, timeout=0.3), "each way is healed for itself"
        heal(backend, b, a)
        assert backend.reaches(a, b, PORT)


def many_links_are_cut_at_once(backend: Backend, _scratch: Path) -> None:
    """Cut links by several threads, as overlapping faults do: no cut is lost or undone."""
    nodes = [backend.node(name) for name in "abcd"]
    links = [(a, b) for a in nodes for b in nodes if a is not b]
    kept, healed = links[::2], links[1::2]
    with peers(*nodes), ThreadPoolExecutor(len(links)) as pool:
        list(pool.map(lambda link: cut(backend, *link), links))
        reached = pool.map(lambda link: backend.reaches(*link, PORT, timeout=0.5), links)
        assert not any(reached)
        list(pool.map(lambda link: heal(backend, *link), healed))
        list(pool.map(lambda link: cut(backend, *link), kept))
        # A connection takes both ways, so what is healed one way alone is not reached.
        whole = [link for link in healed if link[::-1] in healed]
        reached = list(pool.map(lambda link: backend.reaches(*link, PORT, timeout=0.5), links))
        assert [link for link, does in zip(links, reached, strict=True) if does] == whole
        list(pool.map(lambda link: heal(backend, *link), kept))
        assert all(pool.map(lambda link: backend.reaches(*link, PORT, timeout=5), links))


def the_clock_is_compared(backend: Backend, _scratch: Path) -> None:
    """All nodes are on this machine, and so is their clock: the bound must hold."""
    reading = backend.node("a").clock()
    assert 0 < reading.bound_ns < SECOND_NS
    assert abs(reading.offset_ns) <= reading.bound_ns


def an_agent_that_is_silent_is_told(backend: Backend, _scratch: Path) -> None:
    a, b = backend.node("a"), backend.node("b")
    process, agent = _with_agent(a, "silent")
    os.kill(agent, signal.SIGSTOP)
    try:
        with pytest.raises(InfraError):
            process.state()
        assert b.clock().bound_ns < SECOND_NS, "the others are asked as before"
    finally:
        os.kill(agent, signal.SIGCONT)
    wait_until(lambda: process.state() is ProcessState.RUNNING, PATIENCE_S, "an answer")


def an_agent_that_is_killed_takes_its_processes_along(backend: Backend, _scratch: Path) -> None:
    node = backend.node("a")
    process, agent = _with_agent(node, "killed")
    os.kill(agent, signal.SIGKILL)
    with pytest.raises(InfraError, match=r"agent .*gone"):
        process.state()
    wait_until(lambda: not marked(_mark("killed")), PATIENCE_S, "its process to end")
    with pytest.raises(InfraError):
        node.start(Command(name="x", argv=["true"]))
    backend.close()
    assert process.state() is ProcessState.EXITED


def signals_and_states(backend: Backend, _scratch: Path) -> None:
    sleeper = backend.node("a").start(Command(name="sleep", argv=["sleep", "1000"]))
    assert sleeper.state() is ProcessState.RUNNING
    assert sleeper.exit_code() is None
    sleeper.signal(signal.SIGSTOP)
    wait_until(lambda: sleeper.state() is ProcessState.STOPPED, PATIENCE_S, "STOPPED")
    assert sleeper.exit_code() is None
    sleeper.signal(signal.SIGCONT)
    wait_until(lambda: sleeper.state() is ProcessState.RUNNING, PATIENCE_S, "RUNNING")
    with pytest.raises(TimeoutError, match="sleep"):
        sleeper.wait(0.05)
    sleeper.signal(signal.SIGSTOP)
    sleeper.signal(signal.SIGKILL)
    wait_until(lambda: sleeper.state() is ProcessState.EXITED, PATIENCE_S, "EXITED")
    assert sleeper.wait(PATIENCE_S) == sleeper.exit_code() == -signal.SIGKILL
    assert sleeper.signals == {signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL}
    with pytest.raises(ProcessLookupError, match=str(sleeper.pid)):
        sleeper.signal(signal.SIGCONT)


def exit_codes(backend: Backend, _scratch: Path) -> None:
    node = backend.node("a")
    # 137 is what shells make of SIGKILL: it must not be taken for it.
    for status in (0, 7, 137, 143):
        ended = _python(node, f"exit-{status}", f"raise SystemExit({status})")
        assert ended.wait(PATIENCE_S) == ended.exit_code() == status
    terminated = node.start(Command(name="terminated", argv=["sleep", "1000"]))
    terminated.signal(signal.SIGTERM)
    assert terminated.wait(PATIENCE_S) == -signal.SIGTERM
    missing = node.start(Command(name="missing", argv=["/nonexistent"]))
    assert missing.wait(PATIENCE_S) == 127
    assert b"/nonexistent" in node.read(node.log_directory / "missing.log")


def processes_and_their_output(backend: Backend, scratch: Path) -> None:
    node = backend.node("a")
    show = (
        "import os, sys; print(os.getpid(), os.getcwd(), os.environ['X'], flush=True);"
        "print('to stderr', file=sys.stderr)"
    )
    (shown, again) = (_python(node, "show", show, env={"X": "a b"}) for _ in range(2))
    assert shown.wait(PATIENCE_S) == again.wait(20) == 0
    said = node.read(node.log_directory / "show.log").decode().splitlines()
    assert sorted(said) == sorted(
        [f"{p.pid} {node.directory} a b" for p in (shown, again)] + ["to stderr"] * 2
    )
    elsewhere = Command(name="pwd", argv=["pwd"], directory=PurePosixPath("/tmp"))
    assert node.start(elsewhere).wait(PATIENCE_S) == 0
    node.fetch(node.log_directory, scratch / "fetched")
    assert (scratch / "fetched" / "show.log").read_text().splitlines() == said
    assert (scratch / "fetched" / "pwd.log").read_text() == "/tmp\n"


def a_killed_server_leaves_its_node_and_its_data(backend: Backend, _scratch: Path) -> None:
    node = backend.node("a")
    file = node.directory / "data"
    keep = f"import signal; open({str(file)!r}, 'a').write('kept '); signal.pause()"
    bystander = node.start(Command(name="bystander", argv=["sleep", "1000"]))
    for times in (1, 2):
        server = _python(node, "server", keep)
        wait_until(
            lambda times=times: _content(node, file) == b"kept " * times, PATIENCE_S, "the data"
        )
        server.signal(signal.SIGKILL)
        assert server.wait(PATIENCE_S) == -signal.SIGKILL
    assert bystander.state() is ProcessState.RUNNING


def orphans_are_reaped(backend: Backend, _scratch: Path) -> None:
    node = backend.node("a")
    fork = "import os, sys; child = os.fork(); sys.stdout.write(f'{child}\\n' if child else '')"
    assert _python(node, "forks", fork).wait(PATIENCE_S) == 0
    orphan = node.read(node.log_directory / "forks.log").decode().strip()

    def reaped() -> bool:
        look = Command(name="look", argv=["test", "!", "-e", f"/proc/{orphan}"])
        return node.start(look).wait(PATIENCE_S) == 0

    wait_until(reaped, PATIENCE_S, "the orphan to be reaped")


def files(backend: Backend, scratch: Path) -> None:
    node = backend.node("a")
    deep = node.directory / "deep" / "deeper"
    node.write(deep / "file", b"first")
    node.write(deep / "file", b"content")
    node.write(deep / "empty", b"")
    assert node.read(deep / "file") == b"content"
    assert node.read(deep / "empty") == b""
    node.write(deep / "log", b"first\nsecond\nthird\n")
    assert node.tail(deep / "log", 8, -1) == (19, "third\n")
    assert node.tail(deep / "log", 99, 18) == (19, "first\nsecond\nthird\n")
    assert node.tail(deep / "log", 99, 19) is None
    with pytest.raises(FileNotFoundError):
        node.tail(deep / "none", 99, -1)
    node.fetch(node.directory / "deep", scratch / "copy" / "tree")
    node.fetch(deep / "file", scratch / "copy" / "single")
    assert (scratch / "copy" / "tree" / "deeper" / "file").read_bytes() == b"content"
    assert (scratch / "copy" / "tree" / "deeper" / "empty").read_bytes() == b""
    assert (scratch / "copy" / "single").read_bytes() == b"content"
    assert (
        _python(node, "reads", f"assert open({str(deep / 'file')!r}).read()").wait(PATIENCE_S) == 0
    )
    for read in (node.read, lambda path: node.fetch(path, scratch / "x")):
        with pytest.raises(FileNotFoundError):
            read(PurePosixPath("/nonexistent"))


def a_directory_is_emptied(backend: Backend, _scratch: Path) -> None:
    """And nothing beside it; the directory stays."""
    node = backend.node("a")
    home, aside = node.directory / "disk", node.directory / "aside"
    assert node.entries(home) == 0
    node.empty(home)  # it is not there
    for path in (home / "meta.properties", home / "t-0" / "0.log", home / "t-0" / "deeper" / "x"):
        node.write(path, b"content")
    node.write(aside / "kept", b"content")
    link = f"import os; os.symlink({str(aside)!r}, {str(home / 'link')!r})"
    assert _python(node, "links", link).wait(PATIENCE_S) == 0
    assert node.entries(home) == 6
    assert (node.entries(aside), node.entries(node.directory / "nothing")) == (1, 0)
    for _ in range(2):
        node.empty(home)
        assert node.entries(home) == 0
    assert node.read(aside / "kept") == b"content"
    assert _python(node, "stays", f"import os; os.listdir({str(home)!r})").wait(PATIENCE_S) == 0


def what_cannot_be_written_is_told(backend: Backend, scratch: Path) -> None:
    """And the next one is written all the same."""
    node = backend.node("a")
    node.write(node.directory / "file", b"content")
    big = bytes(3 << 20)
    for path in (node.directory / "file" / "below", node.log_directory):
        with pytest.raises(InfraError):
            node.write(path, big)
        assert node.read(node.directory / "file") == b"content"
    with pytest.raises(InfraError):
        node.read(node.log_directory)
    node.write(node.directory / "big", big)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))  # as a disk that is full
    try:
        with pytest.raises(OSError, match="too large"):
            node.fetch(node.directory / "big", scratch / "big")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (scratch / "tree").mkdir()
    node.write(node.directory / "tree" / "file", b"content")
    assert node.start(
        Command(name="ln", argv=["ln", "-s", "file", "link"], directory=node.directory / "tree")
    ).wait(PATIENCE_S) == 0  # fmt: skip
    node.fetch(node.directory / "tree", scratch / "tree")
    assert (scratch / "tree" / "link").readlink() == Path("file")


def a_hundred_megabytes(backend: Backend, scratch: Path) -> None:
    node = backend.node("a")
    content = os.urandom(1 << 20) * (BIG_BYTES >> 20)
    digest = hashlib.sha256(content).hexdigest()
    big = node.directory / "big"
    node.write(big, content)
    assert hashlib.sha256(node.read(big)).hexdigest() == digest
    node.fetch(big, scratch / "big")
    with (scratch / "big").open("rb") as fetched:
        assert hashlib.file_digest(fetched, "sha256").hexdigest() == digest


def what_is_shared_comes_here(backend: Backend, scratch: Path) -> None:
    node = backend.node("a")
    here = scratch / "results" / "history"
    here.mkdir(parents=True)
    there = node.share(here)
    write = f"open({str(there / 'table')!r}, 'w').write('rows')"
    assert _python(node, "client", write).wait(PATIENCE_S) == 0
    node.sync()
    assert (here / "table").read_text() == "rows"


def its_software_is_there(backend: Backend, _scratch: Path) -> None:
    node = backend.node("a")
    for name, code in {
        "broker": "import ackproof.broker.server",
        "clients": "from ackproof.workloads.producing import producer; "
        "from ackproof.workloads.reading_back import final_read",
    }.items():
        assert _python(node, name, code).wait(PATIENCE_S) == 0, _log(node, name)
    java = node.start(Command(name="java", argv=[node.software.java, "-version"]))
    assert java.wait(PATIENCE_S) == 0, _log(node, "java")
    for jar in node.software.zookeeper_class_path.split(":"):
        assert node.start(Command(name="jar", argv=["test", "-f", jar])).wait(PATIENCE_S) == 0, jar


def a_node_is_removed_with_all_that_is_on_it(backend: Backend, _scratch: Path) -> None:
    """And another one of its name is another one."""
    backend.node("a")
    gone = backend.node("b")
    file = gone.directory / "file"
    gone.write(file, b"content")
    process = gone.start(Command(name="sleep", argv=["sleep", "1000"]))
    if backend.name == "local" and Capability.LOSE_UNSYNCED_WRITES in backend.capabilities:
        gone.disk("1", 16)
    assert backend.remains("b")
    for _ in range(2):
        backend.remove("b")
    wait_until(lambda: not backend.remains("b"), PATIENCE_S, "nothing to be left of it")
    assert process.state() is ProcessState.EXITED
    assert backend.remains("a")
    again = backend.node("b")
    assert again is not gone
    with pytest.raises(FileNotFoundError):
        again.read(file)
    with peers(backend.node("a"), again):
        assert backend.reaches(backend.node("a"), again, PORT)


def closing_ends_what_processes_started(backend: Backend, _scratch: Path) -> None:
    node = backend.node("a")
    fork = "import os, signal; print(os.fork(), flush=True); signal.pause()"
    process = _python(node, "forks", fork, env={MARK: "closing"})
    log = node.log_directory / "forks.log"
    wait_until(lambda: node.read(log).count(b"\n") == 2, PATIENCE_S, "both processes")
    process.signal(signal.SIGSTOP)
    assert marked("closing")
    backend.close()
    backend.close()
    wait_until(lambda: not marked("closing"), PATIENCE_S, "the processes to be gone")
    assert process.state() is ProcessState.EXITED
    assert process.exit_code() == -signal.SIGKILL


def refusals(backend: Backend, _scratch: Path) -> None:
    for name in ("", "A", "1a", "a/b", "..", "a b"):
        with pytest.raises(ValueError, match=f"node name {name!r}"):
            backend.node(name)
    node = backend.node("a")
    backend.close()
    with pytest.raises(InfraError, match="closed"):
        backend.node("b")
    with pytest.raises(InfraError, match="closed"):
        node.start(Command(name="x", argv=["true"]))


def is_busy_until_killed(backend: Backend, scratch: Path) -> None:
    """Not a case of its own: a harness in the middle of a run."""
    a, b = backend.node("a"), backend.node("b")
    env = {MARK: os.environ[MARK]}
    _python(a, "runs", "import os, signal; os.fork(); signal.pause()", env=env)
    stopped = b.start(Command(name="stopped", argv=["sleep", "1000"], env=env))
    stopped.signal(signal.SIGSTOP)
    b.start(Command(name="leaves", argv=["setsid", "sleep", "1000"], env=env))
    disk_cases.leave_a_busy_disk(backend, b, os.environ[MARK])
    cut(backend, a, b)
    if Capability.LIMIT_CPU in backend.capabilities:
        a.limit(LimitedResource.CPU, 500)
    (scratch / "ready").write_text("\n".join(control_groups()))
    signal.pause()


CASES = (
    many_links_are_cut_at_once,
    too_little_cpu,
    too_little_memory,
    the_clock_is_compared,
    an_agent_that_is_silent_is_told,
    an_agent_that_is_killed_takes_its_processes_along,
    what_cannot_be_written_is_told,
    nodes_reach_each_other,
    a_cut_is_one_way_and_hits_open_connections,
    a_cut_is_silent_for_new_connections,
    a_cut_leaves_other_links_alone,
    signals_and_states,
    exit_codes,
    processes_and_their_output,
    a_killed_server_leaves_its_node_and_its_data,
    orphans_are_reaped,
    files,
    a_directory_is_emptied,
    a_hundred_megabytes,
    what_is_shared_comes_here,
    its_software_is_there,
    a_node_is_removed_with_all_that_is_on_it,
    closing_ends_what_processes_started,
    refusals,
)


def _with_agent(node: Node, name: str) -> tuple[Process, int]:
    """A process, and the id of the agent that it is below, as this machine numbers it."""
    process = node.start(Command(name="sleeps", argv=["sleep", "1000"], env={MARK: _mark(name)}))
    agents: list[int] = []

    def seen() -> bool:
        agents[:] = [psutil.Process(pid).ppid() for pid in marked(_mark(name))]
        return len(agents) == 1

    # Seen once is enough: what runs it becomes it by exec, and while one program becomes another
    # its environment reads as empty. A second look may find none.
    wait_until(seen, PATIENCE_S, "the process")
    return process, agents[0]


def _mark(name: str) -> str:
    return f"{os.environ[MARK]}-{name}"


def _python(node: Node, name: str, code: str, env: dict[str, str] | None = None) -> Process:
    argv = [node.software.python, "-c", code]
    return node.start(Command(name=name, argv=argv, env=env or {}))


def _content(node: Node, path: PurePosixPath) -> bytes:
    try:
        return node.read(path)
    except FileNotFoundError:
        return b""


def _log(node: Node, name: str) -> str:
    return node.read(node.log_directory / f"{name}.log").decode()


def marked(mark: str) -> list[int]:
    """Processes of this machine that carry the mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
