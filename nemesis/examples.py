"""Examples of faults on the network, on clocks and on ZooKeeper, and of orders.

They can be copied, tests run each of them, and they use the topic ``orders``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A fault as it stands in a campaign's list of faults. ``what`` describes it."""

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
    Example(
        what="a leader's clock is set an hour ahead",
        fault="step-clock",
        target=_LEADER,
        parameters={"offset_ms": 3_600_000},
    ),
    Example(
        what="no two servers agree on what time it is",
        fault="step-clock",
        target="all + zookeeper",
        parameters={"offset_ms": -3_600_000, "scramble": True},
    ),
    Example(
        what="for all servers time goes three times as fast",
        fault="fast-clock",
        target="all + zookeeper",
        parameters={"rate": 3.0},
    ),
    Example(
        what="the controller and ZooKeeper have slow clocks",
        fault="fast-clock",
        target="controller + zookeeper",
        parameters={"rate": 0.5},
    ),
    Example(
        what="the clocks of a leader and of ZooKeeper jump back by a minute, and on again",
        fault="strobe-clock",
        target=f"{_LEADER} + zookeeper",
        parameters={"delta_ms": -60_000},
    ),
    Example(
        what="ZooKeeper loses its quorum: no election, and no session ends until it is back",
        fault="pause",
        target="majority(zookeeper)",
    ),
    Example(
        what="the leader of the ensemble dies, and another server leads it",
        fault="kill",
        target="zk-leader",
    ),
    Example(
        what="a leader is deposed that runs, and reaches everybody",
        fault="expire-session",
        target="leader(orders, any)",
    ),
    Example(
        what="a controller finds its own znode there, of another session, and has to wait",
        fault="conflicted-node",
        target="controller",
    ),
)

ORDERS = (
    Example(
        what="all replicas of a topic move, as far as there are other brokers",
        fault="reassign",
        target="topic(orders)",
    ),
    Example(
        what="a member of the ISR that did not lead is preferred, and elected",
        fault="elect-preferred",
        target="partition(orders, any)",
    ),
    Example(
        what="all three must be in sync for acks=all",
        fault="alter-min-isr",
        target="topic(orders)",
        parameters={"min_insync_replicas": 3},
    ),
    Example(
        what="the controller leaves the cluster, its replicas go elsewhere, and all comes back",
        fault="remove-broker",
        target="controller",
    ),
    Example(
        what="a new broker joins, takes over replicas of a topic, leads it, and leaves",
        fault="add-broker",
        target="topic(orders)",
        parameters={"leads": True},
    ),
    Example(
        what="topics come on all brokers, and go at the end",
        fault="create-topic",
        target="all",
        parameters={"topics": 20},
    ),
    Example(
        what="topics grow on the brokers of one partition",
        fault="grow-topic",
        target="partition(orders, 0)",
    ),
    Example(
        what="a topic that is written to gets a partition more, for good",
        fault="add-partitions",
        target="topic(orders)",
    ),
    Example(
        what="the first hundred records of every partition are deleted while more are written",
        fault="advance-log-start",
        target="topic(orders)",
    ),
)
