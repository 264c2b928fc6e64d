"""The services of the machine on which a broker runs, besides the event loop.

Time, randomness, the disk, ZooKeeper and the listening socket come from here, so that a whole
broker can run in a simulated world: one seed, one history. Tasks, timers, threads and connections
come from the running event loop (``create_connection``, ``sock_accept``,
``connect_accepted_socket``, ``run_in_executor``), which is simulated there as well.
"""

import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from random import Random, SystemRandom

from ackproof.broker.config import Listener
from ackproof.broker.log.disk import REAL, FileSystem
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.server.network.connections import listening_socket
from ackproof.broker.server.schedule import Clock
from ackproof.broker.server.zk.session import ClientFactory, kazoo_client


@dataclass(frozen=True, slots=True)
class Environment:
    """One machine, as one broker sees it."""

    clock: Clock
    files: FileSystem
    random: Random
    """The source of the ids that a broker creates: topics, the cluster, fetch sessions, group
    members."""
    zookeeper: ClientFactory
    listen: Callable[[Listener, int], socket.socket]
    """Opens a listening socket for an address and a backlog. Raises OSError when the address is not
    available."""
    probe: Probe = NO_PROBE
    """The receiver of the reports of the broker's steps."""

    def new_uuid(self) -> uuid.UUID:
        """Return a random UUID (version 4)."""
        return uuid.UUID(int=self.random.getrandbits(128), version=4)


def real() -> Environment:
    """Return the machine that this process runs on."""
    return Environment(
        clock=Clock(),
        files=REAL,
        random=SystemRandom(),
        zookeeper=kazoo_client,
        listen=listening_socket,
    )
