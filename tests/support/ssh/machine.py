"""One Debian host: ``machine.py SPECIFICATION``, the first process of a PID, mount and UTS
namespace of its own, in the network namespace it was started in.

Its disk is an overlay over this machine's, its init starts sshd and reaps. It dies, and the host is
switched off; started again with the same upper directory, the host comes up with its disk.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path


def main(specification: str) -> None:
    spec = json.loads(specification)
    root = Path(spec["root"])
    _mount("--make-rprivate", "/")
    layers = f"lowerdir={':'.join(spec['lower'])},upperdir={spec['upper']},workdir={spec['work']}"
    _mount("-t", "overlay", "-o", layers, "overlay", root)
    _mount("-t", "proc", "proc", root / "proc")
    _mount("--rbind", "/dev", root / "dev")
    _mount("-t", "tmpfs", "tmpfs", root / "dev" / "shm")  # process ids are its own, too
    _mount("-t", "tmpfs", "tmpfs", root / "run")
    (root / "run" / "sshd").mkdir(mode=0o755)
    socket.sethostname(spec["name"])
    os.chroot(root)
    os.chdir("/")
    environ = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    for number in (signal.SIGPIPE,):
        signal.signal(number, signal.SIG_DFL)
    daemon = os.posix_spawn("/usr/sbin/sshd", ["/usr/sbin/sshd", "-D", "-e"], environ)
    while os.waitpid(-1, 0)[0] != daemon:
        pass


def _mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
