"""`saiten init`: the files that a bot's repository needs for its first gate."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from saiten import __version__
from saiten.commands.bot import BotOptions
from saiten.commands.collect import write_items
from saiten.commands.comments import is_comment
from saiten.commands.files import InvalidItems
from saiten.commands.folding import fold
from saiten.commands.gate_settings import GATE_FILE
from saiten.commands.items import Reading, choose_reading, warn_of_repeats, where_option
from saiten.core import language
from saiten.core.formats import UnreadableInput, read_items
from saiten.core.language import mark, tell
from saiten.core.messages import DEFAULT_LANGUAGE
from saiten.core.plain_text import printable

NONE = "none"
CONTEXTS = "contexts.ndjson"
CANDIDATES = "candidates.ndjson"
RECORD = "saiten gate --record baseline.ndjson"
HANGUL_SYLLABLE = re.compile("[\uac00-\ud7a3]")
RUBRIC_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}(?:@[1-9][0-9]{0,8})?")

MAIN_MEASURES = {"ja-dialogue": "overall", "ko-dialogue": "overall", "ko-comment": "ssa", "lfqa": "mate"}
"""The measure of a shipped rubric that says the most, and that the first gate is about."""

ABOUT = mark(
    "# What a build of the bot must hold. `saiten gate` takes this file from the working directory; options of the\n"
    "# command line come before it."
)
RECORDED = mark("# written by `saiten gate --record baseline.ndjson`")
EXPLAINED = mark("# the judge gives a reason with each rating; about 80 tokens more an aspect")
SERVED = mark("# a team's service, with its key in SAITEN_API_KEY")
ASSERTED = mark(
    "# What every response must hold, whatever the judge says. Remove the signs of comments, and fit the values."
)

SETTINGS = """\
{about}

[gate]
candidate = "{candidates}"
baseline = "baseline.ndjson"           {recorded}
rubric = {rubric}
judge = {{ explain = true }}             {explained}
{anchored}# url = "https://saiten.example.org"   {served}

{rules}
{asserted}
# [[assertions]]
# max_characters = 400
#
# [[assertions]]
# not_contains = "As an AI"
"""

CHECKED = mark("# did the judge itself move since the baseline?")
ANCHORED = """\
check_judge = true                     {checked}
judge_reference = "judge.json"
"""

RULED = mark("# The build fails where the mean fell beyond chance and, as observed, by more than this.")
RULE = """\
{ruled}
[[gate.rules]]
aspect = "{aspect}"
max_drop = 0.1
"""

NO_RULE = mark("# Without rules no aspect may drop. A rule: [[gate.rules]], aspect = NAME, max_drop = 0.1.")

ASKS = {
    "github-actions.yml": "run: python3 -m mybot answer contexts.ndjson > candidates.ndjson",
    "gitlab-ci.yml": "python -m mybot answer contexts.ndjson > candidates.ndjson",
}
"""The line of each template that lets the bot answer."""


@click.command("init")
@click.option("--data", metavar="FILE", help="A file of dialogues: CSV, XLSX, NDJSON, JSON, or a log of another tool.")
@click.option("--bot", metavar="URL|COMMAND|none", help="How the bot is asked; none: the file has its responses.")
@click.option(
    "--rubric", metavar="ID", help="By which rubric: ja-dialogue, ko-dialogue, ko-comment, lfqa, or your own."
)
@click.option("--ci", type=click.Choice(["github", "gitlab", NONE]), help="For which CI a workflow is written.")
@click.option(
    "--map", "maps", multiple=True, metavar="TARGET=COLUMN,…", help="Columns whose names are not known, as for convert."
)
@where_option
@click.option("--force", is_flag=True, help="Replace files that are there.")
def command(
    data: str | None,
    bot: str | None,
    rubric: str | None,
    ci: str | None,
    maps: tuple[str, ...],
    wheres: tuple[str, ...],
    force: bool,
) -> None:
    """Write saiten.toml, a CI workflow, and your data as items, and say what to do next.

    Asks on a terminal for what no option says. Nothing that is there is replaced without --force.

    Exit 0: written; 2: bad usage or input.
    """
    require_answers({"--data": data, "--bot": bot, "--rubric": rubric, "--ci": ci})
    data = data or click.prompt(tell("A file of your dialogues (CSV, Excel, JSON)"))
    bot = bot or click.prompt(
        tell("How is your bot asked? A URL, a command, or none: the file has its responses"), default=NONE
    )
    has_bot = bot != NONE
    if has_bot:
        check_bot(bot)
    items, report, builds = read_data(str(data), choose_reading(None, maps, None, wheres), has_bot=has_bot)
    rubric = rubric or click.prompt(tell("Rubric"), default=guess_rubric(items))
    if not RUBRIC_NAME.fullmatch(str(rubric)):
        raise click.UsageError(tell("--rubric: lower-case letters, digits, '.', '_' and '-'"))
    ci = ci or click.prompt("CI", "github", type=click.Choice(["github", "gitlab", NONE]))

    answered = collect_line(bot) if has_bot else ""
    texts = {Path(GATE_FILE): write_settings(str(rubric)), **workflow_of(str(ci), answered)}
    mapped = Path(CONTEXTS if has_bot else CANDIDATES)
    write_all(texts, mapped, items, str(data), force=force)
    click.echo(f"{data}: " + "\n  ".join(report))
    click.echo(tell("wrote {files}", files=", ".join(map(str, [mapped, *texts]))))
    if ci == "gitlab":
        click.echo(tell("in .gitlab-ci.yml: {line}", line="include: [{local: saiten.gitlab-ci.yml}]"))
    if has_bot:
        click.echo(tell("next: {command}", command=answered))
        click.echo(tell("then: {command}", command=RECORD))
    elif len(builds) > 1:
        click.echo(tell("next: {command}", command=f"{RECORD} {builds[0]}"))
        click.echo(tell("then: {command}", command=f"saiten gate {builds[1]}"))
    else:
        click.echo(tell("next: {command}", command=RECORD))


def require_answers(given: Mapping[str, str | None]) -> None:
    """Raises UsageError where there is something to ask and no terminal to ask on."""
    missing = [option for option, value in given.items() if not value]
    if missing and not (sys.stdin is not None and sys.stdin.isatty()):
        raise click.UsageError(tell("there is no terminal to ask on: give {options} too", options=", ".join(missing)))


def check_bot(bot: str) -> None:
    """Raises InvalidItems for a bot that cannot be asked."""
    if not bot.isprintable():
        raise InvalidItems(tell("--bot: write it on one line"))
    BotOptions(bot).open()


def collect_line(bot: str) -> str:
    """The command that asks the bot."""
    return f"saiten collect --dataset {CONTEXTS} --bot {shlex.quote(bot)} --output {CANDIDATES}"


def read_data(data: str, reading: Reading, *, has_bot: bool) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """The items of the file, without responses where the bot will give them, the conversion report, and where the file
    has several builds the options that take one each."""
    builds: list[str] = []
    try:
        reader = read_items(
            data, mapping=reading.mapping or None, on_missing="keep" if has_bot else "skip", where=reading.where
        )
        items = [found.value for found in reader]
        if not has_bot:
            builds = warn_of_repeats(data, items)
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None
    report = [*reader.report.lines()]
    if not items:
        told = "\n  ".join(report)
        none = tell("no item was found; name the columns (--map response=COLUMN,context=COLUMN), or the bot (--bot)")
        raise InvalidItems(f"{data}: {told}\n{none}")
    if has_bot:
        report += [tell("responses: left out where there are any, since the bot gives its own")]
        items = [{key: part for key, part in item.items() if key not in {"response", "responses"}} for item in items]
    width = len(str(len(items)))
    # Without ids two runs have no pairs, and a gate sees less.
    return [{"id": f"item-{at:0{width}}", **item} for at, item in enumerate(items, start=1)], report, builds


def guess_rubric(items: list[dict[str, Any]]) -> str:
    """A rubric in the language of the first items; of the Korean ones that for comments, where each is on a text."""
    first = items[:20]
    if not HANGUL_SYLLABLE.search(json.dumps(first, ensure_ascii=False)):
        return "ja-dialogue"
    return "ko-comment" if all(is_comment(item.get("context")) for item in first) else "ko-dialogue"


def write_settings(rubric: str) -> str:
    """The text of saiten.toml."""
    aspect = MAIN_MEASURES.get(rubric.partition("@")[0])
    return SETTINGS.format(
        candidates=CANDIDATES,
        rubric=json.dumps(rubric),
        rules=RULE.format(aspect=aspect, ruled=tell(RULED)) if aspect else f"{tell(NO_RULE)}\n",
        anchored=ANCHORED.format(checked=tell(CHECKED)) if aspect else "",
        about=tell(ABOUT),
        recorded=tell(RECORDED),
        explained=tell(EXPLAINED),
        served=tell(SERVED),
        asserted=tell(ASSERTED),
    )


def workflow_of(ci: str, answered: str) -> dict[Path, str]:
    """The files of the CI, by their places. `answered` is the command that asks the bot, empty where there is none."""
    if ci == "github":
        return {
            Path(".github/workflows/saiten.yml"): fit_template("github-actions.yml", answered),
            Path(".github/actions/saiten/action.yml"): translate_comments(read_template("action.yml")),
        }
    return {Path("saiten.gitlab-ci.yml"): fit_template("gitlab-ci.yml", answered)} if ci == "gitlab" else {}


def fit_template(name: str, answered: str) -> str:
    """A template with the command that lets the bot answer in its place."""
    text, asks = translate_comments(read_template(name)), ASKS[name]
    install = [f'pip install --quiet "saiten=={__version__}"'] if name == "github-actions.yml" else []
    lines = [*install, answered] if answered else [tell(YOURS), f"test -f {CANDIDATES}"]
    before = next(line for line in text.splitlines() if asks in line)
    indent = " " * (len(before) - len(before.lstrip()) + 2)
    key = "run: |" if asks.startswith("run: ") else "|"
    block = "\n".join([key, *(indent + line for line in lines)])
    return text.replace(asks, block)


COMMENT = re.compile(r"^( *)# .+\n(?:\1# .+\n)*", re.MULTILINE)
"""A paragraph of comments in a template."""

WIDEST = 118
YOURS = mark("# Write candidates.ndjson here.")


def list_comments(text: str) -> Iterator[str]:
    """The comments of a template, each paragraph in one line."""
    for found in COMMENT.finditer(text):
        yield " ".join(line.strip().removeprefix("# ") for line in found[0].splitlines())


def translate_comments(text: str) -> str:
    """The template with its comments in the process's language."""
    if language.language == DEFAULT_LANGUAGE:
        return text
    told = map(tell, list_comments(text))
    return COMMENT.sub(
        lambda found: "".join(f"{found[1]}# {line}\n" for line in fold(next(told), WIDEST - len(found[1]) - 2)), text
    )


def read_template(name: str) -> str:
    """A file that comes with the client; `examples/ci` of the repository has the same."""
    return files("saiten").joinpath("templates", name).read_text(encoding="utf-8")


def write_all(texts: Mapping[Path, str], mapped: Path, items: list[dict[str, Any]], data: str, *, force: bool) -> None:
    """Writes the files. Raises InvalidItems, before anything is written, where one is there and may not be replaced."""
    if there := [str(path) for path in (mapped, *texts) if os.path.lexists(path)]:
        if data != "-" and any(os.path.exists(path) and os.path.samefile(path, data) for path in there):
            raise InvalidItems(tell("{path}: this name is that of a file to be written; rename it first", path=data))
        if not force:
            raise InvalidItems(tell("{files}: is there already; --force replaces it", files=", ".join(there)))
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InvalidItems(printable(f"{error.filename}: {tell(error.strerror or '')}")) from None
    write_items(mapped, items)
