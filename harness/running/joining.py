"""Brokers that a fault adds: watched from their first start on, and what they leave behind is
fetched before their nodes are removed.

Their replicas are not: who leaves in order has none any more. Of one that did not leave, everything
is fetched with that of the others, in the step ``collect``.
"""

from dataclasses import dataclass

from ackproof.harness.running import servers, watch
from ackproof.harness.running.context import Run
from ackproof.harness.running.ends import exit_status
from ackproof.infra.interface import ProcessState, Server


def attend(run: Run) -> None:
    """Be told of those that join, from now on."""
    run.attendants.present.append(_Joining(run))


@dataclass(frozen=True, slots=True)
class _Joining:
    """Implements ``nemesis.attendant.Attendant``."""

    run: Run

    def joins(self, server: Server) -> None:
        servers.watch_one(self.run, server)

    def leaves(self, server: Server) -> None:
        """The last look comes before it is asked to end: one that it finds ended has ended by
        itself."""
        watch.stop(self.run.watches, [server.name])
        if _runs(server):
            self.run.leaving.add(server.name)

    def left(self, server: Server) -> None:
        node = server.node
        node.fetch(node.log_directory, self.run.directory / "logs" / node.name)
        if server.name in self.run.leaving:
            fault = self.run.ledger.upon(server.name)
            code = exit_status(server.process)
            self.run.recorder.server(server.name, "ended", exit_code=code, fault_id=fault)
            self.run.leaving.discard(server.name)


def _runs(server: Server) -> bool:
    try:
        return server.process.state() is not ProcessState.EXITED
    except LookupError:
        return False
