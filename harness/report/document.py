"""The schema of ``verdict.json``: what each of its names means, said once, for scripts.

``docs/verdict.schema.json`` is made of this (``python docs/generate.py``). A name that goes, or
comes to mean something else, is a new :data:`VERSION`; one that is new is not. Who reads finds
None, or nothing, for what a file of former days lacks.
"""

import json
from functools import cache
from typing import Any

from pydantic import Field

from ackproof.checkers.verdict import Verdict
from ackproof.harness.environment import Machine, Versions
from ackproof.harness.report import outcome
from ackproof.harness.report.cell_document import CellDocument, ConsumptionDocument, Part
from ackproof.history.cell import Value

VERSION = 3

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class ZooKeeperDocument(Part):
    """What a run asked of ZooKeeper; null for what is not known."""

    writes_to_create: int | None = None
    """Transactions while the topics of the cells were made."""
    writes_under_faults: int | None = None
    """Transactions from the first fault until the cluster had recovered."""
    watches: int | None = None
    """That the brokers held when every topic was whole."""


class FailoverDocument(Part):
    """A broker was killed while a topic had so many partitions; null for what is not known."""

    partitions: int
    """How many the topic had."""
    moved: int | None = None
    """How many of them the broker led."""
    led_ms: int | None = None
    """From the kill until a client's metadata named another leader of the last of them."""
    acked_ms: int | None = None
    """From the kill until the last of them acknowledged a record (acks=all)."""
    writes: int | None = None
    """ZooKeeper's transactions meanwhile."""
    watches: int | None = None
    """That the brokers held before."""


class RunDocument(Part):
    """A checked run."""

    number: int
    """From 1."""
    clock_bound_ns: int | None = None
    """How far the clock of whoever sent may be from the harness's at the most; null where that is
    not known."""
    infrastructure_failed: bool
    """Whether it did not come to its end, or a step failed that does nothing to the system under
    test."""
    cluster: dict[str, Value] = {}
    """What of the cluster's settings is swept, with this run's values."""
    zookeeper: ZooKeeperDocument = ZooKeeperDocument()
    """What it asked of ZooKeeper."""
    failovers: tuple[FailoverDocument, ...] = ()
    """What was measured after the final read."""
    duration_s: float | None = None
    """From the beginning of its first step to the end of its last."""


class FaultDocument(Part):
    """A fault of a run, as it happened."""

    run: int
    """The run's number."""
    name: str
    """The fault and its number in the run: `kill#1`."""
    target: str
    """The expression that it was aimed at."""
    servers: tuple[str, ...]
    """Those that it befell."""
    story: str | None = None
    """The story that it is a step of, and which: `crash-loop#1 bounce-2`; null for a fault by
    itself."""
    began: str
    """When it was injected, UTC: `2031-05-17T02:17:00.000Z`."""
    healed: str | None = None
    """When it was proven to be healed; null where it never was."""
    proven: bool | None = None
    """Whether it was proven to have bitten; null where nobody looked."""


class LossDocument(Part):
    """Records of one partition whose cause has to do with the same fault, or, where no cause is
    known, that were acknowledged, sent or shown within its reach: rows of `anomalies.parquet`,
    counted."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name."""
    topic: str
    """Its topic."""
    partition: int
    """The partition's number."""
    fault: str | None
    """The fault, as `kill#1`; several, comma-separated; null: no fault was on."""
    lost: int
    """How many are lost."""
    duplicated: int
    """How many stand in the log twice."""
    vanished: int = 0
    """How often a consumer was shown one that is gone."""


class OpportunityDocument(Part):
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
    """How many acknowledged records of the cell were lost to it. Records whose cause has to do with
    several faults count for the first: together these were one event. `losses` names them all."""


class CauseDocument(Part):
    """Anomalies of one kind and partition that have the same explanation; the autopsy of each is
    in `autopsies.parquet`. Of each anomaly of a partition 20 at the most, the damning ones
    first."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name."""
    anomaly: str = "lost"
    """What became of them: `lost`, `duplicated`, `vanished-read`, `inconsistent-read`,
    `divergent-replicas`."""
    topic: str
    """Its topic."""
    partition: int
    """The partition's number."""
    number: int
    """Of the cause, from 1, of its anomaly in its partition, as in the column `cause` of
    `autopsies.parquet`; 0 of the line that stands for all that are not told."""
    kind: str
    """How it came about. Lost or vanished: `deposed-leader`, `unclean-election`, `lost-from-disk`,
    `cut-before-leading`, `let-in-too-early`, `not-replicated`, `unanswered`, `deduplicated`,
    `below-log-start`. Duplicated: `retried`,
    `retried-at-next-leader`, `new-session`, `renumbered`, `forgotten`. Replicas that differ:
    `not-cut`, `refilled`, `two-leaders`, `damaged`, `not-fetched`, `lost-from-disk`. Any:
    `unexplained`: what was recorded should tell, and does not; `unknown`: it does not suffice;
    `more`: several causes that are not told."""
    sentence: str
    """What happened, in words."""
    records: int
    """How many records; of replicas that differ, offsets."""
    promised: int
    """How many of them break a promise."""
    first_offset: int | None
    """The lowest offset at which one was acked or shown, or which differs; of duplicates, that of
    a first copy; null where the client was told none."""
    last_offset: int | None
    """The highest."""
    first_time: int | None
    """When the first was acked or shown, nanoseconds since 1970; null of replicas."""
    last_time: int | None
    """When the last was."""
    leaders: tuple[int, ...]
    """The brokers that may have acked or appended them; where they are gone, one where that is
    known, none where nothing is."""
    epochs: tuple[int, ...]
    """The leader epochs in which, likewise."""
    next_leader: int | None
    """The broker that led next without them; null where none is known to have."""
    next_epoch: int | None
    """In which leader epoch."""
    next_offset: int | None
    """Where its log ended when it began to lead; null where that is not told."""
    faults: tuple[str, ...]
    """The faults that have to do with it, as `kill#1`."""


class CauseGroupDocument(Part):
    """Causes of a run with the same anomaly, kind and faults, in all its partitions and cells: as
    the report groups them."""

    run: int
    """The run's number."""
    anomaly: str
    """The anomaly of these records, as in `causes`."""
    kind: str
    """The kind of cause, as in `causes`."""
    faults: tuple[str, ...]
    """The faults that have to do with it, as `kill#1`."""
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


class VerdictDocument(Part):
    """What a campaign came to."""

    version: int = 0
    """Of this schema. A name that goes or comes to mean something else makes a new one."""
    campaign: str | None = None
    """The campaign's name."""
    seed: int | None = None
    """What the schedule was drawn from."""
    began: str | None = None
    """When its first run began, UTC: `2031-05-17T02:17:00.000Z`; null where no run did."""
    duration_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """From then to the end of its last run. Checking is not in it."""
    system: str | None = None
    """The system under test, as in the campaign file."""
    metadata_quorum: str | None = None
    """Who kept its metadata: `zookeeper`, `isolated-kraft` or `combined-kraft`; null where nobody
    can tell."""
    backend: str | None = None
    """Where it ran, as in the campaign file."""
    versions: Versions = Versions()
    """What it ran with, as far as that was recorded when it began."""
    machine: Machine | None = None
    """The harness's machine; null where that was not recorded."""
    command: str | None = None
    """What repeats it, with the same faults at the same times."""
    verdict: Verdict
    """The worst of what its cells count as: fail, then inconclusive, then pass. An expected verdict
    that came is a pass, another one a failure; so is a threshold that is not met."""
    cells: tuple[CellDocument, ...]
    """Every cell of every run."""
    exit_status: int | None = None
    """What `ackproof run` exits with: 0 passed or not guaranteed, 1 a guarantee was broken, 3
    inconclusive, 4 an expectation was not met, 5 the infrastructure failed."""
    anomalies: dict[str, int | None] = {}
    """Rows of `anomalies.parquet` by name; null where there are none and not every cell that may
    have them was checked for them."""
    findings: tuple[str, ...] = ()
    """What else a reader must know, one sentence each."""
    baseline: bool = False
    """Whether the campaign says that it breaks nothing, and did not."""
    skipped: tuple[str, ...] = ()
    """What the campaign would have broken besides and the place refused, and why
    (`--skip-refused`): of that the verdict says nothing."""
    plugins: dict[str, str] = {}
    """The plug-ins whose objects it used, each with its version."""
    runs: tuple[RunDocument, ...] = ()
    """The runs that were begun."""
    faults: tuple[FaultDocument, ...] = ()
    """What was broken, by run and time."""
    losses: tuple[LossDocument, ...] = ()
    """What was lost, duplicated, and shown and gone, by partition and fault."""
    opportunities: tuple[OpportunityDocument, ...] | None = None
    """The faults that could have lost records of a cell, those that lost none among them; of cells
    of which it is known what was lost. Null where the history of a run cannot be read."""
    causes: tuple[CauseDocument, ...] = ()
    """Why records were lost, duplicated or vanished, and why replicas differ: what breaks a promise
    first, then what nothing explains; what the settings let expect last."""
    cause_groups: tuple[CauseGroupDocument, ...] = ()
    """The same causes in groups of equal anomaly, kind and faults, each group where its first cause
    stands."""
    consumption: ConsumptionDocument = ConsumptionDocument()
    """Counts of consumers, client by client and group by group."""
    files: dict[str, str] = {}
    """SHA-256 of the files beside it that say the same at greater length, or that it rests on, by
    their path from here. Where one of them was changed since, it is refused."""
    sha256: str | None = None
    """SHA-256 of all else in here, as JSON with sorted names and without spaces. Where it is
    another one, the document was edited, and is refused."""

    @property
    def kind(self) -> Verdict:
        """The verdict whose colours it has."""
        return outcome.kind(self.verdict, self.exit_status)

    @property
    def words(self) -> str:
        """The verdict, and what it does not say."""
        checked = outcome.guarantees_checked(self.cells)
        return outcome.in_short(self.verdict, self.exit_status, checked)


@cache
def schema() -> dict[str, Any]:
    """As it is written: nothing that is named is missing."""
    return schema_of(VerdictDocument, "Ackproof verdict", VERSION)


def schema_of(document: type[Part], title: str, version: int) -> dict[str, Any]:
    """The JSON Schema of a document of this ``version``, as it is written."""
    made = document.model_json_schema(mode="serialization")
    for part in (made, *made["$defs"].values()):
        part.pop("title", None)
        part["description"] = _one_line(part["description"])
        for one in part.get("properties", {}).values():
            one.pop("title", None)
            one.pop("default", None)  # of files of former days; what is written now has every name
            one["description"] = _one_line(one["description"])
    made["properties"]["version"]["const"] = version
    return {"$schema": _DIALECT, "title": title, **made}


def as_text() -> str:
    """The schema as a file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
