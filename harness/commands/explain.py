"""``ackproof explain``: the meaning of a word of a report, and the picture of one of its
anomalies."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.padding import Padding
from rich.text import Text

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.guarantees.decisions import guarantees
from ackproof.checkers.guarantees.table import GUARANTEES
from ackproof.checkers.interface import NO
from ackproof.checkers.thresholds import MEASURES
from ackproof.checkers.verdict import CampaignResult, Verdict
from ackproof.config.suggestions import unknown
from ackproof.harness import directory as places
from ackproof.harness.commands import options
from ackproof.harness.commands.catalogues import (
    client_entry,
    fault_entry,
    system_entry,
    workload_entry,
)
from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.console import console
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report import require_runs, verdict
from ackproof.harness.report.causes import WHAT, grouped
from ackproof.harness.report.pictures import drawn
from ackproof.harness.report.pictures.rendering import text
from ackproof.harness.report.remedies import remedy
from ackproof.harness.report.rows import rows
from ackproof.history.storage import AnyPath
from ackproof.infra.clients.programs import CLIENTS
from ackproof.infra.systems import SYSTEMS
from ackproof.nemesis import FAULTS
from ackproof.workloads import WORKLOADS

_PLUGGABLE = (FAULTS, SYSTEMS, CLIENTS, WORKLOADS, CATALOGUE)

_VERDICTS = {
    Verdict.PASS: "Every guarantee that the cell promises held, and the evidence was sufficient.",
    Verdict.FAIL: "A guarantee was broken. The report names each record and the root cause.",
    Verdict.NOT_GUARANTEED: (
        "The settings, or changes of leaders and disks, do not guarantee "
        "that every acknowledged record is kept. The loss was measured."
    ),
    Verdict.INCONCLUSIVE: (
        "The evidence is too thin for a verdict: too few acks before or "
        "after a fault, a fault that was not proven to have taken effect, or "
        "an incomplete history or final read. The terminal and the report "
        "name the gaps."
    ),
}

_DIGITS_MAX = 1_000
"""The most digits of a number, because Python refuses to parse longer ones."""

_WHERE = "To list the checkers and their guarantees: ackproof checkers"


@click.command(
    epilog="""\b
Examples:
  ackproof explain results/latest           the causes of a result, with the command for each
  ackproof explain results/latest --record 17
  ackproof explain results/latest --record acks-1/0/4206
  ackproof explain lost                     an anomaly
  ackproof explain no-acked-record-lost     a guarantee
  ackproof explain inconclusive             a verdict
  ackproof explain unavailable.longest      a measure that a campaign sets thresholds on
  ackproof explain 4                        an exit status
  ackproof explain isolate                  a fault
  ackproof explain kafka                    a system
""",
)
@click.argument("word", metavar="WORD|DIR")
@click.option(
    "--record",
    metavar="N|CELL/PRODUCER/SEQUENCE",
    help="Draw the replicas' logs around an anomaly of DIR: row N of anomalies.parquet, from 1, or "
    "a record.",
)
@click.option(
    "--run",
    type=click.IntRange(min=1),
    help="The number of the run, if a record is in several runs of DIR.",
)
def explain(word: str, record: str | None, run: int | None) -> None:
    """Explain a word of a report, or draw the logs around an anomaly of the results in DIR.

    A word is an anomaly, a guarantee, a verdict, an exit status, a fault, a system, a client
    library, a workload, or a measure that a campaign sets thresholds on. The picture shows offsets
    across and replicas down: the leader epoch of each record, what was acknowledged and lost, who
    truncated its log, who led next, and which fault was active.
    """
    if record is not None:
        with reported_errors():
            _draw(places.named(word), record, run)
        return
    if run is not None:
        raise click.UsageError("--run needs --record")
    meanings = list(_meanings(word))
    if not meanings and ("://" in word or Path(word).is_dir()):
        with reported_errors():
            _list_causes(places.named(word), word)
        return
    if not meanings:
        refusals = (table.refusal(word) for table in _PLUGGABLE)
        reason = next(filter(None, refusals), None) or unknown("word", word, _known())
        raise click.BadParameter(reason, param_hint="WORD")
    for meaning in meanings:
        meaning()


# --- pictures -------------------------------------------------------------------------------------


def _draw(directory: AnyPath, record: str, run: int | None) -> None:
    """Print the picture of an anomaly of these results."""
    _checked(directory)
    require_runs(directory)
    results = drawn.read(directory)
    try:
        click.echo(text(results.of_row(_row_of(results, record, run))))
    except drawn.NotDrawn as error:
        fail(f"--record {record}: {error}", ExitStatus.USAGE)


def _row_of(results: drawn.Results, record: str, run: int | None) -> int:
    """Return the number of the row of ``anomalies.parquet`` that ``--record`` names. Raises
    NotDrawn."""
    if _is_number(record):
        return int(record)
    cell, *name = record.rsplit("/", 2)
    if len(name) != len(("producer", "sequence")) or not all(map(_is_number, name)):
        raise click.BadParameter(
            f"{record!r} must be the number of a row of anomalies.parquet, such as 17, or a "
            "record, such as acks-1/0/4206 (cell, producer and sequence)",
            param_hint="--record",
        )
    found = results.numbers_of(cell, int(name[0]), int(name[1]), run)
    if not found:
        where = "" if run is None else f" in run {run}"
        raise drawn.NotDrawn(f"no anomaly concerns this record{where}")
    return found[0]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX


def _list_causes(directory: AnyPath, name: str) -> None:
    """Print the causes of these results, each with the command that draws it. ``name`` is the
    directory as the user names it."""
    result = _checked(directory)
    groups = grouped(result.causes)
    if not groups:
        click.echo(_without_causes(result))
        return
    results = drawn.read(directory) if (directory / "runs").is_dir() else None
    settings = {(cell.run, cell.cell): cell.settings for cell in rows(result)}
    for group in groups:
        first = group.first
        many = f"{group.records:,} {WHAT[first.anomaly]}"
        number = None if results is None else results.number_of(first)
        advice = remedy(first.kind, settings.get((first.run, first.cell), {}), first.faults)
        _print(
            f"{group.place}: {many} ({first.kind})",
            first.sentence,
            *(f"Advice: {one}" for one in (advice,) if one),
            *(
                []
                if number is None
                else [shlex.join(["ackproof", "explain", name, "--record", str(number)])]
            ),
        )


def _without_causes(result: CampaignResult) -> str:
    """Return why these results have no causes, in words."""
    checked = [cell for cell in result.cells if cell.lost is not None]
    if not checked:
        said = "No cell was checked to its end, so that no cause is known"
        return ": ".join([said, *result.findings[:1]])
    said = "no record was lost, duplicated or read and later absent: there is no cause."
    if len(checked) < len(result.cells):
        return f"In the cells that were checked, {said}"
    return said.capitalize()


def _checked(directory: AnyPath) -> CampaignResult:
    """Return the result of the check of a directory."""
    result = verdict.read(directory)
    if result is None:
        fail(
            f"{directory} has not been checked: run `ackproof check {directory}` first",
            ExitStatus.USAGE,
        )
    return result


# --- words ----------------------------------------------------------------------------------------


def _known() -> list[str]:
    statuses = [str(status.value) for status in ExitStatus]
    words = (
        *CATALOGUE,
        *guarantees(),
        *MEASURES,
        *Verdict,
        *FAULTS,
        *SYSTEMS,
        *CLIENTS,
        *WORKLOADS,
    )
    return [*words, *options.shipped(), *statuses]


def _meanings(word: str) -> Iterator[Callable[[], None]]:
    """Yield functions that print each meaning of a word."""
    promises = guarantees()
    if word in CATALOGUE:
        rows = f"Each one is a row of anomalies.parquet, with the name {word}."
        yield lambda: _print(f"{word}: an anomaly", CATALOGUE[word].summary, *_facts(word), rows)
    if word in promises:
        where = _WHERE if word in GUARANTEES else f"Plug-in: {CATALOGUE.plugin(word[len(NO) :])}."
        yield lambda: _print(f"{word}: a guarantee", promises[word], where)
    if word in MEASURES:
        measure = MEASURES[word]
        where = f"Unit: {measure.unit.value}. A campaign sets thresholds on it under expect."
        yield lambda: _print(f"{word}: a measure", measure.meaning.replace("`", ""), where)
    if word in list(Verdict):
        yield lambda: _print(f"{word}: a verdict", _VERDICTS[Verdict(word)])
    yield from _entries(word)
    if word in options.shipped():
        summary = options.summary(options.shipped()[word])
        yield lambda: _print(f"{word}: an installed campaign", summary)
    if word.isascii() and word.isdecimal() and int(word) in list(ExitStatus):
        yield lambda: _print(f"{word}: an exit status", ExitStatus(int(word)).meaning)


def _facts(anomaly: str) -> Iterator[str]:
    """Yield the guarantee that an anomaly breaks, and the plug-in whose checker finds it."""
    breaks, plugin = CATALOGUE[anomaly].breaks, CATALOGUE.plugin(anomaly)
    if breaks is not None:
        yield f"Guarantee: {breaks}."
    if plugin is not None:
        yield f"Plug-in: {plugin}."


def _entries(word: str) -> Iterator[Callable[[], None]]:
    """Yield functions that print each entry of that name in the catalogues."""
    if word in FAULTS:
        yield lambda: console().print(fault_entry(FAULTS[word]))
    if word in SYSTEMS:
        yield lambda: console().print(system_entry(SYSTEMS[word]))
    if word in CLIENTS:
        yield lambda: console().print(client_entry(CLIENTS[word]))
    if word in WORKLOADS:
        yield lambda: console().print(workload_entry(WORKLOADS[word]))


def _print(heading: str, *paragraphs: str) -> None:
    console().print(Text(heading, style="bold"))
    for paragraph in paragraphs:
        console().print(Padding(Text(paragraph), (0, 0, 0, 2)))
