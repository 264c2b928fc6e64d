"""``ackproof compare``: what changed between two campaigns' results."""

import json
from pathlib import Path

import click

from ackproof.harness.commands.errors import told
from ackproof.harness.console import console

_DIRECTORY = click.Path(path_type=Path)


@click.command(
    epilog="""\b
Examples:
  ackproof compare results/quick-20310516T021700Z results/latest
  ackproof compare results/before results/after --json > differences.json
""",
)
@click.argument("a", metavar="A", type=_DIRECTORY)
@click.argument("b", metavar="B", type=_DIRECTORY)
@click.option("--json", "as_json", is_flag=True, help="For scripts, on standard output.")
def compare(a: Path, b: Path, as_json: bool) -> None:
    """Say what changed from the results in A to those in B, cell by cell: verdicts, what was lost
    and duplicated, latencies, unavailability, throughput; and what of it may be chance.

    Exits with 0 whatever changed, with 2 where a directory has no verdict, or one that was edited
    or damaged after the check.
    """
    with told():
        # Arrow and numpy take a while to import.
        from ackproof.harness.comparing import differences, shown

        found = differences.compare(a, b)
    if as_json:
        click.echo(json.dumps(differences.as_document(found), indent=2))
    else:
        shown.print_differences(console(), found)
