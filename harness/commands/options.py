"""What several commands can be told."""

from collections.abc import Callable
from typing import TypeVar

import click

from infra.systems import names

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


def _parsed(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    try:
        return None if name is None else names.parse(name).text
    except ValueError as refusal:
        raise click.BadParameter(str(refusal)) from None
