"""The schema of ``verdict.json``, with the meaning of each of its names, for scripts.

``docs/verdict.schema.json`` is generated from it (``python docs/generate.py``). Removing a name or
changing its meaning needs a new :data:`VERSION`; adding one does not. Readers of an older file get
None, or nothing, for names that it lacks.
"""

import json
from functools import cache
from typing import Any

from pydantic import Field

from ackproof.checkers.verdict import Verdict
from ackproof.harness.environment import Machine, Versions
from ackproof.harness.report import outcome
from ackproof.harness.report.cell_document import CellDocument, ConsumptionDocument, DocumentPart
from ackproof.history.cell import Value

VERSION = 3

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class ZooKeeperDocument(DocumentPart):
    """The load of a run on ZooKeeper; null for what is unknown."""

    writes_to_create: int | None = None
    """Transactions during the creation of the cells' topics."""
    writes_under_faults: int | None = None
    """Transactions from the first fault until the cluster had recovered."""
    watches: int | None = None
    """Watches that the brokers held when every topic had a full ISR."""


class FailoverDocument(DocumentPart):
    """The effect of killing a broker while a topic had so many partitions; null for what is
    unknown."""

    partitions: int
    """The number of the topic's partitions."""
    moved: int | None = None
    """The number of partitions that the broker led."""
    led_ms: int | None = None
    """The time from the kill until a client's metadata named another leader of the last of them."""
    acked_ms: int | None = None
    """The time from the kill until the last of them acknowledged a record (acks=all)."""
    writes: int | None = None
    """ZooKeeper's transactions in that time."""
    watches: int | None = None
    """Watches that the brokers held before."""


class RunDocument(DocumentPart):
    """A checked run."""

    number: int
    """The run's number, from 1."""
    clock_bound_ns: int | None = None
    """The largest possible difference between the clock of a sending client and the harness's; null
    if it is unknown."""
    infrastructure_failed: bool
    """Whether it did not come to its end, or a step failed that does nothing to the system under
    test."""
    cluster: dict[str, Value] = {}
    """The swept settings of the cluster, with this run's values."""
    zookeeper: ZooKeeperDocument = ZooKeeperDocument()
    """Its load on ZooKeeper."""
    failovers: tuple[FailoverDocument, ...] = ()
    """The failovers that were measured after the final read."""
    duration_s: float | None = None
    """The time from the beginning of its first step to the end of its last."""


class FaultDocument(DocumentPart):
    """A fault of a run, as it happened."""

    run: int
    """The run's number."""
    name: str
    """The fault and its number in the run: `kill#1`."""
    target: str
    """The expression of its target."""
    servers: tuple[str, ...]
    """The affected servers."""
    story: str | None = None
    """The story and the step that it is: `crash-loop#1 bounce-2`; null for a fault by itself."""
    began: str
    """The time of its injection, UTC: `2031-05-17T02:17:00.000Z`."""
    healed: str | None = None
    """The time at which it was proven to be healed; null without that proof."""
    injected: bool | None = None
    """Whether its injection ended without an error; null in files of earlier versions."""
    proven: bool | None = None
    """Whether it was proven to have taken effect; null if that was not checked."""


class LossDocument(DocumentPart):
    """Records of one partition whose cause involves the same fault, or, without a known cause, that
    were acknowledged, sent or read within its reach: rows of `anomalies.parquet`, counted."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name."""
    topic: str
    """The cell's topic."""
    partition: int
    """The partition's number."""
    fault: str | None
    """The fault, as `kill#1`; several, comma-separated; null: no fault was active."""
    lost: int
    """The number of lost records."""
    duplicated: int
    """The number of records that are in the log more than once."""
    vanished: int = 0
    """The number of reads of records that are gone."""


class OpportunityDocument(DocumentPart):
    """A fault that could have cost a cell acknowledged records: it changed a leader of the cell's
    topic, or destroyed data of it, while records were acknowledged. One fault is one opportunity,
    however many partitions it reached."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name."""
    fault: str | None
    """The fault, as `kill#1`; null for losses without a fault."""
    lost: int
    """The number of acknowledged records of the cell that were lost to it. Records whose cause
    involves several faults count for the first, because together these were one event. `losses`
    names them all."""


class ExposureDocument(DocumentPart):
    """The events of one kind that a fault of a run caused for a cell while it had acknowledgements:
    from the second before the fault began until the event, or from 30 seconds before for lost disks
    and truncations."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name."""
    kind: str
    """The kind: `leader changes`, `lost disks`, `truncations`, `coordinator changes`, `fenced
    producers`; `no event seen` of a fault that lost records without a leader change or a lost
    disk."""
    fault: str | None
    """The fault, as `kill#1`; null for losses without a fault, and where `events` is null."""
    events: int | None
    """The number of events: leader changes of partitions, destroyed data of the topic (1),
    truncations of replicas, leader changes of the coordinators' topics, new instances of producers.
    Null if the run does not say how many there were."""
    lost: int
    """The number of the cell's losses that are attributed to the fault, or to several of which it
    is the first: records; of `coordinator changes`, `commit-lost`, `commit-regressed`,
    `lost-commit` and `torn-transaction`; of `fenced producers`, `zombie-write`, `lost-commit` and
    `torn-transaction`."""


class CauseDocument(DocumentPart):
    """Anomalies of one kind and partition that have the same explanation. The analysis of each is
    in `root-causes.parquet`. There are at most 20 for each anomaly of a partition, those that break
    a guarantee first."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name."""
    anomaly: str = "lost"
    """The anomaly: `lost`, `duplicated`, `vanished-read`, `inconsistent-read` or
    `divergent-replicas`."""
    topic: str
    """The cell's topic."""
    partition: int
    """The partition's number."""
    number: int
    """The number of the cause, from 1, of its anomaly in its partition, as in the column `cause` of
    `root-causes.parquet`; 0 for the line that stands for all causes that are not listed."""
    kind: str
    """The kind of the cause. Lost or vanished: `deposed-leader`, `unclean-election`,
    `lost-from-disk`, `cut-before-leading`, `let-in-too-early`, `not-replicated`, `unanswered`,
    `deduplicated`, `below-log-start`, `deleted-too-early`, `tombstone-too-early`. Duplicated:
    `retried`, `retried-at-next-leader`, `new-session`, `renumbered`, `forgotten`. Replicas that
    differ: `not-cut`, `refilled`, `two-leaders`, `damaged`, `not-fetched`, `lost-from-disk`. Any:
    `unexplained`: the recorded evidence should show the cause, and does not; `unknown`: the
    evidence does not suffice; `more`: several causes that are not listed."""
    sentence: str
    """The explanation in words."""
    records: int
    """The number of records; of replicas that differ, the number of offsets."""
    promised: int
    """The number of them that break a guarantee."""
    first_offset: int | None
    """The lowest offset at which one was acked or read, or which differs; of duplicates, that of a
    first copy; null if the client received no offset."""
    last_offset: int | None
    """The highest such offset."""
    first_time: int | None
    """The time at which the first was acked or read, in nanoseconds since 1970; null for
    replicas."""
    last_time: int | None
    """The time of the last."""
    leaders: tuple[int, ...]
    """The brokers that may have acked or appended them. For records that are gone it is one broker,
    or none if it is unknown."""
    epochs: tuple[int, ...]
    """The leader epochs in which they may have done so."""
    next_leader: int | None
    """The broker that led next without them; null if it is unknown."""
    next_epoch: int | None
    """The leader epoch of that broker."""
    next_offset: int | None
    """The end of its log when it began to lead; null if it is unknown."""
    isr_before: tuple[int, ...] = ()
    """The last ISR that was observed before that broker led; empty if it is unknown."""
    faults: tuple[str, ...]
    """The faults that are involved, as `kill#1`."""


class CauseGroupDocument(DocumentPart):
    """Causes of a run with the same anomaly, kind and faults, in all its partitions and cells: as
    the report groups them."""

    run: int
    """The run's number."""
    anomaly: str
    """The anomaly of these records, as in `causes`."""
    kind: str
    """The kind of cause, as in `causes`."""
    faults: tuple[str, ...]
    """The faults that are involved, as `kill#1`."""
    sentence: str
    """The explanation of the cause with the most detail."""
    records: int
    """The number of records of all these causes."""
    promised: int
    """The number of these records whose loss or change breaks a guarantee."""
    cells: dict[str, int]
    """The number of these records in each cell."""
    partitions: tuple[str, ...]
    """The partitions of these records, as `t-0`."""


class LeadingCauseDocument(DocumentPart):
    """A cause of the verdict, over all its cells, anomalies and guarantees. The top of the report
    and the end of the terminal show it."""

    verdict: Verdict
    """The worst verdict of its cells."""
    sentence: str
    """The cause, its extent and its faults, in one sentence."""
    run: int | None
    """The run's number; null if it concerns several."""
    cells: tuple[str, ...]
    """The names of its cells."""
    records: int
    """The number of records or other anomalies that break a guarantee, or make a cell come out
    unlike expected; 0 if it is no cause of anomalies."""
    faults: tuple[str, ...]
    """The faults that are involved, as `kill#1`; without a root cause, those of the first
    anomaly."""
    guarantees: tuple[str, ...]
    """The guarantees that it broke."""
    kinds: tuple[str, ...]
    """The kinds of its root causes, as in `causes`; empty without a root cause."""
    remedies: tuple[str, ...] = ()
    """The advice of Kafka's documentation against it: a setting, or that there is none. There are
    several if the settings of its cells differ, and none if the root cause is not known."""
    example: str = ""
    """Without a root cause: the meaning of the anomaly, and what was seen first. Else empty."""


class VerdictDocument(DocumentPart):
    """The result of a campaign."""

    version: int = 0
    """The version of this schema. Removing a name or changing its meaning makes a new version."""
    campaign: str | None = None
    """The campaign's name."""
    seed: int | None = None
    """The seed of the schedule."""
    began: str | None = None
    """The time at which its first run began, UTC: `2031-05-17T02:17:00.000Z`; null without a
    run."""
    duration_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The time from then to the end of its last run, without the check."""
    system: str | None = None
    """The system under test, as in the campaign file."""
    metadata_quorum: str | None = None
    """The metadata quorum: `zookeeper`, `isolated-kraft`, `combined-kraft` or `dynamic-kraft`; null
    if it is unknown."""
    backend: str | None = None
    """The backend, as in the campaign file."""
    versions: Versions = Versions()
    """The versions that it ran with, as far as they were recorded when it began."""
    machine: Machine | None = None
    """The harness's machine; null if it was not recorded."""
    command: str | None = None
    """The command that repeats it, with the same faults at the same times."""
    verdict: Verdict
    """The worst of the verdicts that its cells count as: fail, then inconclusive, then pass. A cell
    with an expected verdict counts as a pass, and one with another verdict as a failure. A
    threshold that is not met is a failure, too."""
    cells: tuple[CellDocument, ...]
    """Every cell of every run."""
    exit_status: int | None = None
    """The exit status of `ackproof run`: 0 passed or not guaranteed, 1 a guarantee was broken, 3
    inconclusive, 4 an expectation was not met, 5 the infrastructure failed."""
    anomalies: dict[str, int | None] = {}
    """Rows of `anomalies.parquet` by name; null if there are none and not every cell that may have
    them was checked for them."""
    findings: tuple[str, ...] = ()
    """Further facts that a reader must know, one sentence each."""
    baseline: bool = False
    """Whether the campaign is a baseline: it declares no faults, and none was injected."""
    skipped: tuple[str, ...] = ()
    """The faults and other parts of the campaign that the backend refused, and the reasons
    (`--skip-refused`). The verdict says nothing about them."""
    plugins: dict[str, str] = {}
    """The plug-ins whose objects it used, each with its version."""
    runs: tuple[RunDocument, ...] = ()
    """The runs that were begun."""
    faults: tuple[FaultDocument, ...] = ()
    """The injected faults, by run and time."""
    losses: tuple[LossDocument, ...] = ()
    """The lost, duplicated and vanished records, by partition and fault."""
    opportunities: tuple[OpportunityDocument, ...] | None = None
    """The faults that could have lost records of a cell, including those that lost none. Only cells
    are included whose lost records are known. Null if the history of a run cannot be read."""
    exposure: tuple[ExposureDocument, ...] | None = None
    """The events at which a cell could have lost acknowledged data, by kind and fault. Null if the
    history of a run cannot be read, and in files of earlier versions."""
    causes: tuple[CauseDocument, ...] = ()
    """The causes of lost, duplicated and vanished records and of differing replicas: first those
    that break a guarantee, then the unexplained ones, and last those that the settings permit."""
    cause_groups: tuple[CauseGroupDocument, ...] = ()
    """The same causes, grouped by anomaly, kind and faults. The groups are ordered by their first
    cause."""
    leading_causes: tuple[LeadingCauseDocument, ...] = ()
    """At most five causes of the verdict, the most important first. There are none if every cell
    came out as it should."""
    consumption: ConsumptionDocument = ConsumptionDocument()
    """Counts of consumers, client by client and group by group."""
    files: dict[str, str] = {}
    """SHA-256 of the files beside it that hold its details, or that it rests on, by their path from
    here. The document is refused if one of them was changed since."""
    sha256: str | None = None
    """SHA-256 of everything else in this document, as JSON with sorted names and without spaces. A
    document with another one was edited, and is refused."""

    @property
    def kind(self) -> Verdict:
        """Return the verdict that decides the colour."""
        return outcome.kind(self.verdict, self.exit_status)

    @property
    def words(self) -> str:
        """Return the verdict with its qualifications."""
        checked = outcome.guarantees_checked(self.cells)
        return outcome.in_short(self.verdict, self.exit_status, checked)


@cache
def schema() -> dict[str, Any]:
    """Return the schema of a document as it is written, in which no name is missing."""
    return schema_of(VerdictDocument, "Ackproof verdict", VERSION)


def schema_of(document: type[DocumentPart], title: str, version: int) -> dict[str, Any]:
    """Return the JSON Schema of a document of this ``version``, as it is written."""
    made = document.model_json_schema(mode="serialization")
    for part in (made, *made["$defs"].values()):
        part.pop("title", None)
        part["description"] = _one_line(part["description"])
        for one in part.get("properties", {}).values():
            one.pop("title", None)
            one.pop("default", None)  # only older files lack names
            one["description"] = _one_line(one["description"])
    made["properties"]["version"]["const"] = version
    return {"$schema": _DIALECT, "title": title, **made}


def as_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
