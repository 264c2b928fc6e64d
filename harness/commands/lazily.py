"""Commands that are imported when they are asked for: all of them take two seconds, one takes one.

As click's documentation has it ("Lazily Loading Subcommands").
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


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
