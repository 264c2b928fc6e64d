"""``ackproof init | validate | schema``: campaign files, without starting anything."""

from importlib import resources
from pathlib import Path

import click

from ackproof.config.documents import DocumentRefused
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.backends import require_inventory
from ackproof.harness.campaign.docs import schema_text
from ackproof.harness.campaign.problems.places import elsewhere, never_offered
from ackproof.harness.campaign.validation import CampaignFile
from ackproof.harness.commands.errors import fail
from ackproof.harness.commands.preview import cells_table, print_warnings
from ackproof.harness.console import console
from ackproof.harness.exit_status import ExitStatus

_FILE = click.Path(path_type=Path)


@click.command(
    epilog="""\b
Examples:
  ackproof init mine.yaml && ackproof run mine.yaml
""",
)
@click.argument("file", metavar="[FILE]", type=_FILE, default="campaign.yaml")
def init(file: Path) -> None:
    """Write a campaign to start from, with comments, to FILE (campaign.yaml).

    Overwrites nothing.
    """
    template = resources.files("ackproof.harness.campaign.docs").joinpath("template.yaml")
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(template.read_text(encoding="utf-8"))
    except FileExistsError:
        fail(f"{file} already exists and was not changed", ExitStatus.USAGE)
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}", ExitStatus.USAGE)
    click.echo(f"{file}; next: ackproof validate {file}, ackproof run {file}")


@click.command(
    epilog="""\b
Examples:
  ackproof validate campaigns/*.yaml
""",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.option("--yes", "meant", is_flag=True, help="Allow very large campaigns.")
@click.pass_context
def validate(context: click.Context, files: tuple[Path, ...], meant: bool) -> None:
    """Report all problems of campaign files, with line and column; start nothing.

    For a valid file, list the cells with their topics, which targets name, and warn of likely
    mistakes.

    Exits with 0 if all are valid, else with 2. An inventory that a file names is read. Whether a
    backend works here is not checked: see ackproof doctor.
    """
    wrong = 0
    for file in files:
        try:
            read = validation.check(file, meant=meant)
            require_placeable(read)
        except DocumentRefused as refused:
            click.echo(str(refused), err=True)
            wrong += len(refused.problems)
        else:
            click.echo(f"{file}: right")
            console().print(cells_table(read.campaign))
            print_warnings(read, read.campaign)
    if wrong:
        fail(f"{wrong} problem{'s' if wrong > 1 else ''}", ExitStatus.USAGE)
    context.exit(ExitStatus.HELD)


def require_placeable(file: CampaignFile) -> None:
    """Refuse a campaign that cannot run on the backend of its file, as far as files show it. Raises
    DocumentRefused."""
    file.refuse(elsewhere(file.campaign))
    file.refuse(never_offered(file.campaign))
    if file.campaign.cluster.inventory is not None:
        require_inventory(file.campaign.cluster.largest)


@click.command(
    epilog="""\b
Examples:
  ackproof schema > campaign.schema.json
  # yaml-language-server: $schema=campaign.schema.json      in the campaign file's first line
""",
)
def schema() -> None:
    """Print the JSON Schema of campaign files for editors, which then complete keys and mark
    mistakes."""
    click.echo(schema_text(), nl=False)
