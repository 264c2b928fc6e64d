"""``ackproof serve``: results, reports and logs in a browser."""

import asyncio
from pathlib import Path

import click

from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.directory import RESULTS
from ackproof.harness.exit_status import ExitStatus

_PORT = 8642
_ADDRESS = "127.0.0.1"


@click.command(
    epilog="""\b
Examples:
  ackproof serve                       what is in results/
  ackproof serve results/latest        one campaign: its report and its logs
  ackproof serve --port 0              on a port that is free
  ackproof serve --address 0.0.0.0 --host reports.example
""",
)
@click.argument(
    "directory", metavar="[DIR]", default=RESULTS, type=click.Path(path_type=Path), required=False
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="0 chooses a free port.",
)
@click.option(
    "--address",
    default=_ADDRESS,
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. Results have no access control.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help=(
        "Answer requests for this host name, too. Those for names other than localhost and "
        "ADDRESS are refused. Can be given several times."
    ),
)
@click.pass_context
def serve(
    context: click.Context, directory: Path, port: int, address: str, hosts: tuple[str, ...]
) -> None:
    """Show the results in DIR in a browser: all campaigns, their reports and logs, and what
    changed between any two results.

    Read-only, nothing outside of DIR, and on this machine alone unless --address is another.
    Ends with Ctrl-C.
    """
    if not directory.is_dir():
        fail(f"{directory} is not a directory", ExitStatus.USAGE)
    with reported_errors():
        from ackproof.harness.report import server  # aiohttp takes a while to import

        app = server.application(directory, compared, {address, *hosts})
        asyncio.run(server.serve(app, address, port, click.echo))
    context.exit(ExitStatus.HELD)


def compared(a: Path, b: Path, reports: tuple[str, str]) -> str:
    """Return the page that compares two results. Raises as
    :func:`harness.comparing.differences.compare`."""
    from ackproof.harness.comparing import differences, output  # numpy is slow to import

    return output.render(differences.compare(a, b), reports, up="./")
