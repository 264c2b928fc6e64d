"""The guard: parent of a run's agent, which sees to it that the host comes clean.

It is the agent's subreaper: killed with SIGKILL, the agent leaves what daemons it has below the
guard, which ends them. SIGTERM makes it end everything and go. When the run has been silent for
longer than its lease, the guard ends everything and removes what the run has made; whatever happens
to harness and network. Not handled: a logind that kills what a user leaves behind
(KillUserProcesses=yes; Debian's and Ubuntu's default is no).
"""

import os
import time

from ackproof.infra.agent import children
from ackproof.infra.agent.children import in_main_thread
from ackproof.infra.ssh.remote import tenancy
from ackproof.infra.ssh.remote.main import again

_LOOK_EVERY_S = 5.0


def guard(base: str) -> None:
    """Start the agent of the run that has this host, and see to its end."""
    children.adopt_orphans()
    os.chdir(tenancy.place(base))
    # An agent that could not be started (a full disk) would leave a guard that watches nothing.
    children.run_while(lambda: _watch(base))
    children.end_all()


def _watch(base: str) -> None:
    log = (os.POSIX_SPAWN_OPEN, 2, tenancy.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    command = again("listen", tenancy.SOCKET)
    agent = in_main_thread(lambda: children.spawn(command, os.environ, [log]))
    while not _abandoned(base) and not agent.ended.wait(_LOOK_EVERY_S):
        pass
    tenancy.lift(base)
    in_main_thread(children.end_all)
    while not _abandoned(base):
        time.sleep(_LOOK_EVERY_S)
    tenancy.remove(base)


def _abandoned(base: str) -> bool:
    there = tenancy.tenant(base)
    return there is None or there["silent_s"] > there["lease_s"]
