"""``ackproof explain``: the meaning of a word of a report."""

from collections.abc import Callable, Iterator

import click
from rich.padding import Padding
from rich.text import Text

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.guarantees.decisions import guarantees
from ackproof.checkers.guarantees.table import GUARANTEES
from ackproof.checkers.interface import NO
from ackproof.checkers.thresholds import MEASURES
from ackproof.checkers.verdict import Verdict
from ackproof.config.suggestions import unknown
from ackproof.harness.commands import options
from ackproof.harness.commands.catalogues import (
    client_entry,
    fault_entry,
    system_entry,
    workload_entry,
)
from ackproof.harness.console import console
from ackproof.harness.exit_status import ExitStatus
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

_WHERE = "To list the checkers and their guarantees: ackproof checkers"


@click.command(
    epilog="""\b
Examples:
  ackproof explain lost                     an anomaly
  ackproof explain no-acked-record-lost     a guarantee
  ackproof explain inconclusive             a verdict
  ackproof explain unavailable.longest      a measure that a campaign sets thresholds on
  ackproof explain 4                        an exit status
  ackproof explain isolate                  a fault
  ackproof explain kafka                    a system
""",
)
@click.argument("word")
def explain(word: str) -> None:
    """Explain a word of a report: an anomaly, a guarantee, a verdict, an exit status, a fault, a
    system, a client library, a workload, or a measure that a campaign sets thresholds on."""
    meanings = list(_meanings(word))
    if not meanings:
        refusals = (table.refusal(word) for table in _PLUGGABLE)
        reason = next(filter(None, refusals), None) or unknown("word", word, _known())
        raise click.BadParameter(reason, param_hint="WORD")
    for meaning in meanings:
        meaning()


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
