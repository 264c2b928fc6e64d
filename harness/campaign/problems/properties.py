"""What is wrong with the properties that a campaign file sets of brokers, topics and producers,
each looked at by itself: the name, the value, and whether records would be deleted by it. Secrets
are refused wherever in the file they are, because copies of the file are kept with results.

Read as they are written, so that they are judged whatever else is wrong with the file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from ackproof.config.documents import Problem, as_field
from ackproof.config.sensitive import Steps, secrets_in
from ackproof.harness.campaign.clients import producer_refusal
from ackproof.harness.campaign.model.values import several
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.sizes import bytes_of_draft, longest_run_ms
from ackproof.history.cell import LIBRDKAFKA, SETTINGS, Value, is_program
from ackproof.infra import systems
from ackproof.infra.clients.programs import CLIENTS
from ackproof.infra.systems import properties
from ackproof.infra.systems.product import BUNDLED, EXTERNAL
from ackproof.infra.systems.properties import RESERVED, Known
from ackproof.workloads.configuration import canonical, connection_properties

_DAY_MS = 24 * 3_600_000
_TIMES: Mapping[str, int] = {
    "log.retention.ms": 1,
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
    "retention.ms": 1,
}
"""Properties that say for how long records are kept, in milliseconds; each goes before those of
brokers that follow."""
_UNSET = "retention.ms"
_UNSET_MS = 168 * 3_600_000
"""For how long every system keeps the records of a topic of which nothing is said."""
_FORGETS: Mapping[str, tuple[int, str]] = {
    "offsets.retention.minutes": (60_000, "deletes commits, which would be taken for lost"),
    "producer.id.expiration.ms": (
        1,
        "forgets idempotent producers, whose repeated batches would be taken for duplicates",
    ),
    "transactional.id.expiration.ms": (
        1,
        "forgets transactional producers, which would be taken for fenced",
    ),
}
"""Properties that say for how long brokers remember something else, in milliseconds, and what
follows from a shorter time."""
_SIZES = ("log.retention.bytes", "retention.bytes")
_CLEANUP = re.compile(r"(log\.)?cleanup\.policy")
_CLOCKS = re.compile(r"-clock$")
_DELETED = "deletes records, which would be taken for loss"

_SECRETS = ("cluster", "external", "secrets")
_COMMANDS = "commands"
_JAAS = "jaas.config"

Section = Mapping[str, object]


def property_problems(content: Section) -> Iterator[Problem]:
    """Of everything in the file that holds properties."""
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
            reason = "stands in cluster.properties, too: say it once for all, or of each"
            yield Problem(field=f"{where}.{key}", reason=reason, key=True)
    yield from _topic_problems(mapping(cells, "topic"), known, least_ms)
    yield from _producer_problems(mapping(cells, "producer"), _clients(cells))


def secret_problems(content: Section) -> Iterator[Problem]:
    """Yield a problem for each secret, which names the place where it may be."""
    cluster = content.get("cluster")
    external = isinstance(cluster, dict) and cluster.get("system") == EXTERNAL
    for steps in secrets_in(content):
        reason = f"is a secret, and this file is kept: {_instead(steps, external)}"
        yield Problem(field=as_field(steps), reason=reason, key=isinstance(steps[-1], str))


def without(problems: Sequence[Problem], secrets: Sequence[Problem]) -> Iterator[Problem]:
    """Yield ``problems``, except those of fields that hold secrets: reasons may quote the value."""
    hidden = {problem.field for problem in secrets}
    inside = tuple(f"{field}{mark}" for field in hidden for mark in ".[")
    for problem in problems:
        if problem.field not in hidden and not problem.field.startswith(inside):
            yield problem


def mapping(section: Section, name: str) -> Section:
    """The mapping of that name; an empty one where there is something else."""
    found = section.get(name)
    return found if isinstance(found, dict) else {}


def _text(section: Section, name: str) -> str | None:
    """What is written there; None where nothing is. What is no text names nothing."""
    written = section.get(name)
    return written if written is None or isinstance(written, str) else ""


def _broker_problems(
    given: Section, where: str, known: Known | None, every: Section, least_ms: int
) -> Iterator[Problem]:
    """``every``: all properties of these brokers, those that are ``given`` here among them."""
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


def _topic_problems(given: Section, known: Known | None, least_ms: int) -> Iterator[Problem]:
    for name, written in given.items():
        field = f"cells.topic.{name}"
        if canonical(name) in SETTINGS:
            yield _misplaced(field, name)
            continue
        reasons = list(_deletes(name, given, least_ms))
        yield from (Problem(field=field, reason=reason) for reason in reasons)
        if known is not None and not reasons:
            yield from _wrong(known, "topic", name, written, field, given)


def _clients(cells: Section) -> Sequence[str]:
    """Those of which the file has cells; what is none is for the model to refuse."""
    written = several(cells.get("client", LIBRDKAFKA))
    named = [one for one in written if isinstance(one, str)]
    return [one for one in named if one in CLIENTS or is_program(one)]


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
    known: Known, kind: str, name: str, written: object, field: str, every: Section
) -> Iterator[Problem]:
    if (reason := known.unknown(kind, name, every.keys())) is not None:
        yield Problem(field=field, reason=reason, key=True)
        return
    for at, value in _values(written, field):
        if (reason := known.wrong(kind, name, value)) is not None:
            yield Problem(field=at, reason=reason)


def _values(written: object, field: str) -> Iterator[tuple[str, Value]]:
    """Each value, with its own path; what can be none is for the model to refuse."""
    for number, value in enumerate(several(written)):
        if isinstance(value, str | int | float):
            yield f"{field}[{number}]" if isinstance(written, list) else field, value


def _deletes(name: str, given: Section, least_ms: int) -> Iterator[str]:
    """Yield why brokers would delete records of a run on purpose. What retention deletes was acked,
    and is absent from the final log: it would be called lost, and a guarantee broken that nobody
    gave. Whether a run is longer, or too large for ``retention.bytes``, is judged with its plan."""
    values = several(given[name])
    if _CLEANUP.fullmatch(name) and any("compact" in str(value) for value in values):
        yield f"compaction {_DELETED}"
    order = list(_TIMES)
    finer = order[: order.index(name)] if name in order[:-1] else []
    if name not in _TIMES or any(other in given for other in finer):
        return
    if any(0 <= value * _TIMES[name] < least_ms for value in _whole(given[name])):
        yield f"retention {_DELETED}: -1, or at least {-(-least_ms // _TIMES[name]):,}"


def _whole(written: object) -> list[int]:
    """Return the values that are whole numbers."""
    texts = [str(value) for value in several(written) if not isinstance(value, bool)]
    return [int(text) for text in texts if re.fullmatch(r"-?[0-9]{1,18}", text)]


def _least_ms(content: Section) -> int:
    """Return for how long records must be kept: longer than any run lasts. Faults set clocks half
    a day ahead or back."""
    faults = content.get("faults")
    entries = [one for one in faults if isinstance(one, dict)] if isinstance(faults, list) else []
    wrong = any("story" in one or _CLOCKS.search(str(one.get("fault"))) for one in entries)
    return 2 * _DAY_MS if wrong else _DAY_MS


def size_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each ``retention.bytes`` that a run might exceed."""
    for where, given, _ in _places(draft):
        for name in given.keys() & set(_SIZES):
            least = 2 * int(bytes_of_draft(draft) or 0)
            if any(value >= 0 and (not least or value < least) for value in _whole(given[name])):
                enough = f"-1, or at least {least:,}" if least else "-1"
                yield Problem(field=f"{where}.{name}", reason=f"retention {_DELETED}: {enough}")


def retention_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each property by which brokers would delete or forget something before a
    run, as it is planned, is over."""
    least_ms = _planned_ms(draft)
    for where, given, every in _places(draft):
        for name in given:
            for reason in (*_deletes(name, every, least_ms), *_forgets(name, given, least_ms)):
                yield Problem(field=f"{where}.{name}", reason=reason)
    yield from _kept_too_short(draft, least_ms)


def _places(draft: Draft) -> Iterator[tuple[str, Section, Section]]:
    """Yield where properties stand, those that stand there, and all that are in force there."""
    if draft.cluster is None or draft.cells is None:
        return
    everywhere, topic = draft.cluster.properties, draft.cells.topic
    yield "cluster.properties", everywhere, everywhere
    for name, own in draft.cluster.compare.items():
        yield f"cluster.compare.{name}", own, {**everywhere, **own}
    yield "cells.topic", topic, topic


def _planned_ms(draft: Draft) -> int:
    """Return for how long the records of the longest run must be kept; 0 where its plan does not
    tell."""
    wrong = any(_CLOCKS.search(fault.fault) for plan in draft.plans for fault in plan)
    lasts = longest_run_ms(draft)
    return lasts + _DAY_MS if lasts and wrong else lasts


def _forgets(name: str, given: Section, least_ms: int) -> Iterator[str]:
    unit, what = _FORGETS.get(name, (1, ""))
    if what and any(value * unit < least_ms for value in _whole(given[name])):
        yield f"{what}: at least {-(-least_ms // unit):,}"


def _kept_too_short(draft: Draft, least_ms: int) -> Iterator[Problem]:
    """Yield a problem where a run lasts longer than brokers keep records of which nothing is
    said."""
    if draft.cluster is None or draft.cells is None or least_ms <= _UNSET_MS:
        return
    if draft.cluster.system == EXTERNAL or _UNSET in draft.cells.topic:
        return
    if any(not _TIMES.keys() & cluster.properties.keys() for cluster, _ in draft.cluster.points()):
        days = _UNSET_MS // _DAY_MS
        reason = f"brokers keep records for {days} days, and retention {_DELETED}: {_UNSET}: -1"
        yield Problem(field="cells.topic", reason=reason)


def _misplaced(field: str, name: str) -> Problem:
    return Problem(field=field, reason=f"belongs to cells.{canonical(name)}", key=True)


def _instead(steps: Steps, external: bool) -> str:
    name, where = str(steps[-1]), ".".join(_SECRETS)
    if _COMMANDS in steps:
        return "let the command read it from a file or from its environment"
    if not external:
        return "leave it out, because clusters that are deployed have PLAINTEXT listeners alone"
    if name.endswith(_JAAS):
        return (
            "librdkafka takes no JAAS configuration, but sasl.username under "
            f"cluster.external.client, and sasl.password under {where}"
        )
    if steps[: len(_SECRETS)] == _SECRETS or connection_properties({name: ""}):
        return f"say under {where} where it is, {name}: {{env: VARIABLE}} or {{file: PATH}}"
    return "leave it out"
