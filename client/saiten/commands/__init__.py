"""The command `saiten`: what a caller does over HTTP, and the way to the commands of the server.

A command is imported when it is called. Those of the server are never imported, which would take most of a second: each
is run as `python -I -m saiten_server NAME`, isolated from what stands in the user's folder.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from inspect import cleandoc
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from saiten import __version__
from saiten.commands import exits
from saiten.commands.process import OutputFailed, discard_output, open_streams, require_output
from saiten.core import language
from saiten.core.errors import InputUnusable, SaitenError, ServerMissing
from saiten.core.language import mark, suggest, tell
from saiten.core.messages import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GROUP = "saiten.commands"
"""Entry points of this group name the commands that an installed server has."""

COMMANDS = {
    "serve": mark("Answer over HTTP."),
    "worker": mark("Score the batches that a service accepts."),
    "init": mark("Write saiten.toml, a CI workflow and an example of your data."),
    "collect": mark("Ask a bot for its responses."),
    "simulate": mark("Let simulated users talk to a bot."),
    "score": mark("Score a file of dialogues."),
    "batch": mark("Score a file of dialogues as a batch of a service."),
    "convert": mark("Turn a table or another tool's log into items."),
    "analyze": mark("Analyze ratings and scores."),
    "offline": mark("Score files of any size, without a service."),
    "adopt": mark("Make a run of a service of files that were scored."),
    "judges": mark("Ask several judges for the same rated responses."),
    "ratings": mark("Import and export human ratings."),
    "gate": mark("Pass or fail a build by its scores."),
    "baseline": mark("Pin the run that later runs of its name are compared with."),
    "compare-runs": mark("Compare stored runs in pairs."),
    "leaderboard": mark("Rank systems by what is preferred."),
    "link": mark("Link two judges that rated the same responses."),
    "attack": mark("Measure how far attacks move the judge."),
    "export-finetune": mark("Turn human ratings into chat JSONL to fine-tune a judge."),
    "rubric": mark("Begin, check, list and show rubrics."),
    "policy": mark("Show and set a project's policy."),
    "erase": mark("Erase everything that has certain metadata."),
    "keys": mark("Create, list and revoke API keys."),
    "audit": mark("Show what administrators did."),
    "reopen": mark("Call a judge again that asked for a pause."),
    "database": mark("Show the schema's revision, bring it up to date, or take it back."),
    "demo": mark("Score bundled dialogues through a private service."),
}
"""Every command, with what it does."""

OWN_COMMANDS = {
    "adopt": "saiten.commands.adopt:command",
    "baseline": "saiten.commands.baseline:command",
    "collect": "saiten.commands.collect:command",
    "batch": "saiten.commands.batch:command",
    "compare-runs": "saiten.commands.compare_runs:command",
    "convert": "saiten.commands.convert:command",
    "gate": "saiten.commands.gate:command",
    "init": "saiten.commands.init:command",
    "leaderboard": "saiten.commands.leaderboard:command",
    "link": "saiten.commands.link:command",
    "ratings": "saiten.commands.ratings:command",
    "reopen": "saiten.commands.reopen:command",
    "score": "saiten.commands.score:command",
    "simulate": "saiten.commands.simulate:command",
}
"""Where those are that need no server."""

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class LazyGroup(click.Group):
    """Imports a command only when it is run, so that `saiten --help` stays fast. `places` are `MODULE:ATTRIBUTE`."""

    places: Mapping[str, str] = OWN_COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if name in self.places]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        module, _, attribute = self.places[cmd_name].partition(":")
        command: click.Command = getattr(import_for_good(module), attribute)
        translate_help(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise click.UsageError(
                tell(
                    "there is no command {name!r}{value}", name=name[:80], value=suggest(name, self.list_commands(ctx))
                ),
                ctx,
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(tell("Commands")):
            formatter.write_dl([(name, tell(COMMANDS.get(name, ""))) for name in self.list_commands(ctx)])


def import_for_good(module: str) -> ModuleType:
    """The module, imported without garbage collection, which afterwards passes over what was loaded: that lives as long
    as the process. To scan it took a tenth of an import, and once after it as long again."""
    if module in sys.modules:
        return sys.modules[module]
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


class CallersGroup(LazyGroup):
    """The client's commands, and those of the server."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(dict.fromkeys([*COMMANDS, *sorted(server_commands())]))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.places:
            return super().get_command(ctx, cmd_name)
        return ServerCommand(cmd_name) if cmd_name in {*COMMANDS, *server_commands()} else None


class ServerCommand(click.Command):
    """A command of the server, which gets all arguments as they are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = [*args]
        return []

    def invoke(self, ctx: click.Context) -> NoReturn:
        name = self.name or ""
        if name not in server_commands():
            raise ServerMissing(
                tell("`saiten {name}` is a command of the server: pip install saiten-server", name=name)
            )
        become_server(name, ctx.args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """What the server answers: the shell's words are in the environment, where it finds them too."""
        if (name := self.name or "") in server_commands():
            become_server(name, ctx.args)
        return super().shell_complete(ctx, incomplete)


def translate_help(command: click.Command) -> None:
    """Puts the help of a command, its options and its commands into the process's language."""
    if language.language == DEFAULT_LANGUAGE:
        return
    from saiten.commands.folding import TranslatedContext

    command.context_class = TranslatedContext
    command.help, command.epilog = tell(cleandoc(command.help or "")), tell(command.epilog or "")
    for one in command.params:
        if isinstance(one, click.Option):
            one.help = tell(one.help or "")
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        translate_help(inner)


def server_commands() -> frozenset[str]:
    """The names of the commands that the installed server has; none where there is no server."""
    return frozenset(point.name for point in entry_points(group=GROUP))


def become_server(name: str, arguments: list[str]) -> NoReturn:
    """Goes on as this command of the server: in the same process, so that signals and its exit code are its own."""
    os.execv(sys.executable, [sys.executable, "-I", "-m", "saiten_server", name, *arguments])  # noqa: S606 - no shell is wanted


@click.group(cls=CallersGroup, context_settings=HELP_OPTIONS, epilog=exits.EPILOG)
@click.version_option(__version__, prog_name="saiten")
@click.pass_context
def saiten(context: click.Context) -> None:
    """Saiten (採点 · 채점) scores what dialogue systems say in Japanese and Korean."""
    if context.invoked_subcommand in CallersGroup.places:
        require_output()


def main() -> None:
    """Runs the command line. Every error is reported as one line that says what to do, never as a traceback."""
    open_streams()
    language.use_language(language.find_language(os.environ))
    translate_help(saiten)
    sys.exit(run(saiten))


def run(group: Callable[..., Any], *reported: type[Exception], say: Callable[[Any], str] = str) -> int:
    """Runs the command of this process's arguments and returns its exit code.

    Errors of the types `reported` are told in one line as well; `say` puts the `message` that they carry, or else a
    `detail`, into the process's language.
    """
    told: tuple[type[Exception], ...] = (SaitenError, *reported)
    try:
        # Outside standalone mode click returns the code of an Exit, and otherwise what the command returned: nothing.
        code: int | None = group(prog_name="saiten", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo(tell("saiten: interrupted"), err=True)
        return exits.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except told as error:
        click.echo(f"saiten: {say(getattr(error, 'message', None) or getattr(error, 'detail', str(error)))}", err=True)
        # A rubric that is not there is a mistake on the command line, wherever it is noticed.
        unusable = isinstance(error, InputUnusable) or getattr(error, "code", None) == "unknown-rubric"
        return exits.UNUSABLE if unusable else exits.COULD_NOT_RUN
    except OutputFailed as failure:
        discard_output()
        if failure.reader_left:
            return exits.READER_LEFT
        click.echo(f"saiten: {failure}", err=True)
        return exits.COULD_NOT_RUN
    return code or 0
