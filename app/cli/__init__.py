"""The command `saiten`: one file a command, imported when it is called."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

import saiten as saiten_client
from app import __version__
from app.cli.process import OutputFailed, discard_output, leave_on_sigterm, open_streams, require_output
from app.domain.errors import SaitenError
from app.runtime.memory import without_collection

SERVING = frozenset({"serve", "worker"})
"""Commands that run until they are stopped."""

HELP = "saiten.help"
"""Key of the context: whether the help of a command was requested."""

EXIT_COULD_NOT_RUN = 3
EXIT_INTERRUPTED = 128 + 2
"""The exit code that a shell reports for a process ended by SIGINT."""
EXIT_READER_LEFT = 128 + 13
"""The exit code that a shell reports for a process ended by SIGPIPE: the reader left before everything was printed."""

COMMANDS = {
    "serve": ("app.cli.serve:command", "Answer over HTTP."),
    "worker": ("app.cli.worker:command", "Score the batches that a service accepts."),
    "score": ("app.cli.score:command", "Score a file of dialogues."),
    "convert": ("saiten.commands.convert:command", "Turn a table or another tool's log into items."),
    "analyze": ("app.cli.analyze:command", "Analyze ratings and scores."),
    "ratings": ("app.cli.ratings:command", "Import and export human ratings."),
    "gate": ("app.cli.gate:command", "Pass or fail a build by its scores."),
    "attack": ("app.cli.attack:command", "Measure how far attacks move the judge."),
    "export-finetune": (
        "app.cli.export_finetune:command",
        "Turn human ratings into chat JSONL to fine-tune a judge.",
    ),
    "rubric": ("app.cli.rubric:command", "Check, list and show rubrics."),
    "policy": ("app.cli.administration:policy", "Show and set a project's policy."),
    "erase": ("app.cli.administration:erase", "Erase everything that has certain metadata."),
    "keys": ("app.cli.administration:keys", "Create, list and revoke API keys."),
    "audit": ("app.cli.administration:audit", "Show what administrators did."),
    "database": ("app.cli.administration:database", "Show the schema's revision, and take it back to an older one."),
    "demo": ("app.cli.demo:command", "Score bundled dialogues through a private service."),
}


class LazyGroup(click.Group):
    """Imports a command only when it is run, so that `saiten --help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from importlib import import_module

        if cmd_name in SERVING:
            leave_on_sigterm()  # before the import, which takes most of a second
        with without_collection():
            module, _, attribute = COMMANDS[cmd_name][0].partition(":")
            command: click.Command = getattr(import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        # The command's own arguments: click takes them off the context before it calls `saiten`.
        ctx.meta[HELP] = not set(ctx.help_option_names).isdisjoint(ctx.args)
        return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="saiten")
@click.pass_context
def saiten(context: click.Context) -> None:
    """Saiten (採点 · 채점) scores what dialogue systems say in Japanese and Korean."""
    if context.invoked_subcommand not in SERVING:
        require_output()
        if not context.meta[HELP]:  # help stays fast without the settings, whose import takes most of a second
            name_unknown_settings()


def name_unknown_settings() -> None:
    """Names on standard error the variables that are not settings: a mistyped one would otherwise go unnoticed."""
    if not any(name.upper().startswith("SAITEN_") for name in os.environ):
        return
    from app.runtime.settings import find_unknown

    if unknown := find_unknown(os.environ):
        click.echo(f"saiten: {unknown}", err=True)


def main() -> None:
    """Runs the command line. Every error is reported as one line that says what to do, never as a traceback."""
    open_streams()
    sys.exit(run())


def run() -> int:
    """Runs the command of this process's arguments and returns its exit code."""
    try:
        # Outside standalone mode click returns the code of an Exit, and otherwise what the command returned: nothing.
        code: int | None = saiten.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("saiten: interrupted", err=True)
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (SaitenError, saiten_client.SaitenError) as error:
        click.echo(f"saiten: {error.detail}", err=True)
        return EXIT_COULD_NOT_RUN
    except OutputFailed as failure:
        discard_output()
        if failure.reader_left:
            return EXIT_READER_LEFT
        click.echo(f"saiten: {failure}", err=True)
        return EXIT_COULD_NOT_RUN
    return code or 0
