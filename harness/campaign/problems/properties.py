"""What is wrong with the properties that a campaign file sets of brokers, topics and producers,
each looked at by itself: the name, the value, and whether records would be deleted by it. Secrets
are refused wherever in the file they are, because copies of the file are kept with results.

Read as they are written, so that they are judged whatever else is wrong with the file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from harness.campaign.clients import producers
from harness.campaign.model.values.sweep import several
from history.cell import LIBRARIES, LIBRDKAFKA, SETTINGS, Value, is_program
from infra.documents import Problem, as_field
from infra.sensitive import Steps, secrets_in
from infra.systems import properties
from infra.systems.names import BUNDLED, EXTERNAL
from infra.systems.properties import RESERVED, Known
from workloads.configuration import canonical, connection_properties

_DELETES = re.compile(
    r"(log\.)?(retention\.(ms|bytes|minutes|hours)|cleaner\..*|(cleaner\.)?delete\.retention\.ms"
    r"|(cleaner\.)?(min|max)\.compaction\.lag\.ms)"
)
_CLEANUP = re.compile(r"(log\.)?cleanup\.policy")

_SECRETS = ("cluster", "external", "secrets")
_COMMANDS = "commands"
_JAAS = "jaas.config"

Section = Mapping[str, object]


def property_problems(content: Section) -> Iterator[Problem]:
    """Of everything in the file that holds properties."""
    cluster, cells = mapping(content, "cluster"), mapping(content, "cells")
    known = properties.known(_text(cluster, "system") or BUNDLED, _text(cluster, "metadata.quorum"))
    everywhere = mapping(cluster, "properties")
    yield from _broker_problems(everywhere, "cluster.properties", known)
    compared = mapping(cluster, "compare")
    for name in compared:
        own, where = mapping(compared, name), f"cluster.compare.{name}"
        yield from _broker_problems(own, where, known)
        for key in sorted(own.keys() & everywhere.keys()):
            reason = "stands in cluster.properties, too: say it once for all, or of each"
            yield Problem(field=f"{where}.{key}", reason=reason, key=True)
    yield from _topic_problems(mapping(cells, "topic"), known)
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


def _broker_problems(given: Section, where: str, known: Known | None) -> Iterator[Problem]:
    for name, written in given.items():
        field = f"{where}.{name}"
        if name in RESERVED:
            yield Problem(field=field, reason=RESERVED[name], key=True)
        elif _deletes(name, written):
            yield _deleting(field)
        elif known is not None:
            yield from _wrong(known, "broker", name, written, field)


def _topic_problems(given: Section, known: Known | None) -> Iterator[Problem]:
    for name, written in given.items():
        field = f"cells.topic.{name}"
        if canonical(name) in SETTINGS:
            yield _misplaced(field, name)
        elif _deletes(name, written):
            yield _deleting(field)
        elif known is not None:
            yield from _wrong(known, "topic", name, written, field)


def _clients(cells: Section) -> Sequence[str]:
    """Those of which the file has cells; what is none is for the model to refuse."""
    written = several(cells.get("client", LIBRDKAFKA))
    named = [one for one in written if isinstance(one, str)]
    return [one for one in named if one in LIBRARIES or is_program(one)]


def _producer_problems(given: Section, clients: Sequence[str]) -> Iterator[Problem]:
    for name, written in given.items():
        field = f"cells.producer.{name}"
        if canonical(name) in SETTINGS:
            yield _misplaced(field, name)
            continue
        for at, value in _values(written, field):
            reasons = (producers.refused(name, value, client) for client in clients)
            for reason in dict.fromkeys(filter(None, reasons)):
                yield Problem(field=at, reason=reason)


def _wrong(known: Known, kind: str, name: str, written: object, field: str) -> Iterator[Problem]:
    if (reason := known.unknown(kind, name)) is not None:
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


def _deletes(name: str, written: object) -> bool:
    """Whether brokers would delete records on purpose. What retention deletes was acked, and is
    absent from the final log: it would be called lost, and a guarantee broken that nobody gave."""
    values = several(written)
    compacts = bool(_CLEANUP.fullmatch(name)) and any("compact" in str(value) for value in values)
    return compacts or (bool(_DELETES.fullmatch(name)) and any(value != -1 for value in values))


def _deleting(field: str) -> Problem:
    reason = "retention and compaction delete records, which would be taken for loss"
    return Problem(field=field, reason=reason)


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
