"""Counterfactual root causes: a campaign that lost records, or broke another guarantee, run again
several times as it was, and as often with one thing changed each.

The changes are derived from the campaign. A change that it already has, that its system does not
know, or that could have no effect is left out, with the reason. Everything is in ``why/`` of the
results: for each change its campaign file, and the results of its runs. Runs are kept, so that work
that was ended continues where it was.

A run is one trial, whatever number of records it lost. Runs that are inconclusive are no trials.
Runs of the same cell count for each of its guarantees.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from textwrap import shorten
from typing import Any

import numpy as np

from ackproof.checkers.guarantees.table import NO_LOSS
from ackproof.checkers.verdict import Verdict
from ackproof.config.documents import Document
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.clients import producer_refusal
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.report import chance, verdict
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.shrinking.reductions import Candidate, Content, single_cell
from ackproof.harness.subprocesses import CachedRun, last_words
from ackproof.history.cell import LIBRARIES, LIBRDKAFKA, Cell
from ackproof.history.messages import printable
from ackproof.history.storage import write_text
from ackproof.infra.clients.builds import KAFKA_CLIENTS
from ackproof.infra.clients.programs import client_of
from ackproof.infra.systems import parse
from ackproof.infra.systems.kafka.product import KafkaBuild
from ackproof.infra.systems.kafka.releases import numbers_of

DIRECTORY = "why"
PAGE, DOCUMENT = "why.md", "why.json"
VERSION = 2
"""The version of the schema of :data:`DOCUMENT`."""

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

VAIN_MAX = 2
"""If so many first runs of a variant have no verdict, it is not run again. The reason is most often
the same each time, for example a release that cannot be fetched. The next call tries again."""

# --- changes --------------------------------------------------------------------------------------


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


class NoCounterfactual(ValueError):
    """A result that broke nothing, or whose campaign cannot be run for one cell."""


def read_document(directory: Path) -> VerdictDocument | None:
    """Return the verdict of results, or None if they were not checked. Raises DamagedResults."""
    try:
        return verdict.read_document(directory / verdict.FILE)
    except FileNotFoundError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure that is examined: a guarantee that did not hold in a cell, promised or not.

    Attributes:
        run: The number of the run.
        cell: The name of the cell.
        guarantee: The name of the guarantee.
    """

    run: int
    cell: str
    guarantee: str

    @property
    def is_loss(self) -> bool:
        return self.guarantee == NO_LOSS

    @property
    def happened(self) -> str:
        """Return what happened in a run, in words."""
        return "records were lost" if self.is_loss else f"{self.guarantee} did not hold"

    @property
    def noun(self) -> str:
        """Return the word for the failure in a sentence."""
        return "loss" if self.is_loss else "failure"


def failure(result: VerdictDocument, cell: str | None, guarantee: str | None) -> Failure:
    """Return the failure to examine. Unless cell and guarantee say which one, what was promised
    comes first, and a loss before others.

    Raises NoCounterfactual.
    """
    for kind, asked, there in (
        ("cell", cell, [one.cell for one in result.cells]),
        ("guarantee", guarantee, [of.name for one in result.cells for of in one.guarantees]),
    ):
        if asked is not None and asked not in there:
            raise NoCounterfactual(unknown(kind, asked, dict.fromkeys(there)))
    known = [
        (
            one.broken == 0,
            one.name != NO_LOSS,
            Failure(run=of.run, cell=of.cell, guarantee=one.name),
        )
        for of in result.cells
        for one in of.guarantees
        if _anomalies(of, one.name)
    ]
    wanted = [
        one
        for one in known
        if cell in (None, one[-1].cell) and guarantee in (None, one[-1].guarantee)
    ]
    if wanted:
        return min(wanted, key=lambda one: one[:2])[-1]
    if not known:
        raise NoCounterfactual("no cell lost a record or broke a guarantee")
    asked = " in ".join(filter(None, (guarantee, cell)))
    failed = "; ".join(sorted({f"{one.guarantee} in {one.cell}" for *_, one in known}))
    raise NoCounterfactual(f"there is no failure of {asked}, but of {failed}")


def _anomalies(cell: CellDocument, guarantee: str) -> int | None:
    """Return how many anomalies the cell has that the guarantee excludes, promised or not; None if
    it has none and not everything was examined."""
    if guarantee == NO_LOSS:
        return cell.lost
    one = next((one for one in cell.guarantees if one.name == guarantee), None)
    if one is None:
        return None
    return one.found or one.broken or (0 if one.checked and not one.lacking else None)


def variants(candidate: Candidate, name: str) -> tuple[Sequence[Variant], Sequence[LeftOut]]:
    """Return the campaign for one cell as it was, then its changes, and what was left out.

    Args:
        candidate: The campaign.
        name: The cell. If the campaign has only one, it is that one.

    Raises NoCounterfactual if no valid campaign with that cell alone can be made.
    """
    cells = expand(candidate.campaign.cells)
    cell = next((one for one in cells if one.name == name), cells[0])
    if cell.name != name and len(cells) > 1:
        raise NoCounterfactual(f"the campaign has no cell {name}")
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


# --- runs -----------------------------------------------------------------------------------------

_CAMPAIGN = "campaign.yaml"
_DIGEST = 8


def _place(variant: Variant, results: Path) -> Path:
    """Return the directory of a variant. A changed campaign has another one, because former runs
    say nothing about it; another name of the change has not."""
    digest = hashlib.sha256(variant.text.encode()).hexdigest()[:_DIGEST]
    former = sorted((results / DIRECTORY).glob(f"*-{digest}"))
    if former:
        return former[0]
    name = re.sub(r"[^A-Za-z0-9.]+", "-", variant.name).strip("-")[:60]
    return results / DIRECTORY / f"{name}-{digest}"


# --- odds -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """The runs of a variant.

    Attributes:
        failed: The number of runs that lost records, or broke the examined guarantee otherwise.
        runs: The number of conclusive runs, with those.
        inconclusive: The number of inconclusive runs, which are not counted.
        p99_ms: The median over the runs of the time within which 99 % of the acks came, in
            milliseconds; None if it is unknown.
        chance: The probability of a difference as large as that from the campaign as it was by
            chance alone; None if it was not tested.
        differs: Whether the difference is more than chance, with all changes together; None
            without a test.
        rank: 1 for the best changes. A change has a higher rank than another only if its interval
            is wholly above. None for a change that is not shown to fail less.
    """

    name: str
    failed: int
    runs: int
    inconclusive: int
    p99_ms: float | None = None
    chance: float | None = None
    differs: bool | None = None
    rank: int | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the probability of a failure (Clopper and Pearson), or None
        without a conclusive run."""
        return chance.bounds(self.failed, self.runs) if self.runs else None


def odds(name: str, runs: Sequence[CachedRun], guarantee: str = NO_LOSS) -> Odds:
    """Return the odds of a variant. Runs without a verdict are left out. Raises DamagedResults."""
    results = [result for one in runs if (result := one.result) is not None]
    failed = sum(any(_anomalies(cell, guarantee) for cell in one.cells) for one in results)
    held = sum(_held(one, guarantee) for one in results)
    waits = [
        cell.ack_latency.p99_ms
        for one in results
        for cell in one.cells
        if cell.ack_latency is not None and cell.ack_latency.p99_ms is not None
    ]
    return Odds(
        name=name,
        failed=failed,
        runs=failed + held,
        inconclusive=len(results) - failed - held,
        p99_ms=median(waits) if waits else None,
    )


def _held(result: VerdictDocument, guarantee: str) -> bool:
    """Return whether a guarantee certainly held in a run, although all its faults took effect.

    Findings do not matter here. They include servers that waited for a processor, and a finding
    that makes the lost records uncertain makes them unknown or the verdict inconclusive.
    """
    broken_down = not result.runs or any(run.infrastructure_failed for run in result.runs)
    found = [_anomalies(cell, guarantee) for cell in result.cells]
    return (
        not broken_down
        and result.verdict is not Verdict.INCONCLUSIVE
        and bool(found)
        and all(one == 0 for one in found)
        and all(fault.proven for fault in result.faults)
    )


def compared(base: Odds, changes: Sequence[Odds]) -> list[Odds]:
    """Return the changes with their tests against the campaign as it was, the best first.

    Those that are shown to fail less come first, in the order of their ranks. The others stay in
    their order. There is no test if so few runs could not show any difference.
    """
    testable, threshold = _testable(base, changes)
    tests = {one.name: _chance(base, one, threshold) for one in testable}
    noted = dict(zip(tests, chance.noteworthy(list(tests.values())), strict=True))
    tested = [
        replace(one, chance=tests.get(one.name), differs=noted.get(one.name)) for one in changes
    ]
    better = [one for one in tested if one.differs and _share(one) < _share(base)]
    ranked = [
        replace(one, rank=1 + sum(_is_below(other, one) for other in better)) for one in better
    ]
    ranked.sort(key=lambda one: (one.rank, _share(one)))
    shown = {one.name for one in ranked}
    return [*ranked, *(one for one in tested if one.name not in shown)]


def _testable(base: Odds, changes: Sequence[Odds]) -> tuple[Sequence[Odds], float]:
    """Return the changes with enough runs for a test, and the probability that each test must
    reach. Changes that could not reach it, whatever their runs had shown, do not count among the
    tests (Tarone, 1990).

    A change that failed counts with as many runs as the campaign as it was: it may have fewer
    because it failed (:func:`hopeless`). Without that, six changes given up after two losses
    each would leave one test, and luck of the seventh would pass for an effect.
    """
    runs = [(one, max(one.runs, base.runs) if one.failed else one.runs) for one in changes]
    least = [(chance.attainable(base.runs, of), one) for one, of in runs if of and base.runs]
    for many in range(1, len(least) + 1):
        threshold = chance.DOUBT / many
        able = [one for reached, one in least if reached <= threshold]
        if len(able) <= many:
            return able, threshold
    return [], chance.DOUBT


def hopeless(base: Odds, one: Odds, runs: int) -> bool:
    """Return whether a change that failed cannot be shown to fail less with so many runs, even if
    it held in its further runs, and the campaign as it was failed in all of its own."""
    if not one.failed:
        return False
    most, least = max(runs, base.runs), max(runs, one.runs)
    at_best = replace(base, failed=base.failed + most - base.runs, runs=most)
    return _chance(at_best, replace(one, runs=least), chance.DOUBT) > chance.DOUBT


def runs_needed(changes: int) -> int:
    """Return the number of runs of each variant with which any of so many changes could be shown to
    matter."""
    return chance.units_needed(max(changes, 1))


def _share(one: Odds) -> float:
    return one.failed / one.runs


def _is_below(one: Odds, other: Odds) -> bool:
    low, high = one.interval, other.interval
    return low is not None and high is not None and low[1] < high[0]


def _chance(base: Odds, one: Odds, threshold: float) -> float:
    def distance(first: chance.Array, second: chance.Array) -> chance.Array:
        return np.asarray(first[:, 0] / base.runs - second[:, 0] / one.runs)

    return chance.permuted(_trials(base), _trials(one), distance, threshold)


def _trials(one: Odds) -> chance.Array:
    return np.array([[1.0]] * one.failed + [[0.0]] * (one.runs - one.failed))


# --- the question and its answer ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The question why a campaign lost records, or broke another guarantee.

    Attributes:
        results: The directory of the results with the failure.
        campaign: The name of the campaign.
        seed: The seed of all runs. The faults have the seeds of the recorded ones.
        origin: The origin of the campaign that is run, in words.
        failure: The failure that is examined.
        variants: The campaign as it was, then its changes.
        left: The changes that are not tried.
        wanted: The names of the variants to run; empty for all.
    """

    results: Path
    campaign: str
    seed: int
    origin: str
    failure: Failure
    variants: Sequence[Variant]
    left: Sequence[LeftOut]
    wanted: Collection[str] = ()

    @property
    def chosen(self) -> Sequence[Variant]:
        """Return the variants to run: the campaign as it was, and the wanted changes."""
        if not self.wanted:
            return self.variants
        return [one for one in self.variants if one.name in (AS_IT_WAS, *self.wanted)]

    @property
    def described(self) -> Iterator[str]:
        """Yield what is examined, then a line for each variant, and for each change that is not
        tried."""
        examined = self.failure
        yield f"examined: {examined.guarantee} in {examined.cell}, run {examined.run}"
        yield from (one.name for one in self.variants)
        yield from (f"not tried: {one.name}: {one.reason}" for one in self.left)

    def planned(self, runs: int) -> Iterator[tuple[Variant, CachedRun]]:
        """Write the campaign file of each variant, and yield so many runs of each. All variants
        come with their first run first, so that each soon has a result. A change whose former runs
        make it :func:`hopeless` is not run again, nor is a variant whose first runs now came to no
        verdict (:data:`VAIN_MAX`). Raises OSError and DamagedResults."""
        for variant in self.chosen:
            place = _place(variant, self.results)
            place.mkdir(parents=True, exist_ok=True)
            write_text(place / _CAMPAIGN, variant.text)
        base, *_ = self.variants
        vain = Counter[str]()
        for number in range(1, runs + 1):
            for variant in self.chosen:
                given_up = variant is not base and hopeless(
                    self._odds(base), self._odds(variant), runs
                )
                if given_up or vain[variant.name] == VAIN_MAX:
                    continue
                one = self._run(variant, number)
                yield variant, one
                vain[variant.name] += number <= VAIN_MAX and one.result is None

    def _odds(self, variant: Variant) -> Odds:
        return odds(variant.name, self._runs(variant), self.failure.guarantee)

    @property
    def answer(self) -> "Answer":
        """Return the answer of all runs so far, also of changes that are not wanted now. Raises
        DamagedResults."""
        first, *changed = self.variants
        base = self._odds(first)
        run = [one for one in changed if self._runs(one)]
        left = [self._without_runs(one) for one in changed if one not in run]
        return Answer(
            campaign=self.campaign,
            origin=self.origin,
            failure=self.failure,
            base=base,
            changes=compared(base, [self._odds(one) for one in run]),
            left=[*left, *self.left],
        )

    def _without_runs(self, variant: Variant) -> LeftOut:
        outputs = list(_place(variant, self.results).glob("run-*.output"))
        if not outputs:
            return LeftOut(name=variant.name, reason="not run yet")
        words = printable(last_words(max(outputs, key=lambda one: one.stat().st_mtime)))
        runs = "1 run" if len(outputs) == 1 else f"{len(outputs)} runs"
        reason = f"no verdict in {runs}, at last: {words}"
        return LeftOut(name=variant.name, reason=reason)

    def _runs(self, variant: Variant) -> list[CachedRun]:
        paths = _place(variant, self.results).glob("run-*")
        numbers = (path.name.removeprefix("run-") for path in paths)
        return [
            self._run(variant, number)
            for number in sorted(map(int, filter(str.isdecimal, numbers)))
        ]

    def _run(self, variant: Variant, number: int) -> CachedRun:
        place = _place(variant, self.results)
        return CachedRun(
            file=place / _CAMPAIGN,
            system=variant.system,
            seed=self.seed,
            directory=place / f"run-{number}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a :class:`Question`.

    Attributes:
        campaign: The name of the campaign.
        origin: The origin of the campaign that was run, in words.
        failure: The failure that is examined.
        base: The odds of the campaign as it was.
        changes: Those of each change, the best first.
        left: The changes that were not tried.
    """

    campaign: str
    origin: str
    failure: Failure
    base: Odds
    changes: Sequence[Odds]
    left: Sequence[LeftOut]

    @property
    def conclusion(self) -> str:
        """Return what the runs show, in one or two sentences."""
        base, best = self.base, [one.name for one in self.changes if one.rank == 1]
        noun = self.failure.noun
        if not base.runs and not base.inconclusive:
            return "The campaign was not run as it was, so nothing is compared with it."
        if not base.runs:
            return "No run of the campaign as it was is conclusive, so nothing is compared with it."
        if not base.failed:
            return (
                f"The {noun} did not come back in {base.runs} runs of the campaign as it was, so "
                "they say nothing about its cause."
            )
        if best:
            which = "this one reduces" if len(best) == 1 else "these reduce"
            order = "" if len(best) == 1 else " Their order is not shown: their intervals overlap."
            tested = f"Of the changes with enough runs for a test, {which} the {noun} most"
            return f"{tested}: {'; '.join(best)}.{order}"
        needed = runs_needed(len(self.changes))
        many = "one change" if len(self.changes) == 1 else f"{len(self.changes)} changes"
        if base.runs < needed or any(
            one.runs < needed and not hopeless(base, one, needed) for one in self.changes
        ):
            return (
                f"No change is shown to prevent the {noun}. With {many}, fewer "
                f"than {needed} conclusive runs of each cannot show any difference beyond chance: "
                f"continue with --runs {needed}."
            )
        return f"No change is shown to prevent the {noun}."

    @property
    def as_document(self) -> dict[str, Any]:
        """Return the content of ``why.json``."""
        return {
            "version": VERSION,
            "campaign": self.campaign,
            "origin": self.origin,
            "cell": self.failure.cell,
            "guarantee": self.failure.guarantee,
            "conclusion": self.conclusion,
            "as_it_was": _entry(self.base),
            "changes": [_entry(one) for one in self.changes],
            "left_out": [asdict(one) for one in self.left],
            "runs_needed": runs_needed(len(self.changes)),
        }

    def page(self) -> str:
        """Return the page as Markdown."""
        happened = _text(self.failure.happened)
        rows = "".join(self._row(one) for one in (self.base, *self.changes))
        left = "".join(f"- {_text(one.name)}: {_text(one.reason)}\n" for one in self.left)
        not_tried = f"\n## Changes that were not tried\n\n{left}" if left else ""
        return (
            f"# Why {happened} in {_text(self.failure.cell)} of {_text(self.campaign)}\n\n"
            f"{_text(self.conclusion)}\n\n"
            f"| rank | change | {happened} in | against as it was | "
            f"99 % of acks within, faults included | "
            f"inconclusive |\n| --- | --- | --- | --- | --- | --- |\n{rows}\n"
            f"{_text(self.origin)} *k of n*: in k of n runs, {happened}; {_MEANINGS}\n{not_tried}"
        )

    def _row(self, one: Odds) -> str:
        cells = (
            "" if one.rank is None else str(one.rank),
            _text(one.name),
            in_words(one),
            "" if one is self.base else _against(one),
            self.latency(one),
            str(one.inconclusive),
        )
        return f"| {' | '.join(cells)} |\n"

    def latency(self, one: Odds) -> str:
        """Return the time of acks in words, and how it differs from that of the base."""
        if one.p99_ms is None:
            return "unknown"
        told = f"{one.p99_ms / 1000:.1f} s" if one.p99_ms >= 1000 else f"{one.p99_ms:.3g} ms"
        if one is self.base or not self.base.p99_ms:
            return told
        return f"{told} ({100 * (one.p99_ms - self.base.p99_ms) / self.base.p99_ms:+.0f} %)"


_MEANINGS = """\
in brackets the 95 % interval of that probability (Clopper and Pearson). A run without that counts \
if each fault was proven and the evidence suffices, and else is *inconclusive*. A test compares \
each change with the campaign as it was (permutation test; p is that of the test alone). A change \
has a rank if it is shown to help, with all tests together (Tarone, Holm); changes share a rank if \
their intervals overlap. A change is given up when further runs could no longer show that it \
helps. The times of acks are medians of the runs, without a test. New clusters of Kafka 4.1 and \
later have eligible leader replicas."""


def in_words(one: Odds) -> str:
    """Return the odds in words: ``0 of 10 (0 to 31 %)``."""
    if not one.runs:
        return "no conclusive run"
    return f"{one.failed} of {one.runs} ({chance.interval(one.failed, one.runs)})"


def _against(one: Odds) -> str:
    if one.chance is None:
        return "too few runs for a test"
    word = "fewer" if one.rank is not None else "more" if one.differs else "not shown to differ"
    return f"{word}, p = {one.chance:.2g}"


def _entry(one: Odds) -> dict[str, Any]:
    low, high = one.interval or (None, None)
    return {**asdict(one), "low": low, "high": high}


def _text(words: str) -> str:
    """Return a text that does not end its cell of a table and is no markup."""
    return re.sub(r"([|<>&*_`\[\]\\])", r"\\\1", printable(words))


def write(answer: Answer, results: Path) -> Path:
    """Write the page and the document into the directory of the results, and return the path of
    the page. Raises OSError."""
    write_text(results / DOCUMENT, json.dumps(answer.as_document, indent=2) + "\n")
    write_text(results / PAGE, answer.page())
    return results / PAGE
