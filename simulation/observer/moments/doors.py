"""Who may come to a broker, and until when.

* **DoorsStayOpen**: who stops in order is to be reached until it has handed over what it leads.
  Whoever is told to lead instead fetches from it to the last; and if it is the controller itself,
  it must be asked, by itself and by others. Looked at when that begins and when it has ended.
* **LeaversLetIn**: at ``max.connections`` whoever leaves lets one in that waits, be it the last
  from its address or not. No plan has so many: each time that somebody leaves it is asked who would
  be let in, were there no room beside those who are here.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from ackproof.broker.server.network.acceptor import ConnectionLimits, ConnectionQuotas
from simulation.machines.node import Node
from simulation.violation import Violation


def are_open(node: Node) -> None:
    """Of a broker that begins to hand over, or has; raises Violation. One that is asked to stop
    before it has joined has never let anybody in, and leads nothing."""
    connections = None if node.app is None else node.app.connections
    if connections is None or connections._accepting is None:
        return
    if connections._accepting.done() or not node.listens:
        what = "takes in nobody any more, and has not handed over what it leads"
        raise Violation("DoorsStayOpen", f"broker {node.id} {what}")


def left(
    quotas: ConnectionQuotas, address: str, leave: Callable[[ConnectionQuotas, str], None]
) -> None:
    """One from ``address`` is about to ``leave``; raises Violation."""
    full = ConnectionQuotas(ConnectionLimits(total=quotas._by_address.total()))
    full._by_address.update(quotas._by_address)
    newcomer = full.room()
    try:
        woken: asyncio.Future[Any] = newcomer.send(None)
    except StopIteration:
        raise Violation("LeaversLetIn", "one more would be let in where there is no room") from None
    leave(full, address)
    is_let_in = woken.done()
    newcomer.close()
    if not is_let_in:
        raise Violation("LeaversLetIn", f"one from {address} leaves, and nobody would be let in")
