"""``ackproof faults | workloads | checkers``: what there is, one line each."""

from collections.abc import Iterable

import click
from rich import box
from rich.table import Table

import nemesis
import workloads as workload_room
from checkers.catalogue import CATALOGUE
from harness.console import console
from nemesis import targets


@click.command()
def faults() -> None:
    """List the faults, what each needs of the backend, and the target expressions."""
    rows = [
        (name, fault.summary, ", ".join(sorted(fault.needs)))
        for name, fault in nemesis.FAULTS.items()
    ]
    _print(("fault", "what it does", "needs"), rows)
    click.echo(f"targets: {', '.join(targets.known())}")
    click.echo("partition: a number, or any (drawn by the seed)")


@click.command()
def workloads() -> None:
    """List the workloads."""
    _print(
        ("workload", "what it does"),
        [(name, workload.summary) for name, workload in workload_room.WORKLOADS.items()],
    )


@click.command()
def checkers() -> None:
    """List the checkers: the anomalies they find in the recorded history."""
    _print(("checker", "what it finds"), CATALOGUE.items())


def _print(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    table = Table(*headings, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console().print(table)
