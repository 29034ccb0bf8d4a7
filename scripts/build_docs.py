"""Builds docs/ into build/site, in English, Japanese and Korean: `make docs`. A broken link or anchor is an error.

Each language is a site of its own, so that its search finds its own pages: English at the top, the others in `ja/` and
`ko/`. They hold the pages that are translated, and lead to the English ones for the rest. Files outside docs/ that a
page links to go along in `repository/`, so that the site needs no other host.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
STAGE, SITE = BUILD / "docs", BUILD / "site"
LANGUAGES = {"en": "English", "ja": "日本語", "ko": "한국어"}
IN_ENGLISH = {"ja": "（英語）", "ko": " (영어)"}
LINK = re.compile(r"(```.*?```)|(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))", re.DOTALL)
"""A fenced block, which is left alone, or a link to a file."""


def load_navigation() -> dict[str, Any]:
    """`sections` in order, each with `title` by language and `pages`; titles of untranslated pages in `in_english`."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "navigation.yaml").read_text(encoding="utf-8"))
    return found


def find_source(page: str, language: str) -> Path | None:
    """The file in docs/ that has this page in this language."""
    path = ROOT / "docs" / (page if language == "en" else f"{page.removesuffix('.md')}.{language}.md")
    return path if path.exists() else None


class Stage:
    """The pages of one language, copied with their links changed to where things are on the site."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.folder = STAGE / language
        self._copied: set[str] = set()

    def add(self, source: Path, place: str) -> None:
        """Copies a page to this place, and what it links to."""
        if place in self._copied:
            return
        self._copied.add(place)
        (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
        text = LINK.sub(lambda match: self._lead(match, source, place), source.read_text(encoding="utf-8"))
        (self.folder / place).write_text(text, encoding="utf-8")

    def _lead(self, match: re.Match[str], source: Path, place: str) -> str:
        fenced, opening, written, closing = match.groups()
        if fenced is not None:
            return str(fenced)
        target = (source.parent / written).resolve()
        if not target.is_file():
            raise SystemExit(f"{source.relative_to(ROOT)}: {written} is no file")
        found = target.relative_to(ROOT)
        language = "en"
        if found.parts[0] == "docs":
            found = found.relative_to("docs")
            if found.suffix == ".md" and found.suffixes[0][1:] in LANGUAGES:
                language = found.suffixes[0][1:]
                found = Path(found.name.replace(f".{language}.", "."))
        else:
            found = Path("repository") / found
        if found.suffix != ".md":
            copy_file(target, STAGE / "en" / found)
        if language == self.language:
            if language == "en" and found.suffix == ".md":
                self.add(target, found.as_posix())
            return f"{opening}{relate(found.as_posix(), place)}{closing}"
        top = "" if self.language == "en" else "../"
        if found.suffix == ".md":
            # Zensical makes a folder's index of its README.
            found = found.with_name("index.html") if found.name == "README.md" else found.with_suffix(".html")
        there = top + ("" if language == "en" else f"{language}/") + found.as_posix()
        return f"{opening}{relate(there, place)}{closing}"

    def build(self) -> None:
        """Writes the configuration beside the pages and lets Zensical build them."""
        top = "" if self.language == "en" else "../"
        config = BUILD / f"zensical.{self.language}.toml"
        config.write_text(
            "\n".join(
                [
                    "[project]",
                    'site_name = "Saiten"',
                    f'docs_dir = "docs/{self.language}"',
                    f'site_dir = "site/{self.language}"' if top else 'site_dir = "site"',
                    "use_directory_urls = false",
                    f"nav = {self._navigate()}",
                    "[project.theme]",
                    f'language = "{self.language}"',
                    "font = false",
                    'features = ["content.code.copy", "navigation.sections", "navigation.top", "search.highlight"]',
                    "[[project.theme.palette]]",
                    'media = "(prefers-color-scheme: light)"',
                    'scheme = "default"',
                    "[[project.theme.palette]]",
                    'media = "(prefers-color-scheme: dark)"',
                    'scheme = "slate"',
                    "[project.extra]",
                    "generator = false",
                    *(
                        f'[[project.extra.alternate]]\nname = "{name}"\nlang = "{code}"\n'
                        f'link = "{top}{"" if code == "en" else code + "/"}index.html"'
                        for code, name in LANGUAGES.items()
                    ),
                    "[project.markdown_extensions.tables]",
                    "[project.markdown_extensions.toc]",
                    "permalink = true",
                    # As GitHub makes anchors, so that a link works in both places.
                    'slugify = {object = "pymdownx.slugs.slugify", kwds = {case = "lower"}}',
                    "[project.markdown_extensions.pymdownx.highlight]",
                    "[project.markdown_extensions.pymdownx.superfences]",
                ]
            )
            + "\n",
            encoding="utf-8",
        )
        zensical = Path(sys.executable).with_name("zensical")
        command = [str(zensical), "build", "--strict", "--clean", "--config-file", str(config)]
        done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            told = f"{done.stdout}{done.stderr}".partition("Traceback")[0]
            raise SystemExit(f"{self.language}: the site has faults\n{told}")

    def _navigate(self) -> str:
        """TOML for the pages in order; those that are in English only are links out of this site."""
        sections: list[str] = ['"index.md"']
        navigation = load_navigation()
        for section in navigation["sections"]:
            entries = []
            for page in section["pages"]:
                if find_source(page, self.language):
                    entries.append(json.dumps(page))
                else:
                    title = navigation["in_english"][page][self.language] + IN_ENGLISH[self.language]
                    entries.append(write_entry(title, json.dumps(f"../{page.removesuffix('.md')}.html")))
            sections.append(write_entry(section["title"][self.language], f"[{', '.join(entries)}]"))
        return f"[{', '.join(sections)}]"


def copy_file(source: Path, target: Path) -> None:
    """Files other than pages lie once, at the top, also those that only a translated page links to."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def write_entry(title: str, value: str) -> str:
    return f"{{{json.dumps(title, ensure_ascii=False)} = {value}}}"


def relate(target: str, place: str) -> str:
    """The target, seen from a page; both from the top of the language's site."""
    return os.path.relpath(target, PurePosixPath(place).parent).replace(os.sep, "/")


class Anchors(HTMLParser):
    """What a built page links to, and the places in it that a link can name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value and tag in ("a", "img", "link", "script"):
                self.links.append(value)


def find_broken() -> Iterator[str]:
    """Each link of the built site that leads nowhere; Zensical checks those between the pages of one language only."""
    pages = {path.resolve(): Anchors(path) for path in SITE.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            there = pages.get(target)
            if not target.exists() or (there and unquote(address.fragment) not in there.places):
                yield f"{path.relative_to(SITE)}: {unquote(link)}"


def main() -> None:
    for folder in (STAGE, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    pages = [page for section in load_navigation()["sections"] for page in section["pages"]]
    stages = [Stage(language) for language in LANGUAGES]
    for stage in stages:
        for page in ["index.md", *pages]:
            if source := find_source(page, stage.language):
                stage.add(source, page)
    for stage in stages:
        stage.build()
    if broken := sorted(find_broken()):
        raise SystemExit("\n".join(["links that lead nowhere:", *broken]))
    print(f"Open {SITE.relative_to(ROOT)}/index.html")


if __name__ == "__main__":
    main()
