"""The agent on hosts, with all that they also need: one zip file that Python runs.

``serve`` and ``connect PATH`` are started over SSH, ``guard BASE`` by ``acquire``, and ``listen
PATH`` by the guard:

    sshd ── serve                       one conversation, while the host is prepared or released
    sshd ── connect ──socket──┐         a connection to the run's agent, as often as needed
    init ── guard ── listen ──┴── ...   outlives every connection; the run's processes below it

Nothing of it passes through a shell.
"""

from collections.abc import Sequence

from ackproof.infra.agent import main as agent


def main(arguments: Sequence[str]) -> None:
    role, *rest = arguments
    if role == "connect":
        agent.connect(*rest)
        return
    from ackproof.infra.backends.ssh.remote import (
        tenancy,
        verbs,  # connecting needs none of it
    )

    if role == "guard":
        tenancy.guard(*rest)
    else:
        agent.take_on(role, rest, verbs.VERBS)
