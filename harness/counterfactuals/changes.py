"""The changes to a campaign of which each is tried alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

from ackproof.config.documents import Document
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.clients import producer_refusal
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.counterfactuals.failures import NoCounterfactual
from ackproof.harness.shrinking.reductions import Candidate, Content, single_cell
from ackproof.history.cell import LIBRARIES, LIBRDKAFKA, Cell
from ackproof.history.messages import printable
from ackproof.infra.clients.builds import KAFKA_CLIENTS
from ackproof.infra.clients.programs import client_of
from ackproof.infra.systems import parse
from ackproof.infra.systems.kafka.product import KafkaBuild
from ackproof.infra.systems.kafka.releases import numbers_of

AS_IT_WAS = "as it was"
ELIGIBLE = "kafka:4.1.1"
"""The release for the change to eligible leader replicas. New clusters of 4.1 and later have them
by default (KIP-966). The change has the release's name, because so much else changes with it."""

_ELIGIBLE_SINCE = (4, 1)
NEWEST = "kafka:4.4.0"
"""The release for the change to a newer one: the newest in the table of docs/kafka.md."""

WITHOUT = "without fault"
"""The beginning of the name of a change that leaves out a fault."""

FAULTS_MAX = 8
"""The most faults of which each is left out in turn."""

REASON_MAX = 120
"""The most characters of a problem in the reason why a change is not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A campaign with one thing changed.

    Attributes:
        name: The change, as ``acks=all``, with what else it changes behind a comma;
            :data:`AS_IT_WAS` without one.
        text: The campaign file.
        system: The system under test, as in the file.
    """

    name: str
    text: str
    system: str


def short(name: str) -> str:
    """Return the name of a change without what else it changes: all before the first comma."""
    return name.partition(",")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A change that is not tried, and the reason."""

    name: str
    reason: str


def variants(candidate: Candidate, name: str) -> tuple[Sequence[Variant], Sequence[LeftOut]]:
    """Return the campaign for one cell as it was, then its changes, and what was left out. If the
    cell shares its producers, all cells stay (:func:`shares_producers`).

    Args:
        candidate: The campaign.
        name: The cell. If the campaign has only one, it is that one.

    Raises NoCounterfactual if no valid campaign with that cell alone can be made.
    """
    cells = expand(candidate.campaign.cells)
    cell = next((one for one in cells if one.name == name), cells[0])
    if cell.name != name and len(cells) > 1:
        raise NoCounterfactual(f"the campaign has no cell {name}")
    if shares_producers(candidate, name):
        document = {**candidate.document, "expect": []}
    else:
        document = single_cell(candidate.document, cells, cell)
    base = _valid(document)
    if not isinstance(base, str):
        raise NoCounterfactual(
            f"the campaign cannot be run for the cell {name} alone: {'; '.join(base)}; "
            "ackproof shrink makes a campaign of one cell"
        )
    system = document["cluster"]["system"]
    found = [Variant(name=AS_IT_WAS, text=base, system=system)]
    left = []
    for change in _changes(document, cell):
        if isinstance(change, LeftOut):
            left.append(change)
            continue
        text = _valid(change.document)
        if isinstance(text, str):
            system = change.document["cluster"]["system"]
            found.append(Variant(name=change.name, text=text, system=system))
        else:
            left.append(LeftOut(name=change.name, reason=_not_valid(text)))
    return found, left


def shares_producers(candidate: Candidate, name: str) -> bool:
    """Return whether a cell shares its producers with others.

    Such a failure may need both: with KAFKA-19012 a producer writes the records of one topic into
    another. With one cell it would not come back, whatever is changed.
    """
    cells = expand(candidate.campaign.cells)
    groups = candidate.campaign.workload.shared_producers(cells)
    return any(one.name == name for some in groups for one in some)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    name: str
    document: Content


def _valid(document: Content) -> str | Sequence[str]:
    """Return the text of a campaign file, or the problems that it has."""
    try:
        found = validation.judged(Document(path=Path("campaign"), content=document), meant=True)
    except validation.CampaignRefused as refused:
        return [printable(str(one)) for one in refused.problems]
    return found.campaign.to_yaml()


def _not_valid(problems: Sequence[str]) -> str:
    """Return the first problem of a change, cut at :data:`REASON_MAX`, and how many more it has."""
    first = shorten(problems[0], REASON_MAX, placeholder=" ...")
    more = f" ({len(problems) - 1} more)" if problems[1:] else ""
    return f"not valid here: {first}{more}"


def _changes(document: Content, cell: Cell) -> Iterator[_Change | LeftOut]:
    with_cell = partial(_with_cell, document)
    yield from _of_acks(cell, with_cell)
    name = "unclean.leader.election.enable=false"
    if cell.unclean_leader_election:
        yield _Change(name=name, document=with_cell({"unclean.leader.election.enable": False}))
    else:
        yield LeftOut(name=name, reason=_ALREADY)
    if cell.flushes_every_record:
        yield LeftOut(name="flush.messages=1", reason=_ALREADY)
    else:
        topic = {**document["cells"].get("topic", {}), "flush.messages": 1}
        yield _Change(name="flush.messages=1", document=with_cell({"topic": topic}))
    yield _idempotent(cell, with_cell)
    yield _eligible(document)
    yield _newest(document)
    if cell.client.startswith("java:"):
        yield _Change(name=f"client=java:{KAFKA_CLIENTS}", document=with_cell({"client": "java"}))
    yield _another_client(document, cell, with_cell)
    yield from _without_faults(document)


_ALREADY = "already so"
_WithCell = Callable[[Mapping[str, Any]], Content]


def _with_cell(document: Content, settings: Mapping[str, Any]) -> Content:
    return {**document, "cells": {**document["cells"], **settings}}


def _of_acks(cell: Cell, with_cell: _WithCell) -> Iterator[_Change | LeftOut]:
    """Yield acks=all and a higher min.insync.replicas, each alone and, if neither has an effect
    without the other, together."""
    waits, least = cell.acks == "all", cell.min_insync_replicas
    if waits:
        yield LeftOut(name="acks=all", reason=_ALREADY)
    else:
        yield _Change(name="acks=all", document=with_cell({"acks": "all"}))
    more = f"min.insync.replicas={least + 1}"
    if least + 1 > cell.replication_factor:
        yield LeftOut(name=more, reason="more than there are replicas")
    elif waits:
        yield _Change(name=more, document=with_cell({"min.insync.replicas": least + 1}))
    else:
        yield LeftOut(name=more, reason="has an effect only with acks=all")
        if least == 1:
            settings = {"acks": "all", "min.insync.replicas": least + 1}
            yield _Change(name=f"acks=all and {more}", document=with_cell(settings))


def _idempotent(cell: Cell, with_cell: _WithCell) -> _Change | LeftOut:
    name = "enable.idempotence=true"
    if cell.enable_idempotence:
        return LeftOut(name=name, reason=_ALREADY)
    if cell.acks != "all":
        return LeftOut(name=name, reason="needs acks=all")
    return _Change(name=name, document=with_cell({"enable.idempotence": True}))


def _eligible(document: Content) -> _Change | LeftOut:
    name = "eligible leader replicas"
    build = parse(document["cluster"]["system"])
    if not isinstance(build, KafkaBuild):
        return LeftOut(name=name, reason=f"{build.text} has no release that is known to have them")
    if not build.is_before(_ELIGIBLE_SINCE):
        return LeftOut(name=name, reason=f"{build.text} has them by default in a new cluster")
    return _with_release(document, ELIGIBLE)


def _newest(document: Content) -> _Change | LeftOut:
    name, build = f"release {NEWEST}", parse(document["cluster"]["system"])
    if not isinstance(build, KafkaBuild):
        return LeftOut(name=name, reason=f"{build.text} is no release of Apache Kafka")
    if not build.is_before(numbers_of(NEWEST.partition(":")[2])):
        return LeftOut(name=name, reason=_ALREADY)
    return _with_release(document, NEWEST)


def _with_release(document: Content, system: str) -> _Change:
    """Return the campaign on another release, with the metadata quorum that this has by default."""
    cluster = {**document["cluster"]}
    former = parse(cluster["system"]).quorum(cluster.pop("metadata.quorum", None))
    quorum = parse(system).quorum()
    note = "" if quorum is former else f", {quorum} instead of {former}"
    changed = {**document, "cluster": {**cluster, "system": system}}
    return _Change(name=f"release {system}{note}", document=changed)


def _another_client(document: Content, cell: Cell, with_cell: _WithCell) -> _Change | LeftOut:
    """Return a change to the first other client library that can be started here. A property that
    it does not have is left out or has another name, and the change says so."""
    missing = []
    for library in LIBRARIES:
        if library == cell.client:
            continue
        why = client_of(library).missing() if library in _PROGRAMS else None
        if why is None:
            config, told = translated(document["cells"].get("producer", {}), cell.client, library)
            settings = {"client": library, **({"producer": config} if told else {})}
            name = ", ".join((f"client={library}", *told))
            return _Change(name=name, document=with_cell(settings))
        missing.append(f"{library}: {why}")
    return LeftOut(name="another client library", reason="; ".join(missing))


def translated(config: Content, former: str, library: str) -> tuple[Content, Sequence[str]]:
    """Return the properties of a producer of one library for another one, and how they differ, in
    words."""
    if library == LIBRDKAFKA:
        names = _FOR_LIBRDKAFKA
    else:
        names = _FROM_LIBRDKAFKA if former == LIBRDKAFKA else {}
    kept, told = dict(config), []
    for key, of in config.items():
        name = names.get(key, key)
        if name == key and producer_refusal(key, of, library) is None:
            continue
        del kept[key]
        if name is None or name in config or producer_refusal(name, of, library) is not None:
            told.append(f"without {key}")
        else:
            kept[name] = of
            told.append(f"{name} instead of {key}")
    return kept, sorted(told)


_FROM_LIBRDKAFKA: Mapping[str, str | None] = {
    "message.timeout.ms": "delivery.timeout.ms",
    "request.timeout.ms": None,
    "socket.timeout.ms": "request.timeout.ms",
}
"""The names that other libraries have for librdkafka's properties. Its ``request.timeout.ms`` is
the time that a broker waits for its followers, and theirs the time that they wait for a broker."""
_FOR_LIBRDKAFKA: Mapping[str, str | None] = {"request.timeout.ms": "socket.timeout.ms"}

_PROGRAMS = LIBRARIES[1:]
"""The libraries that are programs of their own, which may be missing."""


def _without_faults(document: Content) -> Iterator[_Change | LeftOut]:
    faults = document["faults"]
    if len(faults) > FAULTS_MAX:
        yield LeftOut(
            name="without one fault",
            reason=f"{len(faults)} faults are more than {FAULTS_MAX}; run ackproof shrink first",
        )
        return
    for place, fault in enumerate(faults):
        what = fault.get("fault") or fault.get("story")
        target = fault.get("target") or fault.get("topic") or "any"
        yield _Change(
            name=f"{WITHOUT} {place + 1}, {what} on {target}",
            document={**document, "faults": [*faults[:place], *faults[place + 1 :]]},
        )
