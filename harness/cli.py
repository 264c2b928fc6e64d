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
# This follows click's documentation ("Lazily Loading Subcommands").


class LazyGroup(click.Group):
    """A group that imports a command only when it is called, and none to list them.

    ``modules`` maps the name of each command to its module and its line in the list of commands.
    The name is the function's with hyphens. A command without a line is hidden.
    """

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._modules = dict(modules)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in order."""
        return sorted({*super().list_commands(ctx), *self._modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command, and return the command, or None if it does not exist."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        module, _ = self._modules[cmd_name]
        command: click.Command = getattr(import_module(module), cmd_name.replace("-", "_"))
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's interface
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of commands, without an import of their modules."""
        lines = [(name, line) for name, (_, line) in sorted(self._modules.items()) if line]
        with formatter.section("Commands"):
            formatter.write_dl(lines)


# --- the command line -----------------------------------------------------------------------------

_EXAMPLES = """\b
Examples:
  ackproof doctor                               what works on this machine
  ackproof demo                                 deploy, break, read back, check: 3 minutes
  ackproof campaigns                            what else is ready to run
  ackproof run quick --seed 7                   repeat the same faults in the same order
  ackproof check results/latest                 run the checkers again on the recorded history
  ackproof compare results/A results/B          show differences, and whether they may be chance
  ackproof history trend history.jsonl          show results from night to night, from a small file
  ackproof matrix --systems bundled,kafka:4.4.0 quick                   compare systems side by side
  ackproof explain inconclusive                 explain a word of a report
  ackproof export results/latest                print a history for Jepsen's own checker
  ackproof serve                                show results, reports and logs in a browser
  ackproof shrink results/latest                repeat a failure with fewer and shorter faults
  ackproof why results/latest                   measure which change prevents a loss
  ackproof cluster up                           start a cluster that keeps running
  ackproof clean                                remove what a killed run left behind
  ackproof known-losses --runs 3                reproduce known losses of Apache Kafka
  ackproof mutants --list                       list faults to put into Apache Kafka

\b
"""
_STATUSES = "".join(
    f"{'Exit status: ' if status is ExitStatus.HELD else '':13}{status.value}  {status.meaning}\n"
    for status in ExitStatus
)


_COMMANDS = {
    "campaigns": {
        "campaigns": "List the installed campaigns, what each needs and takes.",
        "demo": "Run the campaign quick on this machine: three minutes.",
    },
    "catalogues": {
        "checkers": "List the checkers, their anomalies and guarantees.",
        "clients": "List the client libraries that producers can use.",
        "faults": "List the faults, what each needs and where it works.",
        "systems": "List the systems that can be tested.",
        "workloads": "List the workloads and their own parameters.",
    },
    "check": {
        "check": "Run the checkers again on the recorded history in DIR.",
        "report": "Write the report again, from the checked results in DIR.",
    },
    "clean": {"clean": "Remove what crashed runs left on this machine."},
    "cluster": {"cluster": "Start a cluster that keeps running, to try commands by hand."},
    "compare": {"compare": "Show the differences between two results."},
    "doctor": {"doctor": "Show what works on this machine, and how to get the rest."},
    "explain": {"explain": "Explain a word of a report, such as inconclusive."},
    "export": {
        "export": "Print a history in the format of Jepsen's Kafka checkers.",
        "seal": "Seal checked results, so that others can check them.",
    },
    "files": {
        "init": "Write a commented campaign to start from.",
        "schema": "Print the JSON Schema of campaign files, for editors.",
        "validate": "List all problems of campaign files.",
    },
    "known_losses": {"known-losses": "Reproduce known losses of Apache Kafka."},
    "live": {"live": ""},
    "matrix": {"matrix": "Run a campaign on several systems, side by side."},
    "mutants": {"mutants": "Break Apache Kafka on purpose, and report what is found."},
    "nightly": {"nightly": "Run a campaign with several seeds derived from the date."},
    "run": {
        "run": "Run a campaign, check its recorded history, and report.",
        "carry-out": "",
    },
    "serve": {"serve": "Show results, reports and logs in a browser."},
    "shrink": {"shrink": "Find the smallest campaign that still fails."},
    "why": {"why": "Measure which change would have prevented a loss."},
    "trends": {"history": "Keep the figures of results from night to night."},
}
"""The names of commands, by their module in :mod:`harness.commands`, each with its line in the list
of commands. A hidden command has no line."""


@click.group(
    cls=LazyGroup,
    modules={
        name: (f"ackproof.harness.commands.{module}", summary)
        for module, summaries in _COMMANDS.items()
        for name, summary in summaries.items()
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
    """Run the console script. Tracebacks are shown only with ``--debug``.

    No early end may look like a broken guarantee: neither Python's status 1 of an exception nor
    click's of Ctrl-C.
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
        message = f"internal error: {type(error).__name__}: {error} (where: ackproof --debug ...)"
        click.echo(f"ackproof: {message}", err=True)
    sys.exit(ExitStatus.INFRASTRUCTURE)
