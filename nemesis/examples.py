"""Examples of faults on the network, on clocks and on ZooKeeper, and of administrative actions
(``ORDERS``). They can be copied. Tests run each of them. Their topic is called ``orders``.
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
        what="a leader and its followers cannot hear each other",
        fault="cut",
        target=f"{_LEADER} <-> {_FOLLOWERS}",
    ),
    Example(
        what="the leader of any partition loses ZooKeeper only",
        fault="cut",
        target="leader(orders, any) <-> zookeeper",
    ),
    Example(
        what="a broker does not hear the controller, but the controller hears the broker",
        fault="cut",
        target="controller -> one(all - controller)",
    ),
    Example(
        what="clients cannot reach a leader, but all servers can",
        fault="cut",
        target=f"clients <-> {_LEADER}",
    ),
    Example(
        what="ZooKeeper runs, but no broker reaches it",
        fault="cut",
        target="zookeeper <-> all",
    ),
    Example(
        what="replication stops, on the brokers' listener only",
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
        what="a broker that others hear, but that hears nothing",
        fault="isolate",
        target=_LEADER,
        parameters={"direction": "in"},
    ),
    Example(
        what="the session of a controller ends, while brokers and clients still reach it",
        fault="isolate",
        target="controller",
        parameters={"service": "zookeeper"},
    ),
    Example(
        what="fewer than half of the brokers or ZooKeeper servers are isolated together",
        fault="minority",
        target="all + zookeeper",
    ),
    Example(
        what="followers are cut off and return",
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
        what="clients lose their connections once, and may reconnect",
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
        what="ZooKeeper is far away from one broker, in both directions",
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
        what="no two servers agree on the time",
        fault="step-clock",
        target="all + zookeeper",
        parameters={"offset_ms": -3_600_000, "scramble": True},
    ),
    Example(
        what="time runs three times as fast on all servers",
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
        what="the clocks of a leader and of ZooKeeper jump back by a minute, and forward again",
        fault="strobe-clock",
        target=f"{_LEADER} + zookeeper",
        parameters={"delta_ms": -60_000},
    ),
    Example(
        what="ZooKeeper loses its quorum: no election happens and no session ends until it is back",
        fault="pause",
        target="majority(zookeeper)",
    ),
    Example(
        what="the leader of the ensemble is killed, and another server leads it",
        fault="kill",
        target="zk-leader",
    ),
    Example(
        what="a leader that runs and reaches every server is deposed",
        fault="expire-session",
        target="leader(orders, any)",
    ),
    Example(
        what="a controller finds its own znode with another session, and waits until that ends",
        fault="conflicted-node",
        target="controller",
    ),
)

ORDERS = (
    Example(
        what="all replicas of a topic move, as far as other brokers exist",
        fault="reassign",
        target="topic(orders)",
    ),
    Example(
        what=(
            "a member of the ISR that was not the leader becomes the preferred one, and is elected"
        ),
        fault="elect-preferred",
        target="partition(orders, any)",
    ),
    Example(
        what="all three replicas must be in sync for acks=all",
        fault="alter-min-isr",
        target="topic(orders)",
        parameters={"min_insync_replicas": 3},
    ),
    Example(
        what=(
            "the controller leaves the cluster, its replicas move away, and everything is restored"
        ),
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
        what="topics are created on all brokers, and deleted at the end",
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
        what="a topic that receives records gets another partition, permanently",
        fault="add-partitions",
        target="topic(orders)",
    ),
    Example(
        what="the first hundred records of every partition are deleted while more are written",
        fault="advance-log-start",
        target="topic(orders)",
    ),
)
