"""``ackproof check | report``: the check and the report of recorded results."""

import re
from urllib.parse import urlparse

import click

from ackproof.harness import directory as places
from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.console import console
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.running import execution

_DIRECTORY = click.argument("directory", metavar="DIR")

_MASTER = re.compile(r"local(\[[^\[\]]+\])?|local-cluster\[[^\[\]]+\]|yarn|[a-z0-9]+://\S+")
"""Masters that Spark knows, and URLs of other masters, which a plug-in of Spark may support."""


def _spark_master(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Refuse a text that is not a Spark master, before a report is removed. The message does not
    repeat the value, because a URL of Spark Connect may hold a token."""
    if value is None:
        return None
    if not _MASTER.fullmatch(value):
        raise click.BadParameter(
            "expected spark://HOST:PORT, yarn, k8s://URL or local[N], or sc://HOST:PORT for Spark "
            "Connect"
        )
    if value.startswith("sc://") and not _is_connect(value):
        raise click.BadParameter(
            "expected sc://HOST:PORT for Spark Connect, with parameters as in "
            "sc://HOST:PORT/;use_ssl=true;token=TOKEN"
        )
    return value


def _is_connect(url: str) -> bool:
    try:
        # PySpark reads it by the rules of http.
        parts = urlparse("http" + url.removeprefix("sc"))
        parameters = parts.params.split(";") if parts.params else []
        return (
            bool(parts.hostname)
            and parts.port != 0
            and parts.path in ("", "/")
            and not (parts.query or parts.fragment)
            and all(parameter.count("=") == 1 for parameter in parameters)
        )
    except ValueError:  # the port is not a number, or too large
        return False


@click.command(
    epilog="""\b
Examples:
  ackproof check results/latest
  ackproof check results/latest --spark-master spark://host:7077
  ackproof check results/latest --spark-master sc://host:15002
  ackproof check s3a://bucket/run --spark-master spark://host:7077
""",
)
@_DIRECTORY
@click.option(
    "--spark-master",
    metavar="URL",
    envvar="ACKPROOF_SPARK_MASTER",
    callback=_spark_master,
    help=(
        "Check on this Spark cluster (spark://HOST:PORT, yarn, k8s://URL) or Spark Connect "
        "server (sc://HOST:PORT). Its workers must see DIR under the same name. Default: "
        "ACKPROOF_SPARK_MASTER, or this machine."
    ),
)
@click.pass_context
def check(context: click.Context, directory: str, spark_master: str | None) -> None:
    """Run the checkers again on the recorded history in DIR, and write the report.

    DIR may be a URI (s3a:, gs:, hdfs:): results are written there. Credentials, region and endpoint
    are those of the environment (AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL).
    Works on what a killed run left behind too. Exits as `run` does.
    """
    with reported_errors():
        status = execution.check(places.named(directory), console(), spark_master=spark_master)
    context.exit(status)


@click.command(
    epilog="""\b
Examples:
  ackproof report results/latest
  ackproof report results/latest --format markdown >> "$GITHUB_STEP_SUMMARY"
""",
)
@_DIRECTORY
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown", "github"]),
    default="html",
    show_default=True,
    help=(
        "Write the page, or print a summary in Markdown or annotations for GitHub Actions, "
        "and write nothing."
    ),
)
@click.pass_context
def report(context: click.Context, directory: str, form: str) -> None:
    """Write the report again, from the checked results in DIR.

    Exits as `run` does, and with 2 where the results were edited or damaged after the check.
    """
    with reported_errors():
        found = places.named(directory)
        if form == "html":
            status = execution.report_again(found, console())
        else:
            status = execution.print_for_ci(found, form)
        if status is None:
            fail(f"{found} has not been checked; run ackproof check {directory}", ExitStatus.USAGE)
    context.exit(status)
