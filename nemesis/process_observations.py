"""What is seen of the processes that a fault strikes, as the kernel tells it."""

import signal

from nemesis.effects import Kill, Stop
from nemesis.interface import Injection, Look, Observation
from nemesis.looking import Seen, in_state, observe, of_process, unless


def killed(injection: Injection) -> Look:
    """Signal 9 ended the processes that this fault sent it to, as the kernel tells."""
    cluster = injection.cluster

    def seen(server: str) -> Seen:
        code = cluster.server(server).process.exit_code()
        return code == -signal.SIGKILL, code

    def look() -> Observation:
        done = {e.server for e in injection.done() if isinstance(e, Kill)}
        planned = [e.server for e in injection.plan.effects if isinstance(e, Kill)]
        return observe("ended by signal 9", planned, seen, unless(done, "was down already"))

    return look


def stopped(injection: Injection) -> Look:
    """The kernel says state T of the processes that this fault stopped."""

    def look() -> Observation:
        done = {e.server for e in injection.done() if isinstance(e, Stop)}
        planned = [e.server for e in injection.plan.effects if isinstance(e, Stop)]

        def why_not(server: str) -> str | None:
            return unless(done, "was not running")(server) or of_process(injection, server)

        return observe("stopped", planned, in_state(injection.cluster, "stopped"), why_not)

    return look
