"""`saiten rubric`: begin, check, list and show rubrics."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from saiten.commands import exits
from saiten.commands.output import console
from saiten.commands.service import URL
from saiten.core import language
from saiten.core.language import tell
from saiten_server.core.rubric import Rubric, name_version
from saiten_server.platform.bundled import bundled_folder
from saiten_server.platform.settings import read_settings
from saiten_server.scoring.rubrics.files import check_rubric, default_folder, open_rubrics, read_rubric_file

if TYPE_CHECKING:
    from saiten_server.cli.backend import Backend

T = TypeVar("T")


@click.group("rubric")
def command() -> None:
    """Begin, check, list and show rubrics."""


RUBRIC_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
NAME_PLACEHOLDER = "NAME"
"""What stands for the rubric's id in a scaffold."""

SCHEMA = "rubric.schema.json"


@command.command("new")
@click.argument("name")
@click.option("--language", required=True, type=click.Choice(["ja", "ko", "en"]), help="Of its texts and comments.")
@click.option("--folder", default=".", type=click.Path(path_type=Path), help="Where to write (the working directory).")
@click.option("--force", is_flag=True, help="Replace files that are there.")
def begin(name: str, language: str, folder: Path, force: bool) -> None:
    """Write a rubric to start from: NAME.yaml, the schema that editors check it by, and two dialogues to try it on."""
    if not RUBRIC_ID.fullmatch(name):
        raise click.UsageError(
            tell("NAME: lower-case letters, digits, '.', '_' and '-'; the first a letter or a digit")
        )
    if not force and any(one.id == name for one in open_rubrics(read_settings().rubrics).list()):
        raise click.UsageError(
            tell("a rubric {name} is there already; see it with `saiten rubric show {name}`", name=name)
        )
    scaffolds = bundled_folder("cli/scaffolds")
    texts = {
        folder / f"{name}.yaml": scaffolds.joinpath(f"{language}.yaml").read_text(encoding="utf-8"),
        folder / f"{name}.test.ndjson": scaffolds.joinpath(f"{language}.ndjson").read_text(encoding="utf-8"),
    }
    if there := [path for path in texts if path.exists() and not force]:
        raise click.UsageError(tell("{names}: is there already; --force replaces it", names=", ".join(map(str, there))))
    schema = folder / SCHEMA
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text.replace(NAME_PLACEHOLDER, name), encoding="utf-8")
        if force or not schema.exists():
            schema.write_bytes((default_folder() / SCHEMA).read_bytes())
    except OSError as error:
        raise click.UsageError(f"{error.filename or folder}: {error.strerror}") from None
    written, tried = (shlex.quote(str(path)) for path in texts)
    click.echo(tell("wrote {files}", files=", ".join((written, tried, shlex.quote(str(schema))))))
    click.echo(tell("next: {command}", command=f"saiten rubric check {written}"))
    click.echo(
        tell(
            "then, with an LLM judge: SAITEN_RUBRICS={folder} saiten score {tried}",
            folder=shlex.quote(str(folder)),
            tried=tried,
        )
    )


@command.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
def check_files(files: tuple[Path, ...]) -> None:
    """Say what is wrong in rubric files: FILE:LINE: FIELD: what. Exit 1 where anything is."""
    broken = False
    for path in files:
        faults = check_rubric(path)
        for fault in faults:
            click.echo(fault.report(path, language.language))
        if (
            faults
            and not path.exists()
            and any(one.id == str(path) for one in open_rubrics(read_settings().rubrics).list())
        ):
            click.echo(tell("{path} is no file; to look at a shipped rubric: saiten rubric show {path}", path=path))
        if not faults:
            rubric = read_rubric_file(path)
            aspects = tell(
                "{count} aspects in {languages}", count=len(rubric.aspects), languages=", ".join(rubric.languages)
            )
            click.echo(
                tell(
                    "{path}: {id} version {version}, {aspects}, digest {digest}",
                    path=path,
                    id=rubric.id,
                    version=rubric.version,
                    aspects=aspects,
                    digest=rubric.digest[:12],
                )
            )
        broken = broken or bool(faults)
    if broken:
        raise click.exceptions.Exit(exits.FELL_SHORT)


async def ask_service(url: str, ask: Callable[[Backend], Awaitable[T]]) -> T:
    """The answer of the service at `url`."""
    from saiten_server.cli.backend import open_backend

    async with open_backend(url) as backend:
        return await ask(backend)


async def fetch_all(backend: Backend) -> list[tuple[Rubric, Sequence[int]]]:
    """The service's rubrics in their newest versions, with all their versions."""
    listed = await backend.rubric_versions()
    return [(await backend.rubric(rubric_id), versions) for rubric_id, versions in listed.items()]


@command.command("list")
@URL
def show_all(url: str | None) -> None:
    """List the rubrics that the service knows, in their newest versions."""
    if url is not None:
        found = asyncio.run(ask_service(url, fetch_all))
    else:
        rubrics = open_rubrics(read_settings().rubrics)
        found = [(rubric, rubrics.versions(rubric.id)) for rubric in rubrics.list()]
    for rubric, versions in found:
        older = [name_version(rubric.id, version) for version in versions if version != rubric.version]
        also = tell(", also {versions}", versions=", ".join(older)) if older else ""
        click.echo(
            tell(
                "{id} version {version}, in {languages}, digest {digest}{also}",
                id=rubric.id,
                version=rubric.version,
                languages=", ".join(rubric.languages),
                digest=rubric.digest[:12],
                also=also,
            )
        )
        for aspect in rubric.aspects:
            low, high = aspect.scale
            blended = tell(", blended with relevance") if aspect.blended else ""
            click.echo(f"  {aspect.id} {low}..{high}  {aspect.name[rubric.source_language]}{blended}")
        for composite in rubric.composites:
            click.echo(
                tell(
                    "  {id}  {kind} of {aspects}",
                    id=composite.id,
                    kind=composite.kind,
                    aspects=", ".join(composite.aspects),
                )
            )


@command.command("show")
@click.argument("name", metavar="ID[@VERSION]")
@click.option("--json", "as_json", is_flag=True, help="The whole rubric as JSON.")
@click.option("--language", help="Language of the texts (the rubric's own).")
@URL
def show(name: str, as_json: bool, language: str | None, url: str | None) -> None:
    """Show one rubric: its aspects, levels and examples."""
    if url is not None:
        rubric = asyncio.run(ask_service(url, lambda backend: backend.exact_rubric(name)))
    else:
        rubric = open_rubrics(read_settings().rubrics).get(name)
    if as_json:
        click.echo(json.dumps(rubric.model_dump(mode="json"), ensure_ascii=False, indent=2))
        return
    chosen = language or rubric.source_language
    if chosen not in rubric.languages:
        raise click.UsageError(tell("{id} exists in {languages}", id=rubric.id, languages=", ".join(rubric.languages)))
    out = console()
    out.print(
        tell("{id} version {version}: {title}", id=rubric.id, version=rubric.version, title=rubric.title[chosen]),
        style="bold",
    )
    for aspect in rubric.aspects:
        out.print(f"\n{aspect.name[chosen]} ({aspect.id}): {aspect.question[chosen]}", style="bold")
        for level in aspect.levels:
            out.print(f"  {level.value} {level.label[chosen]}: {level.description[chosen]}")
            if level.example is not None:
                example = level.example[chosen]
                turns = " / ".join(f"{utterance.speaker}「{utterance.text}」" for utterance in example.context)
                out.print(f"    {turns} → 「{example.response}」", style="dim")
