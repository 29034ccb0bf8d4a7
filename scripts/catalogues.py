"""Compiles the catalogues of the commands, and says what is missing: `python scripts/catalogues.py [--write]`.

`client/saiten/locales/{ja,ko}/LC_MESSAGES/saiten.po` and `app/cli/locales/{ja,ko}/LC_MESSAGES/saiten-server.po` are
written by hand; the `.mo` beside each is what commands read, so that a wheel needs no compiler. With `--write` messages
that are new are added without a translation. What the server's commands share with the client's is the latter's.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from inspect import cleandoc
from io import BytesIO
from pathlib import Path

import click
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from saiten.commands import LazyGroup, exits, saiten
from saiten.commands.init import list_comments
from saiten.core.language import DOMAIN, LOCALES
from saiten_server.cli import CATALOGUE, SERVER_COMMANDS, ServersGroup

CLIENT = Path(__file__).resolve().parents[1] / "client" / "saiten"
SERVER = CLIENT.parents[1] / "app" / "cli"
FOLDERS = {DOMAIN: LOCALES, CATALOGUE[0]: CATALOGUE[1]}
"""Where the catalogues of each domain are."""

LANGUAGES = ("ja", "ko")
NAMES_OF = {"ja": "Japanese", "ko": "Korean"}
DATE = datetime(2026, 11, 23, tzinfo=UTC)
NAMES = {"tell", "mark", "tell_all"}

SYSTEMS = ("No such file or directory", "Is a directory", "Permission denied", "No space left on device")
"""What the operating system says of files."""

CLICKS = (
    "Usage:",
    "Options",
    "Show this message and exit.",
    "Try '{command} {option}' for help.",
    "Error: {message}",
    "Missing command.",
    "Missing argument",
    "Missing option",
    "Choose from:\n\t{choices}",
    "No such option {name!r}.",
    "No such command {name!r}.",
    "Invalid value: {message}",
    "Invalid value for {param_hint}: {message}",
    "{value!r} is not a valid {number_type}.",
    "{value} is not in the range {range}.",
    "default: {default}",
    "required",
)
PLURALS = (
    ("Got unexpected extra argument ({args})", "Got unexpected extra arguments ({args})"),
    ("Option {name!r} requires an argument.", "Option {name!r} requires {nargs} arguments."),
    ("Did you mean {possibility}?", "(Did you mean one of: {possibilities}?)"),
    ("{value!r} is not {choice}.", "{value!r} is not one of {choices}."),
)
"""Of click's own messages those that the client's commands can show."""


def parse(source: str) -> ast.Module:
    """The syntax tree. CPython 3.11 counts the depth of trees for all threads together, and one that builds a tree at
    the same time makes it raise SystemError (gh-106905): then it is built again."""
    for _ in range(9):
        with suppress(SystemError):
            return ast.parse(source)
    return ast.parse(source)


def find_marked(folder: Path) -> Iterator[str]:
    """The literals that `tell` and `mark` are called with."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES:
                for text in node.args:
                    if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value:
                        yield text.value


def find_helps(command: click.Command) -> Iterator[str]:
    """The help of a command, its options and its commands."""
    yield cleandoc(command.help or "")
    yield from [command.epilog] if command.epilog else []
    yield from (one.help for one in command.params if isinstance(one, click.Option) and one.help)
    if isinstance(command, click.Group):
        context = click.Context(command)
        lister = LazyGroup.list_commands if isinstance(command, LazyGroup) else type(command).list_commands
        for name in lister(command, context):  # type: ignore[arg-type]
            inner = command.get_command(context, name)
            yield from find_helps(inner) if inner else ()


def find_server_helps() -> Iterator[str]:
    """The help of the server's commands."""
    context = click.Context(click.Group())
    for name in SERVER_COMMANDS:
        command = ServersGroup().get_command(context, name)
        # That of an analysis is put together of messages of its own.
        yield from (text for text in find_helps(command) if "\n\b\nExample:" not in text) if command else ()


Message = str | tuple[str, str]
"""A message, or one for a single thing and one for several."""


def list_messages(domain: str = DOMAIN) -> list[Message]:
    """Every message of the client's commands, or those that only the server's have, once."""
    if domain != DOMAIN:
        own = [*find_marked(SERVER), *find_server_helps()]
        clients = set(list_messages())
        return [message for message in dict.fromkeys(own) if message and message not in clients]
    found: list[Message] = [
        *find_marked(CLIENT),
        *find_helps(saiten),
        *(one for path in sorted((CLIENT / "templates").iterdir()) for one in list_comments(path.read_text("utf-8"))),
        exits.EPILOG,
        "system",
        "response",
        "notes",
        *SYSTEMS,
        *CLICKS,
        *PLURALS,
    ]
    return list(dict.fromkeys(found))


def path_of(language: str, kind: str, domain: str = DOMAIN) -> Path:
    """The catalogue of a language as text (`po`) or compiled (`mo`)."""
    return FOLDERS[domain] / language / "LC_MESSAGES" / f"{domain}.{kind}"


def read_catalogue(language: str, domain: str = DOMAIN) -> Catalog:
    """What is translated; empty where there is no such file."""
    path = path_of(language, "po", domain)
    return read_po(BytesIO(path.read_bytes()), locale=language) if path.exists() else Catalog(locale=language)


def compile_catalogue(catalogue: Catalog) -> bytes:
    """The catalogue as gettext reads it."""
    compiled = BytesIO()
    write_mo(compiled, catalogue)
    return compiled.getvalue()


def last(text: str | Sequence[str]) -> str:
    """The text, or that for several things."""
    return text if isinstance(text, str) else text[-1]


def placeholders(message: str) -> set[str]:
    """The values that a message names, with their formats."""
    return set(re.findall(r'(?<!\{)\{[^{}"]+\}', message))


def check(language: str, domain: str = DOMAIN) -> list[str]:
    """What is wrong with the catalogue of a language."""
    catalogue, messages = read_catalogue(language, domain), list_messages(domain)
    faults = [f"{language}: not translated: {message!r}" for message in messages if not translated(catalogue, message)]
    faults += [f"{language}: no longer used: {one.id!r}" for one in catalogue if one.id and one.id not in set(messages)]
    faults += [
        f"{language}: other placeholders: {one.id!r}"
        for one in catalogue
        if one.string and placeholders(last(one.id)) != placeholders(last(one.string))
    ]
    if path_of(language, "mo", domain).read_bytes() != compile_catalogue(catalogue):
        faults.append(f"{language}: {domain}.mo is not that of {domain}.po; run python scripts/catalogues.py --write")
    return faults


def translated(catalogue: Catalog, message: Message) -> str:
    """The translation; empty where there is none."""
    found = catalogue.get(message)
    return last(found.string) if found and found.string else ""


def write(language: str, domain: str = DOMAIN) -> None:
    """Writes both files: messages in the order of the code, those that are no longer used left out."""
    old = read_catalogue(language, domain)
    # Fixed dates: the files change where a message does.
    new = Catalog(
        locale=language,
        charset="utf-8",
        fuzzy=False,
        project="Saiten",
        version="1",
        header_comment=f"# What the command `saiten` says, in {NAMES_OF[language]}.",
        creation_date=DATE,
        revision_date=DATE,
        last_translator="Saiten",
        language_team=language,
        msgid_bugs_address="-",
    )
    for message in list_messages(domain):
        told = translated(old, message)
        new.add(message, told if isinstance(message, str) else (told,))
    path_of(language, "po", domain).parent.mkdir(parents=True, exist_ok=True)
    written = BytesIO()
    write_po(written, new, width=120, no_location=True, omit_header=False)
    path_of(language, "po", domain).write_bytes(written.getvalue())
    path_of(language, "mo", domain).write_bytes(compile_catalogue(read_catalogue(language, domain)))


def main() -> None:
    """Writes the catalogues, or tells what is wrong with them."""
    every = [(language, domain) for domain in FOLDERS for language in LANGUAGES]
    if "--write" in sys.argv[1:]:
        for language, domain in every:
            write(language, domain)
    faults = [fault for language, domain in every for fault in check(language, domain)]
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
