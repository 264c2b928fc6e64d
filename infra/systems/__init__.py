"""The systems that can be tested, by the names that campaigns give them.

:data:`SYSTEMS` has the built-in ones and those of plug-ins, which register a
:class:`infra.systems.product.Product` under the entry-point group ``ackproof.systems``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from ackproof.config.suggestions import unknown
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.capabilities import DiskPlan
from ackproof.infra.api.interface import Backend, InfraError, System
from ackproof.infra.systems.bundled import BUNDLED_BROKER
from ackproof.infra.systems.external.description import EXTERNAL_CLUSTER
from ackproof.infra.systems.kafka.product import APACHE_KAFKA, IMAGE, TO
from ackproof.infra.systems.product import KAFKA, Build, Layout, MetadataQuorum, Product, as_product
from ackproof.infra.systems.properties import KnownProperties
from ackproof.infra.systems.security import ClusterSecurity
from ackproof.plugins import Plugin, Table

_TWO = 2
"""The number of keys of an upgrade: ``from`` and ``to``."""

_BUILT_IN = (BUNDLED_BROKER, EXTERNAL_CLUSTER, APACHE_KAFKA)

SYSTEMS: Table[Product] = Table(
    "ackproof.systems", "system", {one.name: one for one in _BUILT_IN}, as_product
)


def parse(name: str) -> Build:
    """Return the build that a campaign names. Raises ValueError with what is wrong with the
    name."""
    product_name, colon, version = name.partition(":")
    if (reason := SYSTEMS.refusal(product_name)) is not None:
        raise ValueError(reason)
    if product_name not in SYSTEMS:
        known = [one for product in SYSTEMS.values() for one in product.names]
        raise ValueError(unknown("system", name, known))
    product = SYSTEMS[product_name]
    if colon and not product.takes_version:
        raise ValueError(f"{name!r} must not have a version: use {product_name}")
    if not colon and product_name not in product.forms and SYSTEMS.plugin(product_name):
        raise ValueError(f"which {product_name}? {', '.join(product.names or product.forms)}")
    return _built(product, version if colon else None)


def as_name(written: object) -> object:
    """Return the name of the system that a campaign file writes as ``{from: A, to: B}``: ``A..B``.

    Anything that is no mapping is returned as it is. Raises ValueError for another mapping.
    """
    if not isinstance(written, Mapping):
        return written
    older, newer = written.get("from"), written.get("to")
    if len(written) != _TWO or not isinstance(older, str) or not isinstance(newer, str):
        raise ValueError(
            f"a mapping must have two releases, {{from: {KAFKA}:3.9.2, to: {KAFKA}:4.4.0}}"
        )
    return f"{older}{TO}{newer}"


def _built(product: Product, version: str | None) -> Build:
    plugin = SYSTEMS.plugin(product.name)
    try:
        build = product.build(version)
    except ValueError:
        raise
    except Exception as error:
        if plugin is None:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"the system {product.name} of the plug-in {plugin}: {reason}") from error
    if not isinstance(build, Build):
        reason = (
            f"its build returns {build!r}, but must return an ackproof.infra.systems.product.Build"
        )
        raise ValueError(f"the system {product.name} of the plug-in {plugin}: {reason}")
    return build


def pinned(name: str) -> str:
    """Return the name of the same system that does not change: an image with its digest, and two
    releases in full.

    Raises the errors of :func:`parse`.
    """
    changes = name.startswith(f"{KAFKA}:") and (IMAGE in name or TO in name)
    return parse(name).text if changes else name


def plugin(name: str) -> Plugin | None:
    """Return the plug-in of a system by its name in a campaign; None for a built-in one."""
    return SYSTEMS.plugin(name.partition(":")[0])


def pattern() -> str:
    """Return the regular expression that every name of a system matches."""
    return f"^({'|'.join(dict.fromkeys(_patterns()))})$"


def _patterns() -> Iterator[str]:
    for product in SYSTEMS.values():
        for form in product.forms:
            yield f"{re.escape(product.name)}{':.+' if ':' in form else ''}"


def quorum_of(name: str, asked: str | None = None) -> MetadataQuorum | None:
    """Return which servers keep the metadata of the named system, given which are ``asked`` for, if
    any.

    Return None if Ackproof deploys no such servers. Raises ValueError for an invalid name, and for
    servers that cannot keep its metadata.
    """
    return parse(name).quorum(asked)


@cache
def known(name: str, asked: str | None = None) -> KnownProperties | None:
    """Return the properties of a system with the metadata quorum that is ``asked`` for, if any.

    Return None if they are not known, or there is no such system.
    """
    try:
        build = parse(name)
        return build.known(build.quorum(asked))
    except ValueError:
        return None


def prepare(name: str, tell: Callable[[str], None], *, tiered: bool = False) -> None:
    """Bring to this machine what the system needs and a run could not fetch, also for its remote
    tier if it is ``tiered``.

    ``tell`` gets a line for each step that takes long. Raises InfraError if it is not available.
    Afterwards :func:`known` may know more: a release is asked for its properties when it is first
    fetched.
    """
    build = _parsed(name)
    build.prepare(tell)
    if tiered:
        build.prepare_tier(tell)
    known.cache_clear()


def artifacts(name: str) -> Sequence[Artifact]:
    """Return what nodes need for the named system beside the files for any: a backend is opened
    with it.

    Raises InfraError if it was not prepared, or differs from the release.
    """
    return _parsed(name).artifacts()


def make_system(
    name: str,
    backend: Backend,
    *,
    brokers: int,
    zookeepers: int,
    properties: Mapping[str, str],
    metadata_quorum: str | None = None,
    disks: DiskPlan | None = None,
    clocks: bool = False,
    racks: Sequence[str] = (),
    security: ClusterSecurity | None = None,
) -> System:
    """Return the system of that name, configured on ``backend`` and not deployed yet.

    Args:
        zookeepers: The number of servers that keep the metadata; with KRaft, controllers.
        properties: Kafka's broker properties.
        metadata_quorum: The servers that keep the metadata
            (:class:`infra.systems.product.MetadataQuorum`); None for the default.
        disks: The disks of the brokers' logs; None for directories of their nodes.
        clocks: Whether its servers use fake clocks.
        racks: The racks that brokers take in turn; none for those of ``properties``.
        security: The security of connections; None for connections in the clear.

    Raises InfraError for an invalid name, or for a system that is not deployed there or not so.
    Raises ValueError for invalid properties, and for a quorum that the system cannot have.
    """
    build = _parsed(name)
    quorum = build.quorum(metadata_quorum)
    if security is not None and (reason := build.insecurity(security, quorum)) is not None:
        raise InfraError(reason)
    return build.configured(
        Layout(
            backend=backend,
            brokers=brokers,
            quorum=quorum,
            keepers=zookeepers,
            properties={**build.defaults, **properties},
            disks=disks,
            clocks=clocks,
            racks=racks,
            security=security,
        )
    )


def _parsed(name: str) -> Build:
    try:
        return parse(name)
    except ValueError as reason:
        raise InfraError(str(reason)) from None
