"""Faults on the network as one may want them: ready to be copied, and each tried by the tests.

They speak of the topic ``orders``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A fault as a campaign's list of faults has it. ``what``: what it does, in words."""

    what: str
    fault: str
    target: str
    parameters: Mapping[str, object] = field(default_factory=dict)


_LEADER = "leader(orders, 0)"
_FOLLOWERS = "partition(orders, 0) - leader(orders, 0)"

EXAMPLES = (
    Example(
        what="a leader and its followers do not hear each other",
        fault="cut",
        target=f"{_LEADER} <-> {_FOLLOWERS}",
    ),
    Example(
        what="the leader of any partition loses ZooKeeper, and nothing else",
        fault="cut",
        target="leader(orders, any) <-> zookeeper",
    ),
    Example(
        what="a broker does not hear the controller, which hears the broker",
        fault="cut",
        target="controller -> one(all - controller)",
    ),
    Example(
        what="clients do not reach a leader, everybody else does",
        fault="cut",
        target=f"clients <-> {_LEADER}",
    ),
    Example(
        what="ZooKeeper is there, and no broker reaches it",
        fault="cut",
        target="zookeeper <-> all",
    ),
    Example(
        what="replication stops, by the brokers' listener alone",
        fault="cut",
        target=f"{_FOLLOWERS} <-> {_LEADER}",
        parameters={"service": "broker"},
    ),
    Example(
        what="ZooKeeper's leader loses its quorum; its clients still reach it",
        fault="cut",
        target="zk-leader <-> zookeeper - zk-leader",
        parameters={"service": "quorum"},
    ),
    Example(
        what="a broker that is heard and hears nothing",
        fault="isolate",
        target=_LEADER,
        parameters={"direction": "in"},
    ),
    Example(
        what="a session that ends, of a broker that serves all others",
        fault="isolate",
        target="controller",
        parameters={"service": "zookeeper"},
    ),
    Example(
        what="some brokers or ZooKeeper servers, fewer than half, are together on their own",
        fault="minority",
        target="all + zookeeper",
    ),
    Example(
        what="followers come and go",
        fault="flap",
        target=f"{_LEADER} <-> {_FOLLOWERS}",
        parameters={"on_ms_max": 3_000},
    ),
    Example(
        what="a tenth of what the leader sends to its followers is lost",
        fault="lossy",
        target=f"{_LEADER} -> {_FOLLOWERS}",
        parameters={"percent": 10},
    ),
    Example(
        what="clients lose their connections, once, and may come again",
        fault="reset",
        target=f"clients <-> {_LEADER}",
        parameters={"refuse": False},
    ),
    Example(
        what="replication at half a megabit",
        fault="narrow",
        target=f"{_LEADER} -> {_FOLLOWERS}",
        parameters={"kbit_per_s": 500},
    ),
    Example(
        what="ZooKeeper is far away, both ways, for one broker",
        fault="slow",
        target="one <-> zookeeper",
        parameters={"delay_ms": 100},
    ),
)
