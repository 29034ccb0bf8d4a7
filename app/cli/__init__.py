"""The server's commands: `python -m saiten_server NAME`, which the client's command `saiten` runs as its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from saiten.commands import HELP_OPTIONS, LazyGroup
from saiten.commands import run as run_group
from saiten.commands.process import open_streams, require_output
from saiten.core import language
from saiten_server import __version__
from saiten_server.cli.process import leave_on_sigterm, say
from saiten_server.core.errors import SaitenError

SERVING = frozenset({"serve", "worker"})
"""Commands that run until they are stopped."""

HELP = "saiten.help"
"""Key of the context: whether the help of a command was requested."""

SERVER_COMMANDS = {
    "analyze": "saiten_server.cli.analyze:command",
    "attack": "saiten_server.cli.attack:command",
    "audit": "saiten_server.cli.administration:audit",
    "database": "saiten_server.cli.administration:database",
    "demo": "saiten_server.cli.demo:command",
    "erase": "saiten_server.cli.administration:erase",
    "export-finetune": "saiten_server.cli.export_finetune:command",
    "judges": "saiten_server.cli.judges:command",
    "keys": "saiten_server.cli.administration:keys",
    "offline": "saiten_server.cli.offline:command",
    "policy": "saiten_server.cli.administration:policy",
    "rubric": "saiten_server.cli.rubric:command",
    "serve": "saiten_server.cli.serve:command",
    "worker": "saiten_server.cli.worker:command",
}
"""Where each command is. pyproject.toml lists the same names as entry points."""


class ServersGroup(LazyGroup):
    places = SERVER_COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in SERVING:
            leave_on_sigterm()  # before the import, which takes most of a second
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        # The command's own arguments: click takes them off the context before it calls `saiten`.
        ctx.meta[HELP] = not set(ctx.help_option_names).isdisjoint(ctx.args)
        return super().invoke(ctx)


@click.group(cls=ServersGroup, context_settings=HELP_OPTIONS)
@click.version_option(__version__, prog_name="saiten")
@click.pass_context
def saiten(context: click.Context) -> None:
    """The commands of Saiten's server."""
    if context.invoked_subcommand not in SERVING:
        require_output()
        if not context.meta[HELP]:  # help stays fast without the settings, whose import takes most of a second
            name_unknown_settings()


def name_unknown_settings() -> None:
    """Names on standard error the variables that are not settings: a mistyped one would otherwise go unnoticed."""
    if not any(name.upper().startswith("SAITEN_") for name in os.environ):
        return
    from saiten_server.platform.settings import find_unknown

    if unknown := find_unknown(os.environ):
        click.echo(f"saiten: {say(unknown)}", err=True)


CATALOGUE = "saiten-server", Path(__file__).parent / "locales"
"""What these commands say, beside what the client's do."""


def main() -> None:
    """Runs one command of the server."""
    open_streams()
    language.use_language(language.find_language(os.environ), CATALOGUE)
    sys.exit(run())


def run() -> int:
    """Runs the command of this process's arguments and returns its exit code."""
    return run_group(saiten, SaitenError, say=say)
