"""What several commands can be told."""

from collections.abc import Callable
from typing import TypeVar

import click

from ackproof.infra.systems import names
from ackproof.infra.systems.metadata_quorum import MetadataQuorum

F = TypeVar("F", bound=Callable[..., object] | click.Command)


def system(command: F) -> F:
    """The option ``--system``; None where it is not given. A name that is none is bad usage."""
    return click.option(
        "--system",
        metavar="SYSTEM",
        callback=_parsed,
        help="What to put to the test: bundled, kafka:VERSION, kafka:/DIRECTORY or "
        "kafka:image:NAME.",
    )(command)


def metadata_quorum(command: F) -> F:
    """The option ``--metadata-quorum``; None where it is not given."""
    return click.option(
        "--metadata-quorum",
        type=click.Choice([one.value for one in MetadataQuorum]),
        help="Who keeps its metadata; KRaft is for Apache Kafka from 3.3 on.",
    )(command)


def _parsed(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    try:
        return None if name is None else names.parse(name).text
    except ValueError as refusal:
        raise click.BadParameter(str(refusal)) from None
