"""The interface of a system under test to the rest of the harness, whatever provides it.

A :class:`Product` has a name that campaigns use, for example ``kafka``. With the text behind the
colon it gives a :class:`Build`, for example ``kafka:4.1.1``. A build has what must be known before
anything is deployed: its broker properties, which servers can keep its metadata, where it runs. It
then makes the cluster of a :class:`Layout`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.capabilities import DiskPlan
from ackproof.infra.api.interface import Backend, System
from ackproof.infra.systems.properties import KnownProperties
from ackproof.infra.systems.security import ClusterSecurity
from ackproof.plugins.registration import common_problems

BUNDLED = "bundled"
KAFKA = "kafka"
EXTERNAL = "external"


def is_external(name: str) -> bool:
    """Return whether the system of that name is a cluster of the user's own, not deployed here."""
    return name == EXTERNAL


# --- metadata quorum --------------------------------------------------------------------------
#
# The servers that keep the metadata of a system: ZooKeeper, or KRaft's controllers, which are
# servers of their own or also brokers. The words are those of Kafka's own system tests (ducktape's
# ``metadata_quorum``).


class MetadataQuorum(StrEnum):
    """The servers that keep the metadata."""

    ZOOKEEPER = "zookeeper"
    ISOLATED_KRAFT = "isolated-kraft"
    """Controllers that are servers of their own."""
    COMBINED_KRAFT = "combined-kraft"
    """Controllers that are also brokers (``process.roles=broker,controller``)."""
    DYNAMIC_KRAFT = "dynamic-kraft"
    """Controllers that are servers of their own, and can leave and join the quorum (KIP-853)."""
    MIGRATION = "zookeeper-to-kraft"
    """ZooKeeper's servers, and as many controllers of their own, to which the cluster can migrate
    (KIP-866)."""

    @property
    def kraft(self) -> bool:
        """Return whether they are KRaft's controllers, or controllers are among them."""
        return self is not MetadataQuorum.ZOOKEEPER

    @property
    def zookeeper(self) -> bool:
        """Return whether ZooKeeper's servers are among them."""
        return self in (MetadataQuorum.ZOOKEEPER, MetadataQuorum.MIGRATION)

    @property
    def migrates(self) -> bool:
        """Return whether the cluster can migrate from ZooKeeper to KRaft."""
        return self is MetadataQuorum.MIGRATION

    @property
    def combined(self) -> bool:
        """Return whether they are also brokers."""
        return self is MetadataQuorum.COMBINED_KRAFT

    @property
    def dynamic(self) -> bool:
        """Return whether its voters can be changed while it runs."""
        return self is MetadataQuorum.DYNAMIC_KRAFT

    def keepers(self, count: int) -> tuple[str, ...]:
        """Return the names of so many servers that keep the metadata; among brokers, the first
        ones."""
        numbers = range(1, count + 1)
        return tuple(f"{called}-{number}" for called in _CALLED[self] for number in numbers)


_CALLED: Mapping[MetadataQuorum, Sequence[str]] = {
    MetadataQuorum.ZOOKEEPER: ("zookeeper",),
    MetadataQuorum.ISOLATED_KRAFT: ("controller",),
    MetadataQuorum.COMBINED_KRAFT: ("broker",),
    MetadataQuorum.DYNAMIC_KRAFT: ("controller",),
    MetadataQuorum.MIGRATION: ("zookeeper", "controller"),
}


# --- products and builds ----------------------------------------------------------------------


ONLY_CLIENTS = "here"
"""The backend on which nothing is deployed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The servers that a campaign requests, and their settings.

    Attributes:
        quorum: Which servers keep the metadata; None if the build has no such servers.
        keepers: The number of servers that keep the metadata.
        properties: Kafka's broker properties, with the build's own defaults among them.
        disks: The disks of the brokers' logs; None for directories of their nodes.
        clocks: Whether the servers use fake clocks.
        racks: The racks that brokers take in turn (``broker.rack``); none for those of
            ``properties``.
        security: The security of connections; None for connections in the clear.
    """

    backend: Backend
    brokers: int
    quorum: MetadataQuorum | None
    keepers: int
    properties: Mapping[str, str]
    disks: DiskPlan | None = None
    clocks: bool = False
    racks: Sequence[str] = ()
    security: ClusterSecurity | None = None


@dataclass(frozen=True, kw_only=True)
class Build(ABC):
    """One version of a product, as a campaign names it.

    Attributes:
        text: Its name in campaigns, ``kafka:4.1.1``. A build whose content may change under its
            name has a name here that is tied to the content (an image's digest).
        quorums: Which servers can keep its metadata, the default first; empty if it has no such
            servers, or none that Ackproof deploys.
        defaults: Broker properties that are set if a campaign does not set them.
        needs: Its requirements that not every machine meets, for the list of campaigns.
        takes_racks: Whether its brokers have the racks of a layout.
        without_transactions: Why its transactions are not tested; empty if they are.
    """

    text: str
    quorums: Sequence[MetadataQuorum] = (MetadataQuorum.ZOOKEEPER,)
    defaults: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    takes_racks: bool = False
    without_transactions: str = ""

    @abstractmethod
    def configured(self, layout: Layout) -> System:
        """Return the cluster, configured on the backend of the layout and not deployed yet.

        Raises InfraError, and ValueError for properties that its servers cannot have.
        """

    def described(self, quorum: MetadataQuorum | None) -> KnownProperties | None:  # noqa: ARG002
        """Return the properties that its brokers and topics have.

        Return None if they are not known. Campaigns may then set any.
        """
        return None

    def known(self, quorum: MetadataQuorum | None) -> KnownProperties | None:
        """Return the properties that its brokers and topics have, with its own defaults."""
        found = self.described(quorum)
        return None if found is None else found.with_defaults(self.defaults)

    def quorum(self, asked: str | None = None) -> MetadataQuorum | None:
        """Return which servers keep the metadata, given which are ``asked`` for, if any.

        Raises ValueError for servers that cannot keep it.
        """
        if asked is None:
            return next(iter(self.quorums), None)
        if asked not in list(MetadataQuorum):
            raise ValueError(f"{asked!r} is not one of {', '.join(MetadataQuorum)}")
        quorum = MetadataQuorum(asked)
        if quorum in self.quorums:
            return quorum
        if not self.quorums:
            raise ValueError(f"{self.text} has no metadata servers: leave it out")
        if quorum.migrates:
            raise ValueError(
                f"{self.text} does not migrate from ZooKeeper to KRaft; one release of Apache "
                "Kafka from 3.6 to 3.9 does (KIP-866), such as kafka:3.9.2"
            )
        if any(one.kraft == quorum.kraft for one in self.quorums):
            raise ValueError(f"{self.text} supports only {', '.join(self.quorums)}")
        other = (
            "in ZooKeeper; Apache Kafka supports KRaft from 3.3 on"
            if quorum.kraft
            else "with KRaft; Apache Kafka supports ZooKeeper before 4.0"
        )
        raise ValueError(f"{self.text} keeps its metadata {other}")

    @property
    def is_upgrade(self) -> bool:
        """Return whether it has two releases, so that its servers can change from one to the
        other."""
        return False

    def is_before(self, release: tuple[int, ...]) -> bool:  # noqa: ARG002
        """Return whether it lacks what Apache Kafka has since a release, ``(2, 4)``."""
        return False

    def obstacle(self, backend: str) -> str | None:
        """Return why it cannot be deployed on a backend; None if it can."""
        if backend == ONLY_CLIENTS:
            return f"nothing is deployed on the backend {ONLY_CLIENTS}: it is for {EXTERNAL}"
        return None

    def insecurity(
        self,
        asked: ClusterSecurity,  # noqa: ARG002
        quorum: MetadataQuorum | None,  # noqa: ARG002
    ) -> str | None:
        """Return why it cannot be deployed with the security that is ``asked`` for; None if it
        can."""
        return f"{self.text} is deployed with connections in the clear only; use {KAFKA}:VERSION"

    def untiered(self, quorum: MetadataQuorum | None, backend: str) -> str | None:  # noqa: ARG002
        """Return why it cannot be deployed with the remote tier that Ackproof supplies; None if it
        can."""
        return f"{self.text} has no remote tier; use {KAFKA}:VERSION"

    def prepare_tier(self, tell: Callable[[str], None]) -> None:  # noqa: B027
        """Bring the remote tier to this machine, as :meth:`prepare` does with the rest."""

    def prepare(self, tell: Callable[[str], None]) -> None:  # noqa: B027
        """Bring to this machine what a run could not fetch.

        ``tell`` gets a line for each step that takes long. Raises InfraError if it is not
        available.
        """

    def artifacts(self) -> Sequence[Artifact]:
        """Return the files that nodes need beside those for any system.

        Raises InfraError if they were not prepared, or are not what they should be.
        """
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A system that campaigns can name.

    Attributes:
        name: The part before the colon in campaigns: lower-case words, joined by hyphens.
        summary: A description in one line for lists.
        build: Returns the build for the part behind the colon; None stands for no colon. Raises
            ValueError with what is wrong, and what would be right.
        forms: The forms in campaigns, for example ``kafka:VERSION``.
        versions: The possible parts behind the colon, as far as they can be listed.
    """

    name: str
    summary: str
    build: Callable[[str | None], Build]
    forms: Sequence[str]
    versions: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        """Return the names that campaigns can use, as far as they can be listed."""
        plain = [self.name] if self.name in self.forms else []
        return [*plain, *(f"{self.name}:{version}" for version in self.versions)]

    @property
    def takes_version(self) -> bool:
        """Return whether a version may follow a colon."""
        return any(":" in form for form in self.forms)


# --- plug-ins' systems ------------------------------------------------------------------------


def as_product(found: object, name: str) -> Product:
    """Return a registered object as the system called ``name``. Raises ValueError with what is
    wrong."""
    if not isinstance(found, Product):
        raise ValueError("it is not an instance of ackproof.infra.systems.product.Product")
    for problem in _problems(found, name):
        raise ValueError(problem)
    return found


def _problems(found: Product, name: str) -> Iterator[str]:
    yield from common_problems(found, name)
    if not callable(found.build):
        yield "its build must be a function of the version"
    for kind in ("forms", "versions"):
        names = getattr(found, kind)
        if isinstance(names, str) or not all(isinstance(one, str) and one for one in names):
            yield f"its {kind} must be a sequence of texts"
    if not found.forms or any(one.partition(":")[0] != name for one in found.forms):
        yield f"its forms must be {name}, or {name}: with the part behind the colon, or both"
    if found.versions and not found.takes_version:
        yield f"it has versions, but none of its forms has a colon: add {name}:VERSION"
