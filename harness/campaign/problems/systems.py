"""Problems of the system under test: its name, its metadata quorum, its security, its
release, and the faults that change its release.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.clusters import ClusterSpec, ClusterSweep, SecuritySpec
from ackproof.harness.campaign.model.schedule import Entry, FaultEntry, Schedule, StoryEntry
from ackproof.harness.campaign.plan.faults import parameters_of
from ackproof.harness.campaign.plan.needs import faults_of
from ackproof.harness.campaign.plan.stories import catalogue
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.properties import mapping
from ackproof.infra.api.interface import Capability
from ackproof.infra.systems import parse, product
from ackproof.infra.systems.product import MetadataQuorum, is_external
from ackproof.infra.systems.properties import RACK, TIER_CLASS, TIERED
from ackproof.nemesis import FAULTS
from ackproof.nemesis.admin.orders import MOVE_LOG_DIR
from ackproof.nemesis.certificates import CERTIFICATES
from ackproof.nemesis.process.migration import (
    MIGRATE,
    MIGRATE_BACK,
    MIGRATION,
    MIGRATION_STEPS,
    RETURN_STEPS,
    Migrated,
    MigratedBack,
)
from ackproof.nemesis.process.rolling import DOWNGRADE, UPGRADE, UPGRADES, Upgraded
from ackproof.nemesis.process.voters import REMOVE_VOTER
from ackproof.nemesis.remote_tier import REMOTE_TIER
from ackproof.nemesis.targets import expressions
from ackproof.workloads.configuration import connection_properties

# --- systems --------------------------------------------------------------------------------------

_SYSTEM, _QUORUM = "cluster.system", "cluster.metadata.quorum"
_OF_METADATA = frozenset({"controller", "quorum", "quorum-leader", "zookeeper", "zk-leader"})
_LONGEST_FIRST = "|".join(sorted(_OF_METADATA, key=len, reverse=True))
_IN_TEXT = re.compile(rf"(?<![\w-])({_LONGEST_FIRST})(?![\w-])")


def own_system_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the problems of the system and its metadata quorum, by themselves and together."""
    written = mapping(content, "cluster")
    system, asked = written.get("system", product.BUNDLED), written.get("metadata.quorum")
    if not isinstance(system, str):
        return  # the model refuses it
    try:
        build = parse(system)
    except ValueError as refusal:
        yield Problem(field=_SYSTEM, reason=str(refusal))
        return
    try:
        if asked in list(MetadataQuorum):  # else the model refuses it
            build.quorum(str(asked))
    except ValueError as refusal:
        yield Problem(field=_QUORUM, reason=str(refusal))


def system_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if the numbers of its servers contradict each other, or its racks cannot be
    had."""
    points = () if draft.cluster is None else draft.cluster.points()
    reasons = (too_few_brokers(cluster) for cluster, _ in points)
    for reason in [reason for reason in reasons if reason is not None][:1]:
        yield Problem(field="cluster.zookeepers", reason=reason)
    for reason in () if draft.cluster is None else _wrong_racks(draft.cluster):
        yield Problem(field="cluster.racks", reason=reason)


def _wrong_racks(cluster: ClusterSweep) -> Iterator[str]:
    racks = cluster.racks
    if not racks or product.is_external(cluster.system):
        return
    if len(set(racks)) < len(racks):
        yield "names a rack twice"
    if empty := racks[min(cluster.brokers) :]:
        yield f"{', '.join(empty)} has no brokers: give as many brokers as racks, or more"
    if RACK in cluster.properties or any(RACK in own for own in cluster.compare.values()):
        yield f"{RACK} in the properties puts all brokers into one rack: leave one of them out"
    if not parse(cluster.system).takes_racks:
        yield f"Ackproof cannot set the racks of {cluster.system}"


def keeper_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each target that names a metadata server if the system has none."""
    cluster = draft.cluster
    if cluster is None or product.is_external(cluster.system) or cluster.largest.quorum is not None:
        return
    for index, entry in enumerate(draft.faults or ()):
        key = "fault" if isinstance(entry, FaultEntry) else "story"
        for role in keeper_roles(entry):
            reason = f"{role}: {cluster.system} has no servers that keep its metadata"
            yield Problem(field=f"faults[{index}].{key}", reason=reason)


def keeper_roles(entry: Entry) -> Sequence[str]:
    """Return the roles in the targets of an entry that concern the metadata: the servers that keep
    it, and the controller."""
    if isinstance(entry, FaultEntry):
        return sorted({role.name for role in expressions.parse(entry.target).roles} & _OF_METADATA)
    story = catalogue().get(entry.story)
    steps = () if story is None else story.steps
    return sorted({found[1] for step in steps for found in _IN_TEXT.finditer(step.target)})


def too_few_brokers(cluster: ClusterSpec) -> str | None:
    """Return the reason why there are too few brokers for combined controllers, or None."""
    if cluster.quorum is not MetadataQuorum.COMBINED_KRAFT:
        return None
    if cluster.zookeepers <= cluster.brokers:
        return None
    return (
        f"with combined-kraft the first brokers are the controllers: {cluster.zookeepers} "
        f"controllers need as many brokers, but there are {cluster.brokers}"
    )


# --- security -------------------------------------------------------------------------------------

_WHERE = "cluster.security"
_SET_BY_IT = re.compile(r"^(listener\.name\.|sasl\.|ssl\.|security\.|authorizer\.|super\.users$)")
_OF_CIPHERS = frozenset(
    {"ssl.cipher.suites", "ssl.enabled.protocols", "ssl.protocol", "ssl.provider"}
)


def security_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for everything that a cluster cannot have or do with the security that the
    campaign requests."""
    cluster = draft.cluster
    if cluster is None:
        return
    security = cluster.security
    if security is not None:
        asked = security.requested
        if (reason := parse(cluster.system).insecurity(asked, cluster.largest.quorum)) is not None:
            yield Problem(field=_WHERE, reason=reason)
            return
        yield from _secured_properties(cluster)
        yield from _secured_cells(draft)
    if product.is_external(cluster.system):
        return  # these faults are refused as all that it lacks
    for index, entry in enumerate(draft.faults or ()):
        key = "story" if isinstance(entry, StoryEntry) else "fault"
        for fault in faults_of(entry):
            if (reason := _unoffered(fault, security)) is not None:
                yield Problem(field=f"faults[{index}].{key}", reason=f"{fault} {reason}")


def _unoffered(fault: str, security: SecuritySpec | None) -> str | None:
    """Return why a cluster with that security does not offer a fault; None if it does."""
    if FAULTS[fault] in CERTIFICATES and (security is None or security.tls is None):
        return f"needs brokers with certificates: set tls under {_WHERE}"
    if security is not None and Capability.FAKE_CLOCKS in FAULTS[fault].needs:
        return f"asks servers for their time by requests in the clear, without {_WHERE}"
    return None


def _secured_cells(draft: Draft) -> Iterator[Problem]:
    for name in draft.cells.producer if draft.cells else ():
        if connection_properties({name: ""}):
            yield Problem(field=f"cells.producer.{name}", reason=f"is set by {_WHERE}")


def _secured_properties(cluster: ClusterSweep) -> Iterator[Problem]:
    given = {name: f"cluster.properties.{name}" for name in cluster.properties}
    for label, own in cluster.compare.items():
        given |= {name: f"cluster.compare.{label}.{name}" for name in own}
    for name, field in given.items():
        if _SET_BY_IT.search(name) and name not in _OF_CIPHERS:
            yield Problem(field=field, reason=f"is set by {_WHERE}", key=True)


# --- releases of Apache Kafka ---------------------------------------------------------------------

_Since = tuple[tuple[int, ...], str]

_REASSIGN: _Since = ((2, 4), "KIP-455")
_ELECT: _Since = ((2, 4), "KIP-460")
_FAULTS: Mapping[str, _Since] = {
    "reassign": _REASSIGN,
    "move-log-dir": ((2, 0), "KIP-113"),
    "add-broker": _REASSIGN,
    "remove-broker": _REASSIGN,
    "elect-preferred": _ELECT,
    "elect-unclean": _ELECT,
    "alter-min-isr": ((2, 3), "KIP-339"),
    "add-partitions": ((1, 0), "KIP-195"),
    "grow-topic": ((1, 0), "KIP-195"),
    "advance-log-start": ((0, 11), "KIP-107"),
    "delete-records": ((0, 11), "KIP-107"),
}
"""The first version whose brokers support the request that a fault needs, and the source."""
_DIRECTORIES_MIN = 2
_PRODUCER_IDS: _Since = ((0, 11), "KIP-98")
_HEADERS: _Since = ((0, 11), "KIP-82")
_DIRECTORIES_WITH_KRAFT: _Since = ((3, 7), "KIP-858")


def release_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each fault and setting of valid sections that the release does not
    support."""
    if draft.cluster is None:
        return
    release = parse(draft.cluster.system)
    for index, entry in enumerate(draft.faults or ()):
        key = "story" if isinstance(entry, StoryEntry) else "fault"
        for fault in faults_of(entry):
            since = _FAULTS.get(fault)
            if since is not None and release.is_before(since[0]):
                reason = _reason(f"{fault} gives an order", since, draft.cluster.system)
                yield Problem(field=f"faults[{index}].{key}", reason=reason)
    cells = expand(draft.cells) if draft.cells is not None else ()
    if release.is_before(_PRODUCER_IDS[0]) and any(cell.enable_idempotence for cell in cells):
        reason = _reason("it needs producer ids", _PRODUCER_IDS, draft.cluster.system)
        yield Problem(field="cells.enable.idempotence", reason=reason)
    workload = draft.workload
    if release.is_before(_HEADERS[0]) and workload is not None and workload.tombstones:
        reason = _reason(
            "a header identifies a tombstone, a feature", _HEADERS, draft.cluster.system
        )
        yield Problem(field="workload.tombstones", reason=reason)


def log_directory_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each move between log directories if the brokers of valid sections have
    only one, or cannot move replicas."""
    cluster = draft.cluster
    if cluster is None or product.is_external(cluster.system):
        return  # those of an external cluster are refused as all faults that it lacks
    reason = _why_no_move(cluster)
    for index, entry in enumerate(draft.faults or ()):
        if reason is not None and MOVE_LOG_DIR.name in faults_of(entry):
            key = "story" if isinstance(entry, StoryEntry) else "fault"
            yield Problem(field=f"faults[{index}].{key}", reason=f"{MOVE_LOG_DIR.name} {reason}")


def voter_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each change of the metadata quorum's voters if the quorum of valid
    sections is fixed."""
    cluster = draft.cluster
    if cluster is None or product.is_external(cluster.system):
        return  # those of an external cluster are refused as all faults that it lacks
    quorum = cluster.largest.quorum
    if quorum is not None and quorum.dynamic:
        return
    for index, entry in enumerate(draft.faults or ()):
        if REMOVE_VOTER.name in faults_of(entry):
            reason = (
                f"{REMOVE_VOTER.name} needs a metadata quorum that can be changed (KIP-853): set "
                f"{_QUORUM}: {MetadataQuorum.DYNAMIC_KRAFT}, which Apache Kafka supports since 3.9"
            )
            key = "story" if isinstance(entry, StoryEntry) else "fault"
            yield Problem(field=f"faults[{index}].{key}", reason=reason)


def tier_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for everything about tiered storage that the clusters of valid sections
    cannot have."""
    cluster = draft.cluster
    if cluster is None or product.is_external(cluster.system):
        return  # its brokers may have a tier of their own
    points = [one for one, _ in cluster.points()]
    if any(one.tiered for one in points) and (reason := _why_no_tier(cluster)) is not None:
        yield Problem(field=_TIERED, reason=reason)
    used = draft.cells is not None and any(
        str(value).lower() == "true" for value in draft.cells.topic.get(_TIERED_TOPIC, ())
    )
    if used and any(str(one.properties.get(TIERED)).lower() != "true" for one in points):
        reason = f"needs brokers with tiered storage: set {TIERED}: true in cluster.properties"
        yield Problem(field=f"cells.topic.{_TIERED_TOPIC}", reason=reason)
    for index, entry in enumerate(draft.faults or ()):
        if REMOTE_TIER.name in faults_of(entry) and not all(one.tiered for one in points):
            key = "story" if isinstance(entry, StoryEntry) else "fault"
            reason = (
                f"{REMOTE_TIER.name} needs the remote tier that Ackproof supplies: set {TIERED}: "
                f"true in cluster.properties, and no {TIER_CLASS}"
            )
            yield Problem(field=f"faults[{index}].{key}", reason=reason)


_TIERED_TOPIC = "remote.storage.enable"
_TIERED = f"cluster.properties.{TIERED}"


def _why_no_tier(cluster: ClusterSweep) -> str | None:
    if cluster.security is not None:
        return f"the remote tier keeps its metadata over connections in the clear, without {_WHERE}"
    return parse(cluster.system).untiered(cluster.largest.quorum, cluster.backend)


def _why_no_move(cluster: ClusterSweep) -> str | None:
    if cluster.system == product.BUNDLED:
        return (
            "moves replicas between log directories (KIP-113), but the bundled broker does not: "
            "use a release of Apache Kafka"
        )
    since, source = _DIRECTORIES_WITH_KRAFT
    if cluster.largest.kraft and parse(cluster.system).is_before(since):
        needs = "needs several log directories with KRaft"
        return _reason(needs, (since, source), cluster.system)
    if cluster.disks is None or cluster.disks.per_broker < _DIRECTORIES_MIN:
        return (
            "needs brokers with two log directories or more, one on each disk: set "
            "cluster.disks: {per.broker: 2, megabytes: 256}"
        )
    return None


def _reason(what: str, since: _Since, system: str) -> str:
    numbers, source = since
    version = ".".join(map(str, numbers))
    return f"{what} that Apache Kafka supports since {version} ({source}), but {system} does not"


# --- upgrades and migrations ----------------------------------------------------------------------

_MIGRATING = frozenset(one.name for one in MIGRATION)
_NAMES = _MIGRATING | {one.name for one in UPGRADES}
_PROTOCOL = "inter.broker.protocol.version"
_EXAMPLE = f"{_SYSTEM}: {{from: kafka:3.9.2, to: kafka:4.4.0}}"

_Rolls = list[tuple[int, Entry, str]]
"""The entries that roll servers: each with its index, and the name of the fault."""


def upgrade_problems(draft: Draft) -> Iterator[Problem]:
    """Yield the problems of the rolls of valid sections, and of a system with two releases or with
    two kinds of metadata servers."""
    if draft.cluster is None or draft.faults is None or is_external(draft.cluster.system):
        return  # those of an external cluster are refused as all faults that it lacks
    rolls = [
        (index, entry, name)
        for index, entry in enumerate(draft.faults)
        for name in faults_of(entry)
        if name in _NAMES
    ]
    quorum = draft.cluster.largest.quorum
    migrates = quorum is not None and quorum.migrates
    own = [one for one in rolls if (one[2] in _MIGRATING) == migrates]
    if migrates:
        needs = "is for a cluster that does not migrate: upgrade before or after, in a campaign"
        yield from _of_migration(draft, own)
    else:
        needs = f"needs {_QUORUM}: {MetadataQuorum.MIGRATION}, which Apache Kafka 3.6 to 3.9 has"
        yield from _of_upgrade(draft, draft.cluster, own)
    for index, entry, name in rolls:
        if (index, entry, name) not in own:
            yield Problem(field=_field(index, entry), reason=f"{name} {needs}")


def _of_upgrade(draft: Draft, cluster: ClusterSweep, rolls: _Rolls) -> Iterator[Problem]:
    build = parse(cluster.system)
    if not build.is_upgrade:
        for index, entry, name in rolls:
            reason = f"{name} needs two releases ({_EXAMPLE}), but there is only {build.text}"
            yield Problem(field=_field(index, entry), reason=reason)
        return
    if not any(name == UPGRADE.name for _, _, name in rolls):
        servers = "all + quorum" if cluster.largest.kraft else "all"
        reason = (
            f"{build.text} has two releases, but no fault changes servers to the newer one: add "
            f"{{fault: upgrade, target: {servers}}}, or name one release"
        )
        yield Problem(field=_SYSTEM, reason=reason)
        return
    if _PROTOCOL in cluster.properties:
        reason = "is set by the upgrade itself, to that of the older release until it is final"
        yield Problem(field=f"cluster.properties.{_PROTOCOL}", reason=reason, key=True)
    repeated = _repeats(draft.schedule, rolls)
    uncertain = list(_of_order(draft, rolls))
    yield from uncertain or _of_sequence(rolls, again=repeated is not None)
    if repeated and not uncertain and not any(name == DOWNGRADE.name for _, _, name in rolls):
        reason = (
            f"repeats the faults, but a second {UPGRADE.name} has nothing to change: leave it "
            f"out, or list {DOWNGRADE.name} after it"
        )
        yield Problem(field=repeated, reason=reason)


def _of_migration(draft: Draft, rolls: _Rolls) -> Iterator[Problem]:
    if not any(name == MIGRATE.name for _, _, name in rolls):
        reason = (
            f"{MetadataQuorum.MIGRATION} is for a cluster that migrates, but no fault does it: add "
            f"{{fault: {MIGRATE.name}, target: all}}, or use {MetadataQuorum.ZOOKEEPER}"
        )
        yield Problem(field=_QUORUM, reason=reason)
    uncertain = list(_of_order(draft, rolls))
    yield from uncertain or _of_steps(rolls)
    if not uncertain and (repeated := _repeats(draft.schedule, rolls)):
        reason = "repeats the faults, but a cluster migrates once: leave it out"
        yield Problem(field=repeated, reason=reason)


_Step = tuple[str, str]
"""A step of a migration: the name of the fault, and its parameter ``to``."""
_STEPS: Sequence[_Step] = (
    *((MIGRATE.name, to) for to in MIGRATION_STEPS),
    *((MIGRATE_BACK.name, to) for to in RETURN_STEPS),
)
"""All steps in their order: those of the way forth, and those of the way back."""
_ENTER, _LEAVE, _FINAL, _BACK, _REMOVE, _END = _STEPS
_NEEDS: Mapping[_Step, _Step] = {
    _LEAVE: _ENTER,
    _FINAL: _LEAVE,
    _BACK: _LEAVE,
    _REMOVE: _ENTER,
    _END: _ENTER,
}
"""The step that must come before a step."""
_ALL = "all"
"""The target with which the controllers certainly take over."""


def _of_steps(rolls: _Rolls) -> Iterator[Problem]:
    """Yield the problems of a certain sequence of the steps of a migration and its way back."""
    done: list[_Step] = []
    taken_over = False
    for index, entry, name in rolls:
        if not isinstance(entry, FaultEntry):
            continue
        parameters = parameters_of(name, entry.parameters)
        if not isinstance(parameters, Migrated | MigratedBack):
            continue
        step = (name, parameters.to)
        if reason := _misplaced(step, done, taken_over=taken_over):
            yield Problem(field=_field(index, entry), reason=reason)
        done.append(step)
        taken_over |= step == _LEAVE or (step == _ENTER and entry.target == _ALL)


def _misplaced(step: _Step, done: Sequence[_Step], *, taken_over: bool) -> str | None:
    """Return why a step cannot come after others, or None if it can. ``taken_over`` is whether the
    controllers certainly decide."""
    if step[0] == MIGRATE_BACK.name and _FINAL in done:
        return (
            f"{MIGRATE_BACK.name} comes after `to: final`, and Kafka does not go back from there: "
            "leave `final` out, or go back before it"
        )
    needed = [_NEEDS[step]] if step in _NEEDS else []
    if step == _REMOVE and _LEAVE in done:
        needed.append(_BACK)
    if step == _END and taken_over:
        needed.append(_REMOVE)
    if missing := [one for one in needed if one not in done]:
        return f"{_words(step)} needs {_words(missing[0])} before it"
    latest = max(done, key=_STEPS.index, default=step)
    if _STEPS.index(step) < _STEPS.index(latest):
        return f"{_words(step)} comes before {_words(latest)}, not after it"
    return None


def _words(step: _Step) -> str:
    name, to = step
    return f"`to: {to}`" if name == MIGRATE.name else f"{name} with `to: {to}`"


def _repeats(schedule: Schedule | None, rolls: _Rolls) -> str | None:
    """Return the field by which the schedule repeats rolls; None if it does not."""
    waiting = any(entry.at is None for _, entry, _ in rolls)
    if schedule is None or not waiting or (schedule.rounds == 1 and schedule.lasts is None):
        return None
    return f"schedule.{'lasts' if schedule.lasts is not None else 'rounds'}"


def _of_order(draft: Draft, rolls: _Rolls) -> Iterator[Problem]:
    """Yield the problems of rolls that come in an order that is not certain."""
    schedule = draft.schedule
    if schedule is None:
        return
    waiting = [index for index, entry, _ in rolls if entry.at is None]
    if len(rolls) > 1 and (len(waiting) < len(rolls)):
        reason = (
            "the order of several rolls must be certain: let all of them follow the schedule, "
            "without `at`"
        )
        yield from (
            Problem(field=f"faults[{index}].at", reason=reason)
            for index, entry, _ in rolls
            if entry.at is not None
        )
    elif len(waiting) > 1 and (schedule.order != "listed" or schedule.lanes > 1):
        field = "order" if schedule.order != "listed" else "lanes"
        reason = "several rolls need `order: listed` and one lane, so that their order is certain"
        yield Problem(field=f"schedule.{field}", reason=reason)


def _of_sequence(rolls: _Rolls, *, again: bool) -> Iterator[Problem]:
    """Yield the problems of a certain sequence of rolls.

    ``again`` is whether the sequence may be repeated.
    """
    upgraded = final = False
    finals = any(_is_final(entry, name) for _, entry, name in rolls)
    for index, entry, name in rolls:
        if name == UPGRADE.name:
            upgraded, final = True, final or _is_final(entry, name)
        elif final or (again and finals):
            reason = (
                f"{DOWNGRADE.name} comes after an upgrade with finalize: true, and Kafka does not "
                "go back from there: finalize later, or not at all"
            )
            yield Problem(field=_field(index, entry), reason=reason)
        elif not upgraded:
            reason = f"{DOWNGRADE.name} has nothing to take back: list {UPGRADE.name} before it"
            yield Problem(field=_field(index, entry), reason=reason)


def _is_final(entry: Entry, name: str) -> bool:
    if name != UPGRADE.name or not isinstance(entry, FaultEntry):
        return False
    parameters = parameters_of(name, entry.parameters)
    return isinstance(parameters, Upgraded) and parameters.finalize


def _field(index: int, entry: Entry) -> str:
    return f"faults[{index}].{'story' if isinstance(entry, StoryEntry) else 'fault'}"
