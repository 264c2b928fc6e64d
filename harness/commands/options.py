"""The options and arguments that several commands share."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import click

from ackproof.config.suggestions import unknown
from ackproof.harness.campaign.backends import BACKENDS
from ackproof.infra.systems import parse
from ackproof.infra.systems.product import MetadataQuorum

# --- campaigns that are installed -----------------------------------------------------------------


class UnknownCampaign(ValueError):
    """A campaign name that is not installed. The text names the one that may have been meant."""


@cache
def shipped() -> Mapping[str, Path]:
    """Return the file of each installed campaign, by its name."""
    directory = Path(str(files("ackproof").joinpath("campaigns")))
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def campaign_file(given: Path) -> Path:
    """Return ``given``, or the file of the installed campaign of that name.

    A bare word such as ``quick`` is a name, unless there is a file of that name. Everything else is
    a path, whether the file exists or not. Raises UnknownCampaign.
    """
    if given.suffix or given != Path(given.name) or given.is_file():
        return given
    known = shipped()
    if given.name not in known:
        hint = unknown("campaign", given.name, known)
        raise UnknownCampaign(
            f"{hint} (there is no file of that name; `ackproof campaigns` lists "
            "the installed campaigns)"
        )
    return known[given.name]


def summary(file: Path) -> str:
    """Return the comment at the top of a campaign file in one line."""
    words = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# yaml-language-server"):
            words.append(line.removeprefix("#").strip())
    return " ".join(words)


# --- options of several commands ------------------------------------------------------------------

_FILE = click.Path(path_type=Path)

F = TypeVar("F", bound=Callable[..., object] | click.Command)


def system(command: F) -> F:
    """Add the option ``--system``, whose value is None if it is not given. An unknown name is bad
    usage."""
    return click.option(
        "--system",
        metavar="SYSTEM",
        callback=_parsed,
        help=(
            "The system to test: bundled, kafka:VERSION, kafka:/DIRECTORY, "
            "kafka:image:NAME, two releases for an upgrade (kafka:3.9.2..kafka:4.4.0), or that of "
            "a plug-in. `ackproof systems` lists them."
        ),
    )(command)


def backend(command: F) -> F:
    """Add the option ``--backend``, whose value is None if it is not given."""
    return click.option(
        "--backend", type=click.Choice(list(BACKENDS)), help="The backend that runs the cluster."
    )(command)


def skip_refused(command: F) -> F:
    """Add the flag ``--skip-refused``."""
    return click.option(
        "--skip-refused",
        is_flag=True,
        help="Leave out the faults that the backend refuses, and name them beside the verdict.",
    )(command)


def metadata_quorum(command: F) -> F:
    """Add the option ``--metadata-quorum``, whose value is None if it is not given."""
    return click.option(
        "--metadata-quorum",
        type=click.Choice([one.value for one in MetadataQuorum]),
        help="Where the cluster keeps its metadata. KRaft needs Apache Kafka 3.3 or newer.",
    )(command)


def metrics(least: int) -> Callable[[F], F]:
    """Return the options ``--metrics-port``, from ``least`` on, and ``--metrics-address``."""

    def add(command: F) -> F:
        address = click.option(
            "--metrics-address",
            default="127.0.0.1",
            show_default=True,
            metavar="ADDRESS",
            help="The address of --metrics-port. Metrics have no access control.",
        )
        port = click.option(
            "--metrics-port",
            type=click.IntRange(least, 65535),
            help=(
                "Serve the metrics of the run to Prometheus at /metrics on this port"
                + ("; 0 chooses a free one." if least == 0 else ".")
            ),
        )
        return port(address(command))

    return add


def kept_results(directory: Path, page: str) -> Callable[[F], F]:
    """Return the options ``--results``, the directory of runs that are kept, and ``--out``, the
    file for a page of their results: None for ``page`` in that directory."""

    def add(command: F) -> F:
        out = click.option(
            "--out",
            type=click.Path(path_type=Path, dir_okay=False),
            help=(
                f"Write the page to this file. [default: {page} in the directory of the results]"
            ),
        )
        results = click.option(
            "--results",
            type=click.Path(path_type=Path, file_okay=False),
            default=directory,
            show_default=True,
            help="Keep the results of all runs in this directory.",
        )
        return results(out(command))

    return add


def campaign(name: str, default: str | None = None) -> Callable[[F], F]:
    """Return the argument for a campaign: its file or, if it is installed, its name. An unknown
    name is bad usage."""

    def add(command: F) -> F:
        # A default of None would also count as one, so that the argument could be left out.
        chosen: dict[str, Any] = {} if default is None else {"default": default}
        return click.argument(
            name, metavar="CAMPAIGN", type=_FILE, callback=_campaign_file, **chosen
        )(command)

    return add


def _campaign_file(_context: click.Context, _argument: click.Parameter, given: Path) -> Path:
    try:
        return campaign_file(given)
    except UnknownCampaign as refusal:
        raise click.BadParameter(str(refusal)) from None


def _parsed(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    try:
        return None if name is None else parse(name).text
    except ValueError as refusal:
        raise click.BadParameter(str(refusal)) from None
