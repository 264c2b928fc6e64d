"""Target expressions: the nodes that a fault strikes, named by role.

::

    target  = set [("->" | "<->") set]
    set     = term {("+" | "-") term}
    term    = role ["(" argument ")"] | "(" set ")"

``+`` and ``-`` are union and difference, from left to right. ``A -> B`` are the links from every
node of A to every node of B, ``A <-> B`` both ways. A minus stands between spaces, because names
have dashes.

An expression is parsed when the campaign is read, so that mistakes are reported before anything
starts. It is resolved (``nemesis.targets.resolution``) when the fault strikes, because roles move.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ackproof.config.suggestions import hint, meant_of, there_are
from ackproof.nemesis.interface import BY_PARTITION, Aim, Members

ZK_LEADER = "zk-leader"
QUORUM, QUORUM_LEADER = "quorum", "quorum-leader"
OF_PARTITION: Mapping[str, str] = {
    "leader": "the broker that leads the partition",
    "follower": "one of its in-sync followers",
    "next-leader": "the in-sync follower that leads next: the first assigned; with generation "
    "0.8 the first in the ISR",
    "last-follower": "the in-sync follower that leads last: the last assigned; with generation "
    "0.8 the last in the ISR",
    "isr": "its in-sync replicas",
    "partition": "the brokers with a replica of it",
}
OF_TOPIC: Mapping[str, str] = {"topic": "the brokers with a replica of any of its partitions"}
RACK = "rack"
OF_RACK: Mapping[str, str] = {RACK: "every broker of a rack, or of any"}
QUANTIFIERS: Mapping[str, str] = {
    "one": "one of a set, or of all brokers",
    "minority": "the largest minority of a set, or of all brokers",
    "majority": "the smallest majority of a set, or of all brokers",
}
OF_CLUSTER: Mapping[str, str] = {
    "controller": "the controller; with KRaft, the server of the active controller",
    "most-leaders": "the broker that leads most partitions",
    "all": "every broker",
    QUORUM: "the metadata servers: ZooKeeper's, or the KRaft controllers",
    QUORUM_LEADER: "their leader",
    "zookeeper": "every ZooKeeper server",
    ZK_LEADER: "the leader of the ZooKeeper ensemble",
    "clients": "the nodes of clients (none, if the fault affects only servers)",
}
_NAMES = (*OF_PARTITION, *OF_TOPIC, *OF_RACK, *QUANTIFIERS, *OF_CLUSTER, "broker-1", "zookeeper-1")
_LEADING = frozenset({ZK_LEADER, QUORUM_LEADER})
_INSTEAD = {"zookeeper": QUORUM, ZK_LEADER: QUORUM_LEADER}
"""The role to use instead, which is right with KRaft, and with ZooKeeper, too."""
MOVING = frozenset({*OF_PARTITION, *OF_TOPIC, "controller", "most-leaders"})
"""The roles that only ZooKeeper's state can resolve."""

_TOKEN = re.compile(
    r"\s*(?:(?P<arrow><->|->)|(?P<sign>[+(),]|-(?=\s))|(?P<word>\w+(?:[.-]+\w+)*)|(?P<bad>\S))"
)
_LIKE_AN_ARROW = re.compile(r"<?[=-]*>|<[=-]*|[\u2190-\u21ff\u27f5-\u27ff]")
_NUMBERED = re.compile(r"(broker|zookeeper|controller|client)-\d+")
ANY = "any"
_WITH_TOPIC = rf"(?<![\w-])({'|'.join([*OF_PARTITION, *OF_TOPIC])})\s*\(\s*"
_ANY_TOPIC = re.compile(rf"{_WITH_TOPIC}{ANY}\s*(?=[,)])")
_NAMED_TOPIC = re.compile(rf"{_WITH_TOPIC}(?!{ANY}\s*[,)]|__)(?=\S)")
RACK_NAME = r"\w+(?:[.-]+\w+)*"
"""The form of the name of a rack, as of any word in a target. The name ``any`` is not one."""


@dataclass(frozen=True, slots=True)
class TargetRole:
    """A role or a name.

    ``partition`` is None for any partition, or where the role takes none; so is ``rack`` for any
    rack.
    """

    name: str
    topic: str | None = None
    partition: int | None = None
    of: "Set | None" = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class CombinedTargets:
    """A union (``+``) or a difference (``-``)."""

    sign: str
    left: "Set"
    right: "Set"


Set = TargetRole | CombinedTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A parsed target: a set, or links from ``nodes`` to ``to``."""

    text: str
    nodes: Set
    to: Set | None = None
    both_ways: bool = False

    @property
    def roles(self) -> tuple[TargetRole, ...]:
        """Every role and name in the expression."""
        return tuple(role for part in (self.nodes, self.to) if part for role in roles_of(part))

    @property
    def moving(self) -> bool:
        """Whether it takes ZooKeeper's state to resolve the expression."""
        return any(role.name in MOVING for role in self.roles)

    @property
    def asks_zookeeper(self) -> bool:
        """Whether it takes ZooKeeper's servers, or the controllers, to name their leader."""
        return any(role.name in _LEADING for role in self.roles)


def parse(text: str) -> Expression:
    """Parse a target expression; raise a ValueError that names what would be right."""
    return _Parser(text).target()


def on_topic(text: str, topic: str) -> str:
    """Return a target with ``topic`` wherever it leaves the topic open, as in ``leader(any,
    0)``."""
    return _ANY_TOPIC.sub(lambda found: f"{found[1]}({topic}", text)


def with_prefix(text: str, prefix: str) -> str:
    """Return a target with ``prefix`` in front of each topic that it names, except Kafka's own
    topics."""
    return _NAMED_TOPIC.sub(lambda found: found[0] + prefix, text)


def problems(
    expression: Expression,
    aim: Aim,
    members: Members | None,
    partitions: Mapping[str, int] | None,
) -> Iterator[str]:
    """Yield what is wrong with an expression in a cluster.

    Args:
        expression: The target expression.
        aim: The aim of the fault.
        members: The members of the cluster, or None where they are not known.
        partitions: How many partitions each topic has, or None where that is not known.
    """
    if aim is Aim.LINKS and expression.to is None:
        yield "the fault targets links, like leader(topic, 0) -> zookeeper"
    if aim is not Aim.LINKS and expression.to is not None:
        yield f"the fault targets {aim}, not links"
    for role in expression.roles:
        yield from _role_problems(role, aim, members, partitions)


def known() -> Mapping[str, str]:
    """Return every form that a term can take, with its meaning."""
    return {
        **{f"{name}(topic, partition)": what for name, what in OF_PARTITION.items()},
        **{f"{name}(topic)": what for name, what in OF_TOPIC.items()},
        **{f"{name}(name)": what for name, what in OF_RACK.items()},
        **{f"{name}, {name}(set)": what for name, what in QUANTIFIERS.items()},
        **OF_CLUSTER,
        "broker-1, zookeeper-1, controller-1, client-1": "nodes by name",
    }


def roles_of(part: Set) -> Iterator[TargetRole]:
    """Yield every role and name in a set."""
    if isinstance(part, CombinedTargets):
        yield from roles_of(part.left)
        yield from roles_of(part.right)
    else:
        yield part
        if part.of is not None:
            yield from roles_of(part.of)


def _role_problems(
    role: TargetRole, aim: Aim, members: Members | None, partitions: Mapping[str, int] | None
) -> Iterator[str]:
    if members is not None:
        everybody = (*members.servers, *members.clients)
        if _NUMBERED.fullmatch(role.name) and role.name not in everybody:
            yield f"there is no {role.name}; {there_are(role.name, everybody)}"
        elif members.migrates and role.name == ZK_LEADER:
            yield f"in a migration name a server, such as zookeeper-1; {QUORUM_LEADER} is KRaft's"
        elif members.kraft and role.name in _INSTEAD and not members.migrates:
            yield f"with KRaft there is no ZooKeeper; {_INSTEAD[role.name]} are its controllers"
        elif not _fits(role, aim, members):
            yield f"the fault targets {aim}, and {role.name} is not one"
        elif role.name == RACK:
            yield from _rack_problems(role.rack, members)
    if role.topic is None or partitions is None:
        return
    if role.topic not in partitions:
        yield f"no cell has the topic {role.topic!r}; {meant_of(role.topic, partitions)}"
    elif (role.partition or 0) >= partitions[role.topic]:
        yield f"{role.topic} has the partitions 0 to {partitions[role.topic] - 1}"


def _rack_problems(rack: str | None, members: Members) -> Iterator[str]:
    racks = sorted(set(members.racks.values()))
    if not racks:
        yield (
            "no racks are known: set cluster.racks, or for an external cluster "
            "cluster.external.racks"
        )
    elif rack is not None and rack not in racks:
        yield f"there is no rack {rack!r}; {meant_of(rack, racks)}"


_TAKES: Mapping[Aim, frozenset[str]] = {
    Aim.SERVERS: frozenset({"broker", "zookeeper"}),
    Aim.BROKERS: frozenset({"broker"}),
    Aim.KUBERNETES_NODES: frozenset({"broker"}),
    Aim.PODS: frozenset({"broker"}),
    Aim.CLIENTS: frozenset({"client"}),
    Aim.PLACES: frozenset({"broker"}),
    Aim.PARTITIONS: frozenset({"partition", "topic"}),
    Aim.TOPICS: frozenset({"topic"}),
    Aim.REPLICAS: frozenset({"partition", "topic"}),
}
"""The kinds of servers, or the roles of other things, that a fault with each aim takes. An aim that
is missing here takes any."""


def _fits(role: TargetRole, aim: Aim, members: Members) -> bool:
    """Return whether a role or name stands for things that ``aim`` takes.

    For a quantifier, the roles of its set decide.
    """
    if aim in BY_PARTITION:
        return role.name in _TAKES[aim]
    if role.of is not None or aim not in _TAKES:
        return True
    if role.name == "clients" or role.name in members.clients:
        return "client" in _TAKES[aim]
    keeps = role.name in ("zookeeper", QUORUM, *_LEADING) or role.name in members.zookeepers
    if keeps or (role.name == "controller" and members.kraft):
        return "zookeeper" in _TAKES[aim] or (members.combined and "broker" in _TAKES[aim])
    return "broker" in _TAKES[aim]


@dataclass(slots=True)
class _Parser:
    """A recursive descent over ``text``."""

    text: str
    tokens: list[str] = field(init=False)

    def __post_init__(self) -> None:
        matches = list(_TOKEN.finditer(self.text.rstrip()))
        for match in matches:
            if match["bad"]:
                raise ValueError(f"{self.text!r} is not a target: {self._unread(match)}")
        self.tokens = [match[0].strip() for match in matches]

    def _unread(self, match: re.Match[str]) -> str:
        """Return the part of the text that no target has, and what was meant by it."""
        arrow = _LIKE_AN_ARROW.match(self.text, match.start("bad"))
        if arrow is not None:
            return f"{arrow[0]!r}; links are written A -> B, or A <-> B for both directions"
        meant = "; a minus needs spaces around it" if match["bad"] == "-" else ""
        return f"{match['bad']!r}{meant}"

    def target(self) -> Expression:
        nodes = self._set()
        arrow = self._take("->", "<->")
        to = self._set() if arrow else None
        if self.tokens:
            raise ValueError(f"{self.text!r} is not a target: {self.tokens[0]!r} is unexpected")
        return Expression(text=self.text, nodes=nodes, to=to, both_ways=arrow == "<->")

    def _set(self) -> Set:
        found = self._term()
        while sign := self._take("+", "-"):
            found = CombinedTargets(sign, found, self._term())
        return found

    def _term(self) -> Set:
        if self._take("("):
            inner = self._set()
            self._expect(")")
            return inner
        name = self._word("a role or a name")
        if name in OF_PARTITION:
            return self._of_partition(name)
        if name in OF_TOPIC:
            self._expect("(", f"{name} needs a topic: {name}(topic)")
            topic = self._word("a topic")
            self._expect(")")
            return TargetRole(name, topic=topic)
        if name in OF_RACK:
            self._expect("(", f"{name} needs the name of a rack, or any: {name}(a)")
            rack = self._word("a rack, or any")
            self._expect(")")
            return TargetRole(name, rack=None if rack == ANY else rack)
        if name in QUANTIFIERS and self._take("("):
            of = self._set()
            self._expect(")")
            return TargetRole(name, of=of)
        if not (name in QUANTIFIERS or name in OF_CLUSTER or _NUMBERED.fullmatch(name)):
            known_forms = f"known: {', '.join(known())}"
            raise ValueError(
                f"{name!r} is not a target; {hint(name, _NAMES, otherwise=known_forms)}"
            )
        if self.tokens[:1] == ["("]:
            raise ValueError(f"{name} takes no partition")
        return TargetRole(name)

    def _of_partition(self, name: str) -> TargetRole:
        usage = f"{name} needs a partition: {name}(topic, partition)"
        self._expect("(", usage)
        topic = self._word("a topic")
        self._expect(",", usage)
        partition = self._word("a partition, or any")
        self._expect(")", usage)
        if partition != ANY and not partition.isdecimal():
            raise ValueError(f"a partition is a number or any, not {partition!r}")
        return TargetRole(name, topic=topic, partition=None if partition == ANY else int(partition))

    def _take(self, *wanted: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in wanted else None

    def _expect(self, wanted: str, otherwise: str | None = None) -> None:
        if not self._take(wanted):
            found = self.tokens[0] if self.tokens else "its end"
            reason = otherwise or f"{wanted!r} is missing before {found!r}"
            raise ValueError(f"{self.text!r} is not a target: {reason}")

    def _word(self, what: str) -> str:
        if not self.tokens or not re.match(r"\w", self.tokens[0]):
            raise ValueError(f"{self.text!r} is not a target: {what} is missing")
        return self.tokens.pop(0)
