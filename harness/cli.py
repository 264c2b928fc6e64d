"""The command line: ``ackproof``. Its exit statuses are :class:`harness.exit_status.ExitStatus`."""

import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from ackproof.harness.console import go_on_unread
from ackproof.harness.exit_status import ExitStatus

# --- commands imported on demand ------------------------------------------------------------------
#
# As click's documentation has it ("Lazily Loading Subcommands").


class LazyGroup(click.Group):
    """``modules``: where each command is, by its name, which is the function's with hyphens. The
    group's own help imports them all."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._modules = dict(modules)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All, in order."""
        return sorted({*super().list_commands(ctx), *self._modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports its module; None: there is no such command."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        module = import_module(self._modules[cmd_name])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command


# --- the command line -----------------------------------------------------------------------------

_EXAMPLES = """\b
Examples:
  ackproof doctor                               what works on this machine
  ackproof demo                                 deploy, break, read back, check: 3 minutes
  ackproof campaigns                            what else is ready to run
  ackproof run quick --seed 7                   the same faults in the same order once more
  ackproof check results/latest                 the checkers again, on the recorded history
  ackproof compare results/A results/B          what changed, and what of it may be chance
  ackproof history trend history.jsonl          results from night to night, kept in a small file
  ackproof matrix --systems bundled,kafka:4.1.1 quick                   side by side
  ackproof explain inconclusive                 what a word of a report means
  ackproof export results/latest                a history for Jepsen's own checker
  ackproof serve                                results, reports and logs in a browser
  ackproof shrink results/latest                what failed once more, with less and less
  ackproof cluster up                           a standing cluster, to try by hand
  ackproof clean                                remove what a killed run left behind
  ackproof known-losses --runs 3                what releases of Apache Kafka are known to lose

\b
"""
_STATUSES = "".join(
    f"{'Exit status: ' if status is ExitStatus.HELD else '':13}{status.value}  {status.meaning}\n"
    for status in ExitStatus
)


_COMMANDS = {
    "campaigns": ("campaigns", "demo"),
    "catalogues": ("checkers", "clients", "faults", "systems", "workloads"),
    "check": ("check", "report"),
    "clean": ("clean",),
    "cluster": ("cluster",),
    "compare": ("compare",),
    "doctor": ("doctor",),
    "explain": ("explain",),
    "export": ("export",),
    "files": ("init", "schema", "validate"),
    "known_losses": ("known-losses",),
    "matrix": ("matrix",),
    "nightly": ("nightly",),
    "run": ("run", "carry-out"),
    "serve": ("serve",),
    "shrink": ("shrink",),
    "trends": ("history",),
}
"""By the module of :mod:`harness.commands` that has them."""


@click.group(
    cls=LazyGroup,
    modules={
        name: f"ackproof.harness.commands.{module}"
        for module, names in _COMMANDS.items()
        for name in names
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EXAMPLES + _STATUSES,
)
@click.version_option(package_name="ackproof")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def cli(debug: bool) -> None:
    """Test whether a Kafka-compatible cluster keeps the records it acknowledges.

    Ackproof starts a cluster, or uses yours, and injects faults while clients write and read. It
    records every acknowledgement. At the end it reads the logs back and compares them with the
    acknowledgements. Begin with `ackproof demo`.
    """


def main() -> None:
    """The console script. A traceback is for ``--debug`` alone, and no way of ending early may
    look like a broken guarantee: neither Python's status 1 of an exception nor click's of Ctrl-C.
    """
    go_on_unread()
    try:
        sys.exit(cli.main(standalone_mode=False))
    except click.ClickException as usage:
        usage.show()
        sys.exit(ExitStatus.USAGE)
    except click.Abort:
        click.echo("ackproof: interrupted", err=True)
        sys.exit(ExitStatus.INCONCLUSIVE)
    except Exception as error:  # noqa: BLE001 - the last resort of the program
        if "--debug" in sys.argv:
            traceback.print_exc()
        told = f"internal error: {type(error).__name__}: {error} (where: ackproof --debug ...)"
        click.echo(f"ackproof: {told}", err=True)
    sys.exit(ExitStatus.INFRASTRUCTURE)
