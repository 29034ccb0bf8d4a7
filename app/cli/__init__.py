"""The command `saiten`: one file a command, imported when it is called."""

from __future__ import annotations

import sys

import click

from app import __version__
from app.domain.errors import SaitenError

EXIT_COULD_NOT_RUN = 3

COMMANDS = {
    "serve": ("app.cli.serve", "Answer over HTTP."),
    "score": ("app.cli.score", "Score a file of dialogues."),
    "rubric": ("app.cli.rubric", "Check, list and show rubrics."),
    "keys": ("app.cli.keys", "Create, list and revoke API keys."),
    "demo": ("app.cli.demo", "Score bundled dialogues through a private service."),
}


class LazyGroup(click.Group):
    """Imports a command only when it is run, so that `saiten --help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from importlib import import_module

        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="saiten")
def saiten() -> None:
    """Saiten (採点 · 채점) scores what dialogue systems say in Japanese and Korean."""


def main() -> None:
    """Runs the command line. Whatever goes wrong is one line that says what to do, never a traceback."""
    try:
        saiten.main(standalone_mode=False)
    except click.exceptions.Exit as finished:
        sys.exit(finished.exit_code)
    except click.exceptions.Abort:
        sys.exit("saiten: interrupted")
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except SaitenError as error:
        click.echo(f"saiten: {error.detail}", err=True)
        sys.exit(EXIT_COULD_NOT_RUN)
    except BrokenPipeError:
        # The reader (`head`, say) has what it wanted. Standard output is closed, so nothing more may be flushed to it.
        sys.stderr.close()
        sys.exit(0)
