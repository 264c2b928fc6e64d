"""``verdict.json``: the verdict of a campaign for scripts, and the result that is read back from
it.

The names are a contract on which scripts depend. :mod:`harness.report.document` defines their
meanings. A cell's settings are beside its numbers, under Kafka's names, and so are the swept
settings of its cluster. ``expected`` is null, a verdict, or a list of accepted ones.

A document that was edited, or that is made of two, is refused, because nothing in it can be
trusted. These parts are compared: the verdicts with the counts, the counts with
``anomalies.parquet``, the cells with the manifest, and the faults with the histories.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from ackproof.checkers import thresholds
from ackproof.checkers.guarantees.table import NO_LOSS
from ackproof.checkers.root_cause.rows import FILE as ROOT_CAUSES_FILE
from ackproof.checkers.root_cause.rows import FORMER_FILE
from ackproof.checkers.verdict import CampaignResult, CellResult, Verdict
from ackproof.harness.campaign.model.values import several
from ackproof.harness.directory import CAMPAIGN_FILE, DamagedResults
from ackproof.harness.exit_status import exit_status, status_of
from ackproof.harness.report import losses
from ackproof.harness.report.about import About, moment
from ackproof.harness.report.causes import grouped
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.document import VERSION, VerdictDocument
from ackproof.harness.report.leading_causes import SHOWN_MAX, LeadingCause
from ackproof.harness.report.losses import ANOMALIES_FILE
from ackproof.harness.report.opportunities import Exposure, opportunities
from ackproof.harness.report.rows import known_anomalies
from ackproof.harness.report.timeline import FaultSpan
from ackproof.history import manifest, reader
from ackproof.history.cell import SETTINGS, Value
from ackproof.history.errors import HistoryError
from ackproof.history.messages import in_words, printable
from ackproof.history.storage import AnyPath, digest, matching, write_text
from ackproof.infra.systems import quorum_of

# --- verdict.json ---------------------------------------------------------------------------------

FILE = "verdict.json"

_RESULT = TypeAdapter(CampaignResult)
_OF_A_CELL = {field.name for field in fields(CellResult)}


def to_document(
    campaign: Mapping[str, Any],
    result: CampaignResult,
    about: About | None = None,
    losses: Sequence[Mapping[str, Any]] = (),
    exposure: Sequence[Exposure] | None = None,
    *,
    leading: Sequence[LeadingCause] = (),
) -> dict[str, Any]:
    """Return the content of ``verdict.json``.

    Args:
        campaign: The resolved campaign, for name, seed and system.
        result: The result of the checkers.
        about: The circumstances of the run; unknown without it.
        losses: The lost and duplicated records, by partition and fault.
        exposure: The events at which a cell could have lost data, by fault; None if unknown.
        leading: The causes of the verdict, the most important first.
    """
    told = about or About()
    clusters = {run.number: run.cluster for run in result.runs}
    return {
        "version": VERSION,
        "campaign": campaign.get("name"),
        "seed": campaign.get("seed"),
        "began": None if told.began is None else moment(told.began),
        "duration_s": told.duration_s,
        **_place(campaign),
        **told.environment.model_dump(),
        "command": told.command,
        "exit_status": int(exit_status(result)),
        **asdict(result),
        "anomalies": known_anomalies(result),
        "cells": [_cell(asdict(cell), clusters.get(cell.run, {})) for cell in result.cells],
        "runs": [{**asdict(run), "duration_s": told.run_s(run.number)} for run in result.runs],
        "faults": [
            _fault(number, span) for number, spans in sorted(told.faults.items()) for span in spans
        ],
        "losses": list(losses),
        "leading_causes": [one.as_document for one in leading[:SHOWN_MAX]],
        "cause_groups": [group.as_document for group in grouped(result.causes)],
        "opportunities": None
        if exposure is None
        else [asdict(one) for one in opportunities(exposure)],
        "exposure": None if exposure is None else [asdict(one) for one in exposure],
    }


def from_document(document: Mapping[str, Any]) -> CampaignResult:
    """Return the result that was written. Raises ValueError if the document is not a verdict."""
    try:
        clusters = {run["number"]: run.get("cluster", {}) for run in document.get("runs", ())}
        cells = [_gathered(cell, clusters.get(cell.get("run"), {})) for cell in document["cells"]]
        rows = {name: count or 0 for name, count in document["anomalies"].items()}
        return _RESULT.validate_python({**document, "anomalies": rows, "cells": cells})
    except KeyError as error:
        raise ValueError(f"{error.args[0]}: is missing") from None
    except (TypeError, AttributeError):
        raise ValueError("it is not the verdict of a campaign") from None


def read_document(file: AnyPath) -> VerdictDocument:
    """Return the whole document, of any version up to the present one. Raises FileNotFoundError if
    it is missing, and DamagedResults if it cannot be trusted."""
    return _read(file)[1]


def write(directory: AnyPath, document: Mapping[str, Any]) -> None:
    """Write the document with its seal. A new file is renamed into place, so that a reader never
    sees half of it."""
    content = sealed(directory, document)
    write_text(directory / FILE, json.dumps(content, indent=2) + "\n")


def read(directory: AnyPath, *, whole: bool = False) -> CampaignResult | None:
    """Return the result that was written into this directory, or None if there is none. Raises
    DamagedResults if it cannot be trusted. With ``whole``, also if a file is missing that the check
    wrote beside it, or that the result rests on."""
    file = directory / FILE
    try:
        content, _ = _read(file)
    except FileNotFoundError:
        return None
    if whole and (lacking := list(missing(directory, content))):
        raise DamagedResults(directory, lacking)
    try:
        return from_document(content)
    except ValueError as error:
        raise DamagedResults(directory, [f"{FILE}: {in_words(error)}"]) from None


def _read(file: AnyPath) -> tuple[Mapping[str, Any], VerdictDocument]:
    """Return a document as it is written and as it is parsed, if it can be trusted. All readers use
    this function. Raises FileNotFoundError, DamagedResults."""
    directory = file.parent
    try:
        content = _content(file)
        document = VerdictDocument.model_validate(content)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedResults(directory, [f"{FILE}: {error.strerror or error}"]) from None
    except RecursionError:
        raise DamagedResults(directory, [f"{FILE}: it is nested too deeply"]) from None
    except ValueError as error:
        raise DamagedResults(directory, [f"{FILE}: {in_words(error)}"]) from None
    wrong = [f"{FILE} contradicts itself: {one}" for one in in_document(document)]
    changed = list(broken(directory, content))
    if changed or not is_sealed(content):
        wrong += with_results(directory, document)
    if wrong or changed:
        raise DamagedResults(directory, [*wrong, *changed])
    return content, document


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape sequence of JSON that is half of a character, and may lack its other half."""


def _content(file: AnyPath) -> Any:
    """Return the JSON content of the file. Raises OSError, ValueError, RecursionError."""
    text = file.read_text(encoding="utf-8")
    content = json.loads(text, parse_constant=_refuse_constant)
    if _SURROGATE.search(text):
        json.dumps(content, ensure_ascii=False).encode()  # a lone surrogate cannot be written
    if isinstance(content, Mapping):
        _refuse_newer(content)
    return content


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _refuse_newer(document: Mapping[str, Any]) -> None:
    version = document.get("version", 0)
    if not isinstance(version, int) or version > VERSION:
        raise ValueError(
            f"its version is {version}, but this Ackproof supports versions up to {VERSION}"
        )


def _place(campaign: Mapping[str, Any]) -> dict[str, Any]:
    cluster = campaign.get("cluster")
    known = cluster if isinstance(cluster, Mapping) else {}
    system, backend = known.get("system"), known.get("backend")
    return {"system": system, "metadata_quorum": quorum_told(known), "backend": backend}


def quorum_told(cluster: object) -> str | None:
    """Return the kind of metadata quorum of a campaign's ``cluster``, or None if it is unknown."""
    known = cluster if isinstance(cluster, Mapping) else {}
    try:
        quorum = quorum_of(str(known.get("system")), known.get("metadata.quorum"))
    except ValueError:
        return None
    return None if quorum is None else quorum.value


def _cell(result: dict[str, Any], cluster: Mapping[str, Value]) -> dict[str, Any]:
    cell = result.pop("settings")
    expected = result["expected"]
    result["expected"] = expected if len(expected) > 1 else next(iter(expected), None)
    named = {"run": result.pop("run"), "cell": cell["name"], "topic": cell["topic"]}
    # If a broker's min.insync.replicas is swept, the one that each topic has of its own counts.
    return {**named, **cluster, **cell["settings"], **result}


def _gathered(document: Mapping[str, Any], cluster: Mapping[str, Value]) -> dict[str, Any]:
    other = {"cell", "topic", *_OF_A_CELL, *(cluster.keys() - SETTINGS.keys())}
    settings = {name: value for name, value in document.items() if name not in other}
    cell = {"name": document["cell"], "topic": document["topic"], "settings": settings}
    expected = document.get("expected")
    return {
        **{name: document[name] for name in document.keys() & _OF_A_CELL},
        # An older file does not say which guarantees were checked. One of unknown result was not.
        "guarantees": [{"checked": g["held"] is not None, **g} for g in document["guarantees"]],
        "settings": cell,
        "expected": () if expected is None else several(expected),
    }


def _fault(run: int, span: FaultSpan) -> dict[str, Any]:
    part = span.part
    return {
        "run": run,
        "name": span.label,
        "target": span.target,
        "servers": list(span.servers),
        "story": None if part is None else f"{part.story} {part.step}",
        "began": moment(span.start),
        "healed": None if span.end is None else moment(span.end),
        "injected": span.injected,
        "proven": span.proven,
    }


# --- the seal -------------------------------------------------------------------------------------
#
# ``sha256`` is the digest of everything else in the document. ``files`` holds the digest of each
# file beside it that has its details, or on which the document rests. A forger can make a new seal.
# The seal reveals an edited file, half a file, and a file of another check.

SHA256 = "sha256"
_BESIDE = (ANOMALIES_FILE, ROOT_CAUSES_FILE, FORMER_FILE, manifest.FILE, CAMPAIGN_FILE)
_FAULTS = "runs/*/history/faults.*"


def sealed(directory: AnyPath, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the digests of the files of its results, and with its own."""
    content = {**document, "files": _digests(directory)}
    return {**content, SHA256: _own(content)}


def is_sealed(content: Mapping[str, Any]) -> bool:
    """Return whether a document has a seal. Documents of the first versions have none."""
    return SHA256 in content


def broken(directory: AnyPath, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield each change since a document was sealed: of the document or of a file of its results.
    Files that do not exist are ignored."""
    if is_sealed(content) and content[SHA256] != _own(content):
        yield "verdict.json was changed after the check wrote it"
    for name, known in _files(content).items():
        path = directory / name
        with suppress(OSError):
            if path.is_file() and digest(path) != known:
                yield f"{name} was changed after the check"


def missing(directory: AnyPath, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files of a sealed document that no longer exist."""
    for name in _files(content):
        if not (directory / name).is_file():
            yield f"{name} is missing"


def _files(content: Mapping[str, Any]) -> Mapping[str, Any]:
    files = content.get("files")
    return files if isinstance(files, Mapping) else {}


def _digests(directory: AnyPath) -> dict[str, str]:
    depth = len(directory.parts)
    faults = ["/".join(path.parts[depth:]) for path in matching(directory, _FAULTS)]
    found = {}
    for name in (*_BESIDE, *faults):
        with suppress(OSError):  # a file that cannot be read now cannot be relied on later
            if printable(name) == name and (directory / name).is_file():
                found[name] = digest(directory / name)
    return found


def _own(content: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != SHA256}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# --- contradictions -------------------------------------------------------------------------------

_RECORDS = ("sent", "acked", "failed", "indeterminate", "lost", "duplicated", "reordered")
_RECORDS_MAX = 2**63
_COUNTED = ("lost", "duplicated", "reordered")
"""The counts of a cell that are rows of ``anomalies.parquet``, under the same name."""


def in_document(document: VerdictDocument) -> Iterator[str]:
    """Yield the contradictions of a document with itself."""
    yield from _counts(document.cells)
    for cell in document.cells:
        yield from _in_cell(cell)
    yield from _in_verdicts(document)
    for name in _COUNTED if document.cells else ():
        total = sum(getattr(cell, name) or 0 for cell in document.cells)
        if name in document.anomalies and (document.anomalies[name] or 0) != total:
            yield (
                f"it counts {_short(document.anomalies[name] or 0)} {name} records under "
                f"anomalies, but {_short(total)} in its cells"
            )


def with_results(directory: AnyPath, document: VerdictDocument) -> Iterator[str]:
    """Yield the contradictions between a document and the other files of its results, as far as
    these can be read."""
    yield from _with_anomalies(directory, document)
    yield from _with_manifest(directory, document)
    for run in document.runs if document.version == VERSION else ():
        yield from _with_history(directory, document, run.number)


def _counts(cells: Sequence[CellDocument]) -> Iterator[str]:
    """Yield the numbers of records that no run can have."""
    for (run, name), times in Counter((cell.run, cell.cell) for cell in cells).items():
        if times > 1:
            yield f"{name} of run {run} occurs {times} times"
    for cell in cells:
        counts = {name: getattr(cell, name) for name in _RECORDS}
        known = {name: count for name, count in counts.items() if count is not None}
        for name, count in known.items():
            if not 0 <= count < _RECORDS_MAX:
                yield f"{cell.cell} has {_short(count)} {name} records"
        if known.get("lost", 0) > cell.acked:
            yield (
                f"{cell.cell} lost {_short(known['lost'])} of only {_short(cell.acked)} "
                "acked records"
            )


def _short(count: int) -> str:
    """Return a number as a short text, however large it is."""
    return f"{count:,}" if abs(count) < _RECORDS_MAX else "more than 2^63"


def _in_cell(cell: CellDocument) -> Iterator[str]:
    """Yield the contradictions between a cell's verdict, its guarantees and its counts."""
    broken = ", ".join(one.name for one in cell.guarantees if one.broken)
    if broken and cell.verdict is not Verdict.FAIL:
        yield f"{cell.cell} is {cell.verdict.value}, but broke {broken}"
    if cell.lost and cell.verdict is Verdict.PASS:
        yield f"{cell.cell} is pass, but lost {_short(cell.lost)} records"
    for one in cell.guarantees:
        if one.broken and one.held:
            yield f"{cell.cell} held {one.name}, but broke it {_short(one.broken)} times"
        if one.name == NO_LOSS and one.promised and one.held and cell.lost:
            yield f"{cell.cell} held {one.name}, but lost {_short(cell.lost)} records"
        if one.name == NO_LOSS and cell.lost is not None and one.broken > cell.lost:
            yield (
                f"{cell.cell} broke {one.name} {_short(one.broken)} times, but lost "
                f"{_short(cell.lost)} records"
            )

    for limit in cell.thresholds:
        undecided = cell.verdict is Verdict.INCONCLUSIVE
        if not thresholds.is_consistent(limit, cell) or (undecided and limit.met):
            yield (
                f"the threshold on {limit.measure} of {cell.cell} does not agree with the "
                "measured value"
            )


def _in_verdicts(document: VerdictDocument) -> Iterator[str]:
    """Yield the contradictions between the verdict of the campaign and those of its cells."""
    verdict, cells = document.verdict, document.cells
    seen = {cell.counts_as: cell.cell for cell in reversed(cells)}
    failed = seen.get(Verdict.FAIL)
    if failed is not None and verdict is not Verdict.FAIL:
        yield f"the verdict is {verdict.value}, but {failed} counts as failed"
    if cells and failed is None and verdict is Verdict.FAIL:
        yield "the verdict is fail, but no cell counts as failed"
    undecided = seen.get(Verdict.INCONCLUSIVE)
    decided = verdict in (Verdict.PASS, Verdict.NOT_GUARANTEED)
    if undecided is not None and decided:
        yield f"the verdict is {verdict.value}, but {undecided} is inconclusive"
    if cells and decided and verdict not in seen:
        yield f"the verdict is {verdict.value}, but no cell is"
    status = status_of(
        verdict,
        [cell.is_broken for cell in cells if cell.counts_as is Verdict.FAIL],
        infrastructure_failed=any(run.infrastructure_failed for run in document.runs),
    )
    if document.exit_status not in (None, status):
        yield f"its exit status is not {status.value}, which its cells require"


def _with_anomalies(directory: AnyPath, document: VerdictDocument) -> Iterator[str]:
    """Yield the differences between the rows of ``anomalies.parquet`` and the counts."""
    try:
        rows = losses.counts(directory)
    except HistoryError:
        return
    for name, count in document.anomalies.items():
        found = sum(rows[key] for key in rows if key[2] == name)
        if found != (count or 0):
            yield (
                f"{losses.ANOMALIES_FILE} has {found:,} rows of {name}, but the verdict "
                f"counts {_short(count or 0)}"
            )
    for cell in document.cells:
        for name in _COUNTED:
            found, count = rows[cell.run, cell.cell, name], getattr(cell, name) or 0
            if found != count:
                yield (
                    f"{losses.ANOMALIES_FILE} has {found:,} rows of {name} of {cell.cell} in "
                    f"run {cell.run}, but the verdict counts {_short(count)}"
                )


def _with_manifest(directory: AnyPath, document: VerdictDocument) -> Iterator[str]:
    """Yield the cells that are planned or judged, but not both."""
    try:
        planned = manifest.read(directory)
    except HistoryError:
        return
    wanted = {(run.number, one.cell.name) for run in planned.runs for one in run.cells}
    judged = {(cell.run, cell.cell) for cell in document.cells}
    yield from _unlike(wanted, judged, f"{manifest.FILE} plans the cell", "the verdict judges")
    yield from _unlike(judged, wanted, "the verdict judges the cell", f"{manifest.FILE} plans")


def _unlike(
    some: Collection[tuple[int, str]], others: Collection[tuple[int, str]], has: str, not_: str
) -> Iterator[str]:
    for run, name in sorted(set(some) - set(others)):
        yield f"{has} {name} of run {run}, but {not_} no such cell"


def _with_history(directory: AnyPath, document: VerdictDocument, run: int) -> Iterator[str]:
    """Yield the differences between the faults of a run and those of its history."""
    history = directory / "runs" / str(run) / "history"
    if not history.is_dir():
        return
    try:
        rows: Iterable[Mapping[str, object]] = reader.read(
            history, "faults", ["fault_id", "fault"]
        ).to_pylist()
    except (HistoryError, OSError, pa.ArrowException):
        return
    recorded = {f"{row['fault']}#{row['fault_id']}" for row in rows}
    told = {fault.name for fault in document.faults if fault.run == run}
    for name in sorted(recorded - told):
        yield f"the history of run {run} has the fault {name}, but the verdict does not"
    for name in sorted(told - recorded):
        yield f"the verdict has the fault {name} in run {run}, but the history does not"
