"""The SSH backend against real hosts, each with an sshd: what conformance does not ask."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from ackproof.infra.agent.impairments import CUT, Impairment
from ackproof.infra.api.artifacts import Artifact, program
from ackproof.infra.api.interface import Capability, Command, InfraError, Node, ProcessState
from ackproof.infra.backends.ssh.backend import SshBackend
from ackproof.infra.backends.ssh.connection import Connection, SshChannels
from ackproof.infra.backends.ssh.hosts import clean_hosts
from ackproof.infra.backends.ssh.inventory import load
from ackproof.infra.backends.ssh.preparation import DeliveredAgent, bring_agent
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.agent_client import AgentClient
from ackproof.infra.node.copying import fetch
from tests.support.backends.link_cases import LINKS, cut, heal
from tests.support.processes.deadlines import PATIENCE_S
from tests.support.ssh.keys import lock_key, make_key

pytestmark = pytest.mark.ssh

SSH = 22
PORT = 9000
LISTEN = f"import socket, signal; s = socket.create_server(('', {PORT})); signal.pause()"
COUNT = """
import sys, threading
for number in range(80):
    print(number, flush=True)
    threading.Event().wait(0.1)
sys.exit(7)
"""


def listens(backend: SshBackend, source: Node, target: Node) -> None:
    """See to it that ``target`` listens at PORT."""
    target.start(Command(name="listens", argv=["python3", "-c", LISTEN]))
    wait_until(lambda: backend.reaches(source, target, PORT), PATIENCE_S, "the listener")


# --- who is let in ---------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["root", "admin"])
def test_root_or_sudo_user_can_cut_links(backend, user: str) -> None:
    opened = backend(0, 1, user=user)
    a, b = opened.node("a"), opened.node("b")
    assert opened.capabilities >= {Capability.SIGNALS, *LINKS}
    listens(opened, a, b)
    cut(opened, a, b)
    assert not opened.reaches(a, b, PORT, timeout=0.3)
    heal(opened, a, b)
    assert opened.reaches(a, b, PORT)


def test_without_sudo_links_are_not_cut_and_everything_else_works(backend) -> None:
    opened = backend(0, 1, user="plain")
    a, b = opened.node("a"), opened.node("b")
    assert Capability.SIGNALS in opened.capabilities
    assert not opened.capabilities & LINKS
    assert a.start(Command(name="id", argv=["id", "-un"])).wait(PATIENCE_S) == 0
    assert a.read(a.log_directory / "id.log") == b"plain\n"
    with pytest.raises(InfraError, match=r"nft: sudo: .*plain needs sudo without a password"):
        cut(opened, a, b)


def test_a_wrong_key_is_not_let_in(inventory, tmp_path: Path) -> None:
    make_key(tmp_path / "wrong")
    with pytest.raises(InfraError, match=r"user admin was refused with .*/wrong"):
        SshBackend(load(inventory(0, key=str(tmp_path / "wrong"))), ["a"])


def test_keys_with_a_passphrase(backend, inventory, hosts, tmp_path, monkeypatch, caplog) -> None:
    caplog.set_level("DEBUG")
    locked = tmp_path / "locked"
    lock_key(hosts.directory / "key", locked, "correct horse")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(InfraError, match=r"locked has a passphrase: put it into .*passphrase.env"):
        SshBackend(load(inventory(0, key=str(locked))), ["a"])
    monkeypatch.setenv("OURS", "battery staple")
    with pytest.raises(InfraError, match="the passphrase does not match") as refused:
        SshBackend(load(inventory(0, key=str(locked), passphrase_env="OURS")), ["a"])
    monkeypatch.setenv("OURS", "correct horse")
    assert backend(0, key=str(locked), passphrase_env="OURS").node("a").address
    for secret in ("battery staple", "correct horse"):
        assert secret not in str(refused.value) + caplog.text


def test_an_unknown_host_is_refused_until_its_fingerprint_is_accepted(inventory, hosts) -> None:
    wanted = load(inventory(0, 1))
    wanted.known_hosts.write_text("")
    with pytest.raises(InfraError, match="unknown host, it shows the key SHA256:") as refused:
        SshBackend(wanted, ["a", "b"])
    fingerprints = re.findall(r"add: --accept-host-key (\S+)", str(refused.value))
    assert len(set(fingerprints)) == 2
    truth = hosts.run(0, "ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub").output
    assert any(fingerprint in truth for fingerprint in fingerprints)
    with pytest.raises(InfraError, match="unknown host"):
        SshBackend(wanted, ["a", "b"], accepted=frozenset(fingerprints[:1]))
    SshBackend(wanted, ["a", "b"], accepted=frozenset(fingerprints)).close()
    SshBackend(wanted, ["a", "b"]).close()
    assert wanted.known_hosts.read_text().count("\n") == 2


def test_a_changed_host_key_is_refused_loudly(inventory, hosts) -> None:
    wanted = load(inventory(2))  # with the hosts as they are known now
    hosts.order("rekey", 2)
    with pytest.raises(InfraError, match=r"HOST KEY HAS CHANGED: .*ssh-keygen -f .* -R"):
        SshBackend(wanted, ["a"], accepted=frozenset({"SHA256:anything"}))


def test_by_way_of_a_jump_host(hosts, tmp_path: Path) -> None:
    document = hosts.document([1])
    document["defaults"]["jump"] = {"address": hosts.addresses[0], "user": "plain"}
    wanted = load(hosts.write(tmp_path / "jump.yaml", document))
    backend = SshBackend(wanted, ["a"])
    hosts.order("cut", 1)
    try:
        node = backend.node("a")
        node.write(node.directory / "file", b"content")
        assert node.read(node.directory / "file") == b"content"
        assert node.start(Command(name="true", argv=["true"])).wait(PATIENCE_S) == 0
    finally:
        hosts.order("heal", 1)
        backend.close()


def test_a_cut_spares_the_harness_s_own_way(hosts, tmp_path: Path) -> None:
    """The jump host is a node as well: what it sends is dropped, but not our SSH."""
    document = hosts.document([0, 1])
    document["hosts"][1]["jump"] = {"address": hosts.addresses[0]}
    wanted = load(hosts.write(tmp_path / "jump.yaml", document))
    backend = SshBackend(wanted, ["a", "b"])
    try:
        a, b = backend.node("a"), backend.node("b")
        listens(backend, a, b)
        cut(backend, a, b)
        assert not backend.reaches(a, b, PORT, timeout=0.3)
        assert b.start(Command(name="true", argv=["true"])).wait(PATIENCE_S) == 0
        heal(backend, a, b)
        assert backend.reaches(a, b, PORT)
    finally:
        backend.close()


# --- what connections and hosts do -----------------------------------------------------------


def test_a_lost_connection_loses_nothing(backend, hosts) -> None:
    """The link is cut while a process runs: it goes on, and its output and exit status are there
    afterwards."""
    node = backend(0).node("a")
    process = node.start(Command(name="counts", argv=["python3", "-c", COUNT]))
    hosts.order("cut", 0)
    asked: list[object] = []
    asking = threading.Thread(target=lambda: asked.append(process.wait(PATIENCE_S)))
    asking.start()
    asking.join(5)
    assert asking.is_alive(), "it cannot be known yet"
    hosts.order("heal", 0)
    asking.join(PATIENCE_S)
    assert asked == [7]
    assert node.read(node.log_directory / "counts.log").split() == [b"%d" % n for n in range(80)]


def test_a_connection_that_breaks_is_opened_again(backend, hosts) -> None:
    node = backend(0).node("a")
    process = node.start(Command(name="sleeps", argv=["sleep", "1000"]))
    for _ in range(2):
        kill_sessions(hosts)
        assert process.state() is ProcessState.RUNNING
        node.write(node.directory / "file", b"x")
        assert node.read(node.directory / "file") == b"x"
    process.signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == -signal.SIGTERM


def kill_sessions(hosts) -> None:
    sessions = hosts.run(0, "pgrep", "-f", "^sshd: admin@").output.split()
    hosts.run(0, "kill", "-9", *sessions)


def test_a_connection_lost_in_the_middle_of_a_request(backend, hosts) -> None:
    """The request is under way when the connection breaks: it is asked again, and not done
    again."""
    opened = backend(0, 1)
    a, b = opened.node("a"), opened.node("b")
    listens(opened, a, b)
    b.clock()
    cut(opened, b, a)  # a's probes of b are not answered
    with ThreadPoolExecutor() as pool:
        probe = pool.submit(opened.reaches, a, b, PORT, timeout=4.0)
        with pytest.raises(TimeoutError):
            probe.result(1)
        kill_sessions(hosts)
        assert probe.result(60) is False
        content = os.urandom(1 << 20) * 64
        for _ in range(3):
            wrote = pool.submit(a.write, a.directory / "big", content)
            kill_sessions(hosts)
            wrote.result(60)
            read = pool.submit(a.read, a.directory / "big")
            kill_sessions(hosts)
            assert read.result(60) == content
    listing = a.start(Command(name="ls", argv=["ls"]))
    assert listing.wait(PATIENCE_S) == 0
    assert b"part" not in a.read(a.log_directory / "ls.log"), "what was half written is gone"
    heal(opened, b, a)


def test_an_agent_that_is_killed_leaves_nothing(backend, hosts) -> None:
    """Its daemons come to the guard, which ends them; the host stays the run's until it is
    released."""
    opened = backend(0)
    node = opened.node("a")
    node.start(Command(name="leaves", argv=["setsid", "--fork", "sleep", "1000"])).wait(PATIENCE_S)
    node.start(Command(name="sleeps", argv=["sleep", "1000"]))
    assert hosts.run(0, "pgrep", "sleep").output.count("\n") == 2
    hosts.run(0, "pkill", "-9", "-f", "listen agent.sock")
    wait_until(
        lambda: hosts.run(0, "pgrep", "sleep").output == "", PATIENCE_S, "both to be ended", 0.5
    )
    with pytest.raises(InfraError, match=r"are gone"):
        node.start(Command(name="x", argv=["true"]))
    assert hosts.run(0, "ls", "/home/admin/.ackproof/run").status == 0
    opened.close()
    assert hosts.run(0, "ls", "/home/admin/.ackproof/run").status != 0


def test_a_host_that_dies_in_the_middle(inventory, hosts) -> None:
    backend = SshBackend(load(inventory(1, 2)), ["a", "b"])
    a, b = backend.node("a"), backend.node("b")
    doomed = b.start(Command(name="sleeps", argv=["sleep", "1000"]))
    fine = a.start(Command(name="sleeps", argv=["sleep", "1000"]))
    b.write(b.directory / "kept", b"on disk")
    dead = hosts.addresses[2]
    hosts.order("off", 2)
    try:
        with pytest.raises(InfraError, match=f"{dead} cannot be reached"):
            doomed.state()
        assert fine.state() is ProcessState.RUNNING
        assert not backend.reaches(a, b, SSH, timeout=0.3)
        with pytest.raises(InfraError, match=f"{dead}.*\nleft on the host until 10 minutes"):
            backend.close()
        assert fine.exit_code() == -signal.SIGKILL
        assert hosts.run(1, "ls", "/home/admin/.ackproof/run").status != 0
    finally:
        hosts.order("on", 2)
    with hosts.logged_in(2, "admin") as connection:
        brought = bring_agent(connection, "~/.ackproof")
        with pytest.raises(InfraError, match=r"are gone.*was the host restarted"):
            run_agent(connection, brought).ask("state", number=0)
        brought.agent.ask("release", base=str(brought.base))


def test_a_host_has_one_run_at_a_time(backend, inventory) -> None:
    backend(0).node("a")
    with pytest.raises(
        InfraError, match=r"the host is in use by .*@.*last active \d s ago.*--inventory FILE --all"
    ):
        SshBackend(load(inventory(0)), ["a"])


def run_agent(connection: Connection, brought: DeliveredAgent) -> AgentClient:
    """The agent of the run that has the host."""
    argv = [*brought.program, "connect", str(brought.base / "run" / "agent.sock")]
    return AgentClient("host", SshChannels(connection, argv, at_once=1))


def acquire(brought: DeliveredAgent, lease_s: float) -> str:
    base = str(brought.base)
    claim = {"run": "r", "holder": "test", "lease_s": lease_s, "env": {}, "ended_by": "clean"}
    brought.agent.ask("acquire", base=base, **claim)
    return base


def test_a_host_comes_clean_when_its_harness_stays_silent(backend, hosts) -> None:
    backend(0, names=("a",)).close()  # nft is there afterwards
    with hosts.logged_in(0, "admin") as connection:
        brought = bring_agent(connection, "~/.ackproof")
        base = acquire(brought, lease_s=1.0)
        agent = run_agent(connection, brought)
        sleep = {"argv": ["setsid", "--fork", "sleep", "1000"], "env": {}, "directory": "/"}
        assert agent.ask("start", log=f"{base}/run/log", **sleep)["pid"] > 0
        agent.ask("impair", addresses=["192.0.2.1"], impairment=CUT._asdict())
        assert "192.0.2.1" in hosts.run(0, "nft", "list", "ruleset").output
        wait_until(
            lambda: hosts.run(0, "ls", f"{base}/run").status != 0, PATIENCE_S, "the guard", 0.5
        )
        assert brought.agent.ask("tenant", base=base) is None
        assert hosts.run(0, "nft", "list", "ruleset").output == ""
        assert hosts.run(0, "pgrep", "sleep").output == ""
        # Its guard goes at once: one that lingers is taken for a part of the host by who looks.
        guard = ("pgrep", "-f", "[.]pyz guard")
        wait_until(lambda: hosts.run(0, *guard).status != 0, 4, "the guard to go", 0.2)
        with pytest.raises(InfraError, match="the run has lost this host"):
            brought.agent.ask("renew", base=base, run="r")


# --- what is left ----------------------------------------------------------------------------


def settled_state(hosts) -> list[str]:
    """The state of two hosts once it no longer changes: a login just closed takes a moment."""
    looks: list[list[str]] = []

    def settled() -> bool:
        looks.append([hosts.state(n) for n in (0, 1)])
        return looks[-1:] == looks[-2:-1]

    wait_until(settled, PATIENCE_S, "the hosts to settle", 1)
    return looks[-1]


def test_hosts_are_as_before_after_a_run(backend, hosts) -> None:
    backend(0, 1, names=("a", "b")).close()
    before = settled_state(hosts)
    opened = backend(0, 1)
    a, b = opened.node("a"), opened.node("b")
    for impairment in (CUT, Impairment(kind="narrow", amount=500)):
        opened.links.impair(a, b, impairment)
    a.start(Command(name="leaves", argv=["setsid", "--fork", "sleep", "1000"]))
    b.start(Command(name="sleeps", argv=["sleep", "1000"])).signal(signal.SIGSTOP)
    b.write(b.directory / "x", b"")
    assert [hosts.state(n) for n in (0, 1)] != before
    opened.close()
    wait_until(
        lambda: [hosts.state(n) for n in (0, 1)] == before, PATIENCE_S, "hosts as before", 0.5
    )


def test_jars_are_kept_from_run_to_run(inventory, hosts, tmp_path: Path) -> None:
    """A later run brings them no more, and one that was not opened with them has none."""
    (tmp_path / "a.jar").write_bytes(b"content")
    sums = {"a.jar": hashlib.sha256(b"content").hexdigest()}
    jars = Artifact(name="kafka-1", title="Apache Kafka 1", path=tmp_path, sums=sums)
    told: list[str] = []
    for _ in range(2):
        with closing(
            SshBackend(load(inventory(0)), ["a"], report=told.append, artifacts=[jars])
        ) as backend:
            node = backend.node("a")
            there = node.where(jars)
            assert node.read(there / "a.jar") == b"content"
    brought = [line for line in told if "Kafka" in line]
    assert brought == [f"{hosts.addresses[0]}: bringing Apache Kafka 1 (0 MB)"]
    with (
        closing(SshBackend(load(inventory(0)), ["a"])) as backend,
        pytest.raises(InfraError, match="a did not receive Apache Kafka 1"),
    ):
        backend.node("a").where(jars)
    assert hosts.run(0, "ls", str(there)).output == "a.jar\n"
    assert clean_hosts(load(inventory(0)), told.append)
    assert hosts.run(0, "ls", str(there)).status != 0


def test_programs_run_on_hosts_and_are_kept_as_jars_are(inventory, hosts, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("#!/bin/sh\necho ready\n")
    artifact = program(mine, mine.name, "the program mine")
    told: list[str] = []
    for _ in range(2):
        with closing(
            SshBackend(load(inventory(0)), ["a"], report=told.append, artifacts=[artifact])
        ) as backend:
            node, there = backend.node("a"), backend.node("a").where(artifact)
            assert node.start(Command(name="mine", argv=[str(there)])).wait(PATIENCE_S) == 0
            assert node.read(node.log_directory / "mine.log") == b"ready\n"
    assert [line for line in told if "mine" in line] == [
        f"{hosts.addresses[0]}: bringing the program mine (0 MB)"
    ]
    assert clean_hosts(load(inventory(0)), told.append, keep_software=True)
    assert hosts.run(0, "ls", str(there)).status == 0
    assert clean_hosts(load(inventory(0)), told.append)
    assert hosts.run(0, "ls", str(there)).status != 0


def test_clean_removes_everything_from_hosts(inventory, hosts) -> None:
    path = inventory(0, 1)
    backend = SshBackend(load(path), ["a"])
    said: list[str] = []
    assert clean_hosts(load(path), said.append)
    assert any("is active and was not changed" in line for line in said)
    assert backend.node("a").start(Command(name="true", argv=["true"])).wait(PATIENCE_S) == 0
    said.clear()
    assert clean_hosts(load(path), said.append, everything=True)
    assert sorted(line.partition(":")[0] for line in said) == sorted(hosts.addresses[:2])
    assert all("removed /home/admin/.ackproof" in line for line in said)
    for number in (0, 1):
        assert hosts.run(number, "ls", "/home/admin/.ackproof").status != 0
    backend.close()


def test_a_host_that_cannot_be_cleaned_is_named(inventory, hosts) -> None:
    wanted = load(inventory(2))
    hosts.order("cut", 2)
    try:
        said: list[str] = []
        assert not clean_hosts(wanted, said.append)
        assert hosts.addresses[2] in said[0]
        assert "cannot be reached" in said[0]
    finally:
        hosts.order("heal", 2)


# --- what is run -----------------------------------------------------------------------------

NASTY = "a b'c\"d;touch /tmp/owned;$(touch /tmp/owned)`touch /tmp/owned`\n\\*?~é"


def test_nothing_is_seen_by_a_shell(backend, hosts) -> None:
    node = backend(0).node("a")
    echo = Command(name="echo", argv=["printf", "%s|%s", NASTY, "$HOME"], env={"X": NASTY})
    assert node.start(echo).wait(PATIENCE_S) == 0
    assert node.read(node.log_directory / "echo.log").decode() == f"{NASTY}|$HOME"
    path = node.directory / NASTY.replace("/", "_")
    node.write(path, b"x")
    assert node.read(path) == b"x"
    with hosts.logged_in(0) as connection:
        assert connection.run(["printf", "%s", NASTY]).output == NASTY
    assert hosts.run(0, "ls", "/tmp/owned").status != 0


def test_a_shared_directory_is_followed(backend, tmp_path: Path) -> None:
    """Replaced files, files that replace others, names that begin with a dot."""
    node = backend(0).node("a")
    there = node.share(tmp_path / "here")
    assert node.share(tmp_path / "here") == there
    write = "import os, sys; os.chdir(sys.argv[1]); exec(sys.argv[2])"

    def act(code: str) -> None:
        argv = ["python3", "-c", write, str(there), code]
        assert node.start(Command(name="acts", argv=argv)).wait(PATIENCE_S) == 0
        node.sync()

    act("os.mkdir('t'); open('t/1','w').write('a'); open('t/2','w').write('b'); open('.x','w')")
    assert sorted(p.name for p in (tmp_path / "here").rglob("*")) == ["1", "2", "t"]
    act("open('t/new','w').write('ab'); os.unlink('t/1'); os.unlink('t/2')")
    assert [p.read_text() for p in (tmp_path / "here" / "t").iterdir()] == ["ab"]
    act("open('t/aside','w').write('cd'); os.rename('t/aside','t/new')")
    assert [p.read_text() for p in (tmp_path / "here" / "t").iterdir()] == ["cd"]


def test_names_that_lead_elsewhere_are_refused(backend, hosts, tmp_path: Path) -> None:
    """A host that lies about its files cannot write where it likes on this machine."""
    node = backend(0).node("a")
    lying = (
        "import json, os, struct\n"
        "def take():\n"
        "    n = struct.unpack('>I', os.read(0, 4))[0]\n"
        "    return os.read(0, n) if n else b''\n"
        "while take():\n"
        "    take()\n"
        "    r = [{'name': '', 'kind': 'directory'}, *ENTRIES]\n"
        "    said = json.dumps({'result': r}).encode()\n"
        "    os.write(1, struct.pack('>II', 0, len(said)) + said)\n"
    )
    up = [{"name": "../out", "kind": "link", "target": "/"}]
    through = [
        {"name": "in", "kind": "link", "target": str(tmp_path)},
        {"name": "in/out", "kind": "file", "stamp": 0},
    ]
    with hosts.logged_in(0, "admin") as connection:
        for entries, refused in ((up, "../out"), (through, "in/out")):
            argv = ["python3", "-c", lying.replace("ENTRIES", repr(entries))]
            agent = AgentClient("host", SshChannels(connection, argv, at_once=1))
            with pytest.raises(InfraError, match=f"refused a file named '{refused}'"):
                fetch(agent, node.directory, tmp_path / "in")
    assert not (tmp_path / "out").is_symlink()
    assert not (tmp_path / "out").exists()


def test_no_root_and_something_missing_is_refused_clearly(hosts, tmp_path: Path) -> None:
    document = hosts.document([2])
    document["defaults"]["user"] = "plain"
    java = "/usr/bin/java"
    hosts.run(2, "mv", java, f"{java}.away")
    try:
        wanted = load(hosts.write(tmp_path / "plain.yaml", document))
        says = (
            "default-jre-headless must be installed, but Ackproof may not do it: .*plain needs sudo"
        )
        with pytest.raises(InfraError, match=says):
            SshBackend(wanted, ["a"])
    finally:
        hosts.run(2, "mv", f"{java}.away", java)


def test_the_command_line(inventory, hosts, tmp_path: Path) -> None:
    campaign = Path(__file__).parents[2] / "campaigns" / "quick.yaml"
    few = ackproof("run", str(campaign), "--backend", "ssh", "--inventory", str(inventory()))
    assert few.returncode == 2
    assert f"{tmp_path / 'hosts.yaml'}: hosts: no host left for broker-3" in few.stderr
    none = ackproof("run", str(campaign), "--backend", "ssh")
    assert none.returncode == 2
    assert "cluster.inventory: the backend ssh needs the file with its hosts" in none.stderr
    nowhere = ackproof("clean", "--keep-software")
    assert nowhere.returncode == 2
    assert "--inventory" in nowhere.stderr
    released = ackproof("clean", "--inventory", str(inventory(0)), "--keep-software")
    # Beside it stand the runs that are alive on this machine.
    assert f"{hosts.addresses[0]}: no run was left" in released.stdout.splitlines()
    removed = ackproof("clean", "--inventory", str(inventory(0)))
    assert removed.returncode == 0, removed.stderr
    assert f"{hosts.addresses[0]}: removed /home/admin/.ackproof" in removed.stdout


def ackproof(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "ackproof.harness", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
