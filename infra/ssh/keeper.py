"""A host that is in use: its lease renewed, its shared directories followed."""

import logging
import threading
from pathlib import PurePosixPath

from ackproof.infra.interface import InfraError
from ackproof.infra.node import AgentNode

LEASE_S = 600.0
"""How long a host keeps what is on it without a word of the harness."""

_EVERY_S = 2.0

log = logging.getLogger(__name__)


class Keeper:
    """Keeps one node's host, in a thread of its own, from its making to :meth:`close`. A host that
    does not answer is logged and tried again. ``base``: the directory for all of ours there."""

    def __init__(self, node: AgentNode, base: PurePosixPath, run: str) -> None:
        self._node = node
        self._base = str(base)
        self._run = run
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keep-{node.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Idempotent."""
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(_EVERY_S):
            try:
                self._node.agent.ask("renew", base=self._base, run=self._run)
                self._node.sync()
            except (InfraError, OSError) as error:
                if not self._ended.is_set():
                    log.warning("%s: %s", self._node.name, error)
