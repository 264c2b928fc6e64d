"""Problems of the properties that a campaign file sets for brokers, topics and producers, each
judged by itself: its name, its value, and whether it makes brokers delete records.

Secrets are refused wherever they are in the file, because copies of the file are kept with results.
Properties are read as they are written, so that they are judged even if other parts of the file are
invalid.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from ackproof.config.documents import Problem, as_field
from ackproof.config.sensitive import Steps, secrets_in
from ackproof.harness.campaign.clients import producer_refusal
from ackproof.harness.campaign.model.values import several
from ackproof.harness.campaign.model.workload import WorkloadSpec
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.sizes import bytes_of_draft, longest_run_ms
from ackproof.history.cell import LIBRDKAFKA, SETTINGS, Value
from ackproof.infra import systems
from ackproof.infra.clients.programs import is_client
from ackproof.infra.systems import properties
from ackproof.infra.systems.product import BUNDLED, EXTERNAL
from ackproof.infra.systems.properties import RESERVED, KnownProperties
from ackproof.workloads.configuration import canonical, connection_properties

_DAY_MS = 24 * 3_600_000
_TIMES: Mapping[str, int] = {
    "log.retention.ms": 1,
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
    "retention.ms": 1,
}
"""Properties for the time that records are kept, with their units in milliseconds. Each takes
precedence over the broker properties that follow it."""
_UNSET = "retention.ms"
_UNSET_MS = 168 * 3_600_000
"""The time that every system keeps the records of a topic by default, in milliseconds."""
_FORGETS: Mapping[str, tuple[int, str]] = {
    "offsets.retention.minutes": (60_000, "deletes commits, which would be reported as lost"),
    "producer.id.expiration.ms": (
        1,
        "forgets idempotent producers, so that repeated batches would be reported as duplicates",
    ),
    "transactional.id.expiration.ms": (
        1,
        "forgets transactional producers, which would be reported as fenced",
    ),
}
"""Properties for the time that brokers keep other state, with their units in milliseconds, and the
consequence of a shorter time."""
_SIZE = "log.retention.bytes"
_AGE_MIN_MS = 10_000
"""The shortest ``retention.ms`` that can be tested. A quarter of it must be longer than an answer
with the start of a log may take (:mod:`checkers.context.retention`)."""
_PRODUCE = "produce"
_TRANSACTIONS = "transactions"
_POLICY = "cleanup.policy"
_CLEANUP = re.compile(r"(log\.)?cleanup\.policy")
_CLOCKS = re.compile(r"-clock$")
_DELETED = "deletes records, which would be reported as lost"

_SECRETS = ("cluster", "external", "secrets")
_COMMANDS = "commands"
_JAAS = "jaas.config"

Section = Mapping[str, object]


def property_problems(content: Section) -> Iterator[Problem]:
    """Yield the problems of everything in the file that holds properties."""
    cluster, cells = mapping(content, "cluster"), mapping(content, "cells")
    system, quorum = _text(cluster, "system") or BUNDLED, _text(cluster, "metadata.quorum")
    known = systems.known(system, quorum)
    everywhere, least_ms = mapping(cluster, "properties"), _least_ms(content)
    yield from _broker_problems(everywhere, "cluster.properties", known, everywhere, least_ms)
    compared = mapping(cluster, "compare")
    for name in compared:
        own, where = mapping(compared, name), f"cluster.compare.{name}"
        yield from _broker_problems(own, where, known, {**everywhere, **own}, least_ms)
        for key in sorted(own.keys() & everywhere.keys()):
            reason = "is also set in cluster.properties: set it once for all, or for each cluster"
            yield Problem(field=f"{where}.{key}", reason=reason, key=True)
    yield from _topic_problems(mapping(cells, "topic"), known)
    yield from _producer_problems(mapping(cells, "producer"), _clients(cells))


def secret_problems(content: Section) -> Iterator[Problem]:
    """Yield a problem for each secret, with the place where it may be instead."""
    cluster = content.get("cluster")
    external = isinstance(cluster, dict) and cluster.get("system") == EXTERNAL
    for steps in secrets_in(content):
        reason = (
            f"is a secret, but this file is stored with the results: {_instead(steps, external)}"
        )
        yield Problem(field=as_field(steps), reason=reason, key=isinstance(steps[-1], str))


def without(problems: Sequence[Problem], secrets: Sequence[Problem]) -> Iterator[Problem]:
    """Yield ``problems``, except those of fields that hold secrets, because a reason may quote the
    value."""
    hidden = {problem.field for problem in secrets}
    inside = tuple(f"{field}{mark}" for field in hidden for mark in ".[")
    for problem in problems:
        if problem.field not in hidden and not problem.field.startswith(inside):
            yield problem


def mapping(section: Section, name: str) -> Section:
    """Return the mapping of that name, or an empty one if there is something else."""
    found = section.get(name)
    return found if isinstance(found, dict) else {}


def _text(section: Section, name: str) -> str | None:
    """Return the text under a key, or None if the key is absent. A value that is not text gives an
    empty text, which names nothing."""
    written = section.get(name)
    return written if written is None or isinstance(written, str) else ""


def _broker_problems(
    given: Section, where: str, known: KnownProperties | None, every: Section, least_ms: int
) -> Iterator[Problem]:
    """Yield the problems of broker properties. ``every`` holds all properties of these brokers,
    including those that are ``given`` here."""
    for name, written in given.items():
        field = f"{where}.{name}"
        if name in RESERVED:
            yield Problem(field=field, reason=RESERVED[name], key=True)
            continue
        reasons = list(_deletes(name, every, least_ms))
        yield from (Problem(field=field, reason=reason) for reason in reasons)
        if known is not None and not reasons:
            yield from _wrong(known, "broker", name, written, field, every)
        for at, value in _values(written, field):
            if (reason := properties.fixed(name, value)) is not None:
                yield Problem(field=at, reason=reason)


def _topic_problems(given: Section, known: KnownProperties | None) -> Iterator[Problem]:
    for name, written in given.items():
        field = f"cells.topic.{name}"
        if canonical(name) in SETTINGS:
            yield _misplaced(field, name)
            continue
        if known is not None:
            yield from _wrong(known, "topic", name, written, field, given)


def _clients(cells: Section) -> Sequence[str]:
    """Return the clients of the file's cells. The model refuses values that are not clients."""
    written = several(cells.get("client", LIBRDKAFKA))
    named = [one for one in written if isinstance(one, str)]
    return list(filter(is_client, named))


def _producer_problems(given: Section, clients: Sequence[str]) -> Iterator[Problem]:
    for name, written in given.items():
        field = f"cells.producer.{name}"
        if canonical(name) in SETTINGS:
            yield _misplaced(field, name)
            continue
        for at, value in _values(written, field):
            reasons = (producer_refusal(name, value, client) for client in clients)
            for reason in dict.fromkeys(filter(None, reasons)):
                yield Problem(field=at, reason=reason)


def _wrong(
    known: KnownProperties, kind: str, name: str, written: object, field: str, every: Section
) -> Iterator[Problem]:
    if (reason := known.unknown(kind, name, every.keys())) is not None:
        yield Problem(field=field, reason=reason, key=True)
        return
    for at, value in _values(written, field):
        if (reason := known.wrong(kind, name, value)) is not None:
            yield Problem(field=at, reason=reason)


def _values(written: object, field: str) -> Iterator[tuple[str, Value]]:
    """Yield each value with its own path. The model refuses what cannot be a value."""
    for number, value in enumerate(several(written)):
        if isinstance(value, str | int | float):
            yield f"{field}[{number}]" if isinstance(written, list) else field, value


def _deletes(name: str, given: Section, least_ms: int) -> Iterator[str]:
    """Yield the reasons why properties of brokers would delete records of a run.

    A record that retention deletes was acknowledged and is absent from the final log. It would be
    reported as lost, and as a broken guarantee that was never given. Only the retention that a cell
    sets for its own topic is known to the checkers. Whether a run is longer, or too large for
    ``retention.bytes``, is judged with its plan.
    """
    values = several(given[name])
    if _CLEANUP.fullmatch(name) and any(map(_is_compacting, values)):
        yield f"compaction {_DELETED}; it can be tested as cleanup.policy in cells.topic"
    order = list(_TIMES)
    finer = order[: order.index(name)] if name in order[:-1] else []
    if name not in _TIMES or any(other in given for other in finer):
        return
    if any(0 <= value * _TIMES[name] < least_ms for value in _whole(given[name])):
        yield (
            f"retention {_DELETED}: -1, or at least {-(-least_ms // _TIMES[name]):,}; a shorter "
            "one can be tested as retention.ms in cells.topic"
        )


def _whole(written: object) -> list[int]:
    """Return the values that are whole numbers."""
    texts = [str(value) for value in several(written) if not isinstance(value, bool)]
    return [int(text) for text in texts if re.fullmatch(r"-?[0-9]{1,18}", text)]


def _least_ms(content: Section) -> int:
    """Return how long records must be kept at least, in milliseconds: longer than any run lasts.
    Faults set clocks half a day ahead or back."""
    faults = content.get("faults")
    entries = [one for one in faults if isinstance(one, dict)] if isinstance(faults, list) else []
    wrong = any("story" in one or _CLOCKS.search(str(one.get("fault"))) for one in entries)
    return 2 * _DAY_MS if wrong else _DAY_MS


def size_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each ``retention.bytes`` of brokers that a run might exceed."""
    for where, given, _ in _places(draft):
        if _SIZE in given:
            least = _least_bytes(draft)
            if any(value >= 0 and (not least or value < least) for value in _whole(given[_SIZE])):
                enough = f"-1, or at least {least:,}" if least else "-1"
                reason = (
                    f"retention {_DELETED}: {enough}; a smaller one can be tested as "
                    "retention.bytes in cells.topic"
                )
                yield Problem(field=f"{where}.{_SIZE}", reason=reason)


def _least_bytes(draft: Draft) -> int:
    """Return the size below which retention may delete records of a run, or 0 if unknown."""
    return 2 * int(bytes_of_draft(draft) or 0)


def retention_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each property by which brokers would delete records or state before the
    planned end of a run."""
    least_ms = _planned_ms(draft)
    for where, given, every in _places(draft):
        for name in given:
            for reason in (*_deletes(name, every, least_ms), *_forgets(name, given, least_ms)):
                yield Problem(field=f"{where}.{name}", reason=reason)
    yield from _kept_too_short(draft, least_ms)
    yield from _forgetting_problems(draft, least_ms)
    yield from _removing_problems(draft)


def _forgetting_problems(draft: Draft, least_ms: int) -> Iterator[Problem]:
    """Yield a problem for the compaction of a topic, and for each retention that would delete
    records of a run, if it could not be judged what they delete."""
    if draft.cells is None or draft.workload is None:
        return
    if any(map(_is_compacting, several(draft.cells.topic.get(_POLICY, "")))):
        reasons = list(_unjudged(draft, draft.workload, _PRODUCE, _TRANSACTIONS))
        if draft.workload.keys is None:
            reasons.append("it goes by the keys of records. Give them keys (workload.keys)")
        for reason in reasons:
            yield Problem(
                field=f"cells.topic.{_POLICY}", reason=f"compaction deletes records: {reason}"
            )
    for name, least in (("retention.ms", least_ms), ("retention.bytes", _least_bytes(draft))):
        short = [v for v in _whole(draft.cells.topic.get(name, -1)) if 0 <= v < least]
        for reason in _unjudged(draft, draft.workload, _PRODUCE) if short else ():
            yield Problem(
                field=f"cells.topic.{name}", reason=f"retention deletes records: {reason}"
            )
        if name == "retention.ms" and any(value < _AGE_MIN_MS for value in short):
            reason = f"at least {_AGE_MIN_MS:,}, because log starts are observed once a second"
            yield Problem(field=f"cells.topic.{name}", reason=reason)


def _removing_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if a campaign demands removed records, and no topic of its cells removes
    any."""
    if draft.cells is None or draft.evidence is None or not draft.evidence.removed_min:
        return
    limits = [
        value
        for name in ("retention.ms", "retention.bytes")
        for value in _whole(draft.cells.topic.get(name, -1))
    ]
    policies = several(draft.cells.topic.get(_POLICY, ""))
    if not any(map(_is_compacting, policies)) and all(value < 0 for value in limits):
        reason = "no cell removes records: set cleanup.policy: compact, retention.ms or "
        reason += "retention.bytes in cells.topic"
        yield Problem(field="evidence.removed.min", reason=reason)


def _is_compacting(value: object) -> bool:
    return "compact" in str(value)


def _unjudged(draft: Draft, workload: WorkloadSpec, *kinds: str) -> Iterator[str]:
    """Yield the reasons why it could not be judged what a cleanup policy deletes. It can be with
    workloads of these kinds only."""
    if workload.kind not in kinds:
        yield f"this can be tested with the workload {' or '.join(kinds)} only"
    elif not workload.readers and not workload.groups:
        yield (
            "before the final read, only consumers can show that they were there. Add tail "
            "readers (workload.readers: 1)"
        )
    if any(_CLOCKS.search(fault.fault) for plan in draft.plans for fault in plan):
        yield "their ages are unknown if a fault changes clocks. Leave out these faults"


def _places(draft: Draft) -> Iterator[tuple[str, Section, Section]]:
    """Yield each section with properties of brokers: its field, its properties, and all properties
    in force there."""
    if draft.cluster is None or draft.cells is None:
        return
    everywhere = draft.cluster.properties
    yield "cluster.properties", everywhere, everywhere
    for name, own in draft.cluster.compare.items():
        yield f"cluster.compare.{name}", own, {**everywhere, **own}


def _planned_ms(draft: Draft) -> int:
    """Return how long the records of the longest run must be kept, in milliseconds, or 0 if its
    plan is unknown."""
    wrong = any(_CLOCKS.search(fault.fault) for plan in draft.plans for fault in plan)
    lasts = longest_run_ms(draft)
    return lasts + _DAY_MS if lasts and wrong else lasts


def _forgets(name: str, given: Section, least_ms: int) -> Iterator[str]:
    unit, what = _FORGETS.get(name, (1, ""))
    if what and any(value * unit < least_ms for value in _whole(given[name])):
        yield f"{what}: at least {-(-least_ms // unit):,}"


def _kept_too_short(draft: Draft, least_ms: int) -> Iterator[Problem]:
    """Yield a problem if a run lasts longer than brokers keep records by default."""
    if draft.cluster is None or draft.cells is None or least_ms <= _UNSET_MS:
        return
    if draft.cluster.system == EXTERNAL or _UNSET in draft.cells.topic:
        return
    if any(not _TIMES.keys() & cluster.properties.keys() for cluster, _ in draft.cluster.points()):
        days = _UNSET_MS // _DAY_MS
        reason = f"brokers keep records for {days} days, but retention {_DELETED}: {_UNSET}: -1"
        yield Problem(field="cells.topic", reason=reason)


def _misplaced(field: str, name: str) -> Problem:
    return Problem(field=field, reason=f"belongs to cells.{canonical(name)}", key=True)


def _instead(steps: Steps, external: bool) -> str:
    name, where = str(steps[-1]), ".".join(_SECRETS)
    if _COMMANDS in steps:
        return "let the command read it from a file or from its environment"
    if not external:
        return (
            "leave it out, because the clusters that Ackproof deploys have PLAINTEXT listeners only"
        )
    if name.endswith(_JAAS):
        return (
            "librdkafka accepts no JAAS configuration. Set sasl.username under "
            f"cluster.external.client, and sasl.password under {where}"
        )
    if steps[: len(_SECRETS)] == _SECRETS or connection_properties({name: ""}):
        return f"say under {where} where it is, {name}: {{env: VARIABLE}} or {{file: PATH}}"
    return "leave it out"
