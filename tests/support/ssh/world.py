"""Debian hosts on this machine, each with its own address, disk and sshd.

    world.py DIRECTORY NUMBER [--stay]

Started as root. Writes ``DIRECTORY/inventory.yaml`` and what belongs to it (keys, known hosts),
says so in a line of JSON, and then obeys lines of JSON on its standard input until that ends (with
``--stay``: until SIGTERM or Ctrl-C): {"do": "cut" | "heal" | "off" | "on" | "rekey", "host": 0}.
``cut`` silences the link between this machine and the host.

A host is a set of namespaces (``machine.py``); its disk is an overlay over this machine's, of
which it sees neither the users' homes nor the project. What the hosts need and this machine lacks
(openssh-server, sudo) is installed into a layer of theirs, this machine stays as it is; nftables is
removed there, and downloaded for the hosts to install themselves. With this process everything is
gone.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import yaml

from ackproof.infra.backends.local.enter import enter, host_network, inside
from ackproof.infra.backends.local.network import NetworkNamespace, exposed_router
from tests.support.ssh.keys import make_key

PROJECT = Path(__file__).parents[3]
MACHINE = Path(__file__).with_name("machine.py")
HIDDEN = ("root", "home", "tmp", "var/tmp", str(PROJECT).strip("/"))
OPAQUE = "trusted.overlay.opaque"
_HARNESS = 2  # the machine's own address in an exposed subnet
_CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
PermitRootLogin prohibit-password
UsePAM no
MaxStartups 100
Subsystem sftp /usr/lib/openssh/sftp-server
"""
_SUDO = "admin ALL=(ALL) NOPASSWD: ALL\n"
USERS = ("admin", "plain")
"""One who may do everything by sudo, one who may not."""


@dataclass
class Machine:
    number: int
    directory: Path
    address: str
    namespace: NetworkNamespace
    template: Path
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def upper(self) -> Path:
        return self.directory / "upper"

    def make_key(self) -> str:
        """A new host key; its public half."""
        key = self.upper / "etc/ssh/ssh_host_ed25519_key"
        key.parent.mkdir(parents=True, exist_ok=True)
        return make_key(key)

    def on(self) -> None:
        for name in ("upper", "root"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        work = self.directory / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        (self.upper / "etc").mkdir(exist_ok=True)
        (self.upper / "etc/hosts").write_text(f"127.0.0.1 localhost host-{self.number}\n")
        specification = {
            "name": f"host-{self.number}",
            "root": str(self.directory / "root"),
            "lower": [str(self.template), "/"],
            "upper": str(self.upper),
            "work": str(work),
        }
        with (self.directory / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    "nsenter", f"--net={self.namespace.path}", "--",
                    "unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--",
                    sys.executable, str(MACHINE), json.dumps(specification),
                ],
                pass_fds=(self.namespace.descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )  # fmt: skip

    def off(self) -> None:
        assert self.process is not None
        # It ends before its child, of which the namespaces are: until that is gone, too, the host
        # still answers.
        inits = psutil.Process(self.process.pid).children()
        self.process.kill()
        self.process.wait()
        psutil.wait_procs(inits)


class World:
    def __init__(self, directory: Path, number: int) -> None:
        self.directory = directory
        disks = directory / "world" / "disks"
        disks.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disks)], check=True)
        descriptor = host_network()
        assert descriptor is not None, "root is needed"
        outside = NetworkNamespace(descriptor)
        template = _template(disks, descriptor, make_key(directory / "key"))
        self.router = exposed_router(outside)
        self.harness = str(self.router.subnet[_HARNESS])
        self.silent: set[str] = set()
        self.machines = []
        for index in range(number):
            namespace = NetworkNamespace.create()
            address = self.router.attach(namespace)
            machine = Machine(index, disks / str(index), address, namespace, template)
            machine.directory.mkdir()
            self.machines.append(machine)
        self.keys = [machine.make_key() for machine in self.machines]
        self.write_known_hosts()
        for machine in self.machines:
            machine.on()

    def silence(self) -> None:
        """Drop what is on its way between this machine and the silent hosts."""
        rules = "".join(
            f"add rule inet world passing ip saddr {a} ip daddr {b} drop\n"
            for silent in self.silent
            for a, b in ((silent, self.harness), (self.harness, silent))
        )
        chain = "add table inet world\nadd chain inet world passing "
        hook = "{ type filter hook forward priority -300; }\nflush chain inet world passing\n"
        subprocess.run(["nft", "-f", "-"], input=chain + hook + rules, text=True, check=True)

    def write_known_hosts(self) -> None:
        known = [f"{m.address} {k}\n" for m, k in zip(self.machines, self.keys, strict=True)]
        (self.directory / "known_hosts").write_text("".join(known))

    def write_inventory(self) -> Path:
        roles = [["zookeeper"], ["client"]]
        inventory = {
            "known_hosts": str(self.directory / "known_hosts"),
            "defaults": {"user": "admin", "key": str(self.directory / "key")},
            "hosts": [
                {"address": m.address, "roles": roles[i] if i < len(roles) else ["broker"]}
                for i, m in enumerate(self.machines)
            ],
        }
        path = self.directory / "inventory.yaml"
        path.write_text(yaml.safe_dump(inventory, sort_keys=False))
        return path

    def obey(self, order: str, number: int) -> None:
        machine = self.machines[number]
        if order in ("cut", "heal"):
            change = self.silent.add if order == "cut" else self.silent.discard
            change(machine.address)
            self.silence()
        elif order == "rekey":
            machine.off()
            self.keys[number] = machine.make_key()
            machine.on()
            self.write_known_hosts()
        else:
            {"on": machine.on, "off": machine.off}[order]()


def _template(disks: Path, network: int, public_key: str) -> Path:
    """The layer that all hosts share: what is installed, the users, sshd's configuration."""
    upper, work, root = (disks / name for name in ("template", "template-work", "template-root"))
    for directory in (upper, work, root):
        directory.mkdir()
    for hidden in HIDDEN:
        (upper / hidden).mkdir(parents=True)
        os.setxattr(upper / hidden, OPAQUE, b"y")
    for hidden in ("tmp", "var/tmp"):
        (upper / hidden).chmod(0o1777)
    layers = f"lowerdir=/,upperdir={upper},workdir={work}"
    _run("mount", "-t", "overlay", "-o", layers, "overlay", root)
    _run("mount", "-t", "proc", "proc", root / "proc")
    _run("mount", "--rbind", "/dev", root / "dev")
    _install(root, network)
    for user in USERS:
        _run("chroot", root, "useradd", "--create-home", "--shell=/bin/bash", "--password=*", user)
    _run("chroot", root, "usermod", "--password=*", "root")
    (root / "etc/sudoers.d/admin").write_text(_SUDO)
    (root / "etc/ssh/sshd_config").write_text(_CONFIG)
    for user, home in (("root", "root"), *((user, f"home/{user}") for user in USERS)):
        keys = root / home / ".ssh"
        keys.mkdir(mode=0o700)
        (keys / "authorized_keys").write_text(public_key)
        _run("chroot", root, "chown", "-R", f"{user}:", f"/{home}")
    _run("umount", "--recursive", root)
    return upper


def _install(root: Path, network: int) -> None:
    policy = root / "usr/sbin/policy-rc.d"  # no daemon is started
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    # Where this machine is an image, apt is told to keep nothing of what it downloads.
    (root / "etc/apt/apt.conf.d/docker-clean").unlink(missing_ok=True)
    wanted = ["openssh-server", "sudo", "python3-venv", "iproute2", "procps"]
    if shutil.which("java") is None:
        wanted.append("default-jre-headless")
    there = [
        "nsenter", f"--net=/proc/self/fd/{network}", "--", "chroot", str(root),
        "env", "DEBIAN_FRONTEND=noninteractive",
    ]  # fmt: skip
    apt = [*there, "apt-get", "-q", "-y"]
    install = [*apt, "install", "--no-install-recommends"]

    def run(*argv: str) -> bool:
        done = subprocess.run(
            argv, pass_fds=(network,), stdout=sys.stderr, stdin=subprocess.DEVNULL, check=False
        )
        return done.returncode == 0

    # Of this machine, the hosts see the moment: an installation may be under way here.
    run(*there, "dpkg", "--configure", "-a")
    done = run(*install, *wanted) or (run(*apt, "update") and run(*install, *wanted))
    gone = run(*apt, "remove", "nftables")
    if not (done and gone and run(*install, "--download-only", "nftables")):
        sys.exit("what the hosts need could not be installed")


def _run(*argv: object) -> None:
    subprocess.run([str(a) for a in argv], check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)


def main() -> None:
    directory, number, *options = sys.argv[1:]
    if not inside():
        command = [sys.executable, *sys.orig_argv[1:]]
        enter(command, f"ssh-world-{os.getpid()}", scratch=Path(directory) / "world")
    world = World(Path(directory), int(number))
    said = {"inventory": str(world.write_inventory()), "harness": world.harness}
    print(json.dumps(said | {"addresses": [m.address for m in world.machines]}), flush=True)  # noqa: T201
    if options:
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    for line in sys.stdin if not options else ():
        order = json.loads(line)
        world.obey(order["do"], order["host"])
        print(json.dumps({"done": order}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
