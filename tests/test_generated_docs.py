"""Pages that are written from the code say what the code says."""

import re
import runpy
import tomllib
from pathlib import Path
from typing import get_args

import pytest
import yaml
from prometheus_client import CollectorRegistry

from benchmarks import settings_page
from saiten_server.core.batch import BatchOptions
from saiten_server.core.evaluation import UnratedReason
from saiten_server.offline.columns import describe_columns
from saiten_server.platform.telemetry import FlowFigures, Telemetry
from saiten_server.platform.web.problems import HTTP_STATUSES
from saiten_server.runs.attempt import PAUSING
from saiten_server.runs.chunk import DEAD_LETTER, REFUSED_CODE
from saiten_server.runs.export import list_table_columns
from saiten_server.runs.provider_run import FAILED, UNAVAILABLE
from saiten_server.runs.store.leases import EXHAUSTED
from tests.support.command import saiten
from tests.support.small_rubrics import joint_rubric

ROOT = Path(__file__).resolve().parents[1]


def test_the_settings_page_is_up_to_date() -> None:
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.render(), "run `make pages`"


def test_the_page_on_scores_names_every_code() -> None:
    page = (ROOT / "docs" / "scores.md").read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py"))
    of_errors = {kind.code for kind in HTTP_STATUSES}
    of_warnings = set(re.findall(r'Warned\(\s*code="([a-z-]+)"', source))
    of_reasons = set(get_args(UnratedReason))
    refused = set(re.findall(r'Refused\(\s*\d+,\s*"([a-z-]+)"', source))
    assert len(of_warnings) >= 4
    assert "`suspected-injection`" in page
    assert len(refused) >= 8
    missing = {code for code in of_errors | of_warnings | of_reasons | refused if f"`{code}`" not in page}
    assert missing == set()


def test_the_page_on_batches_names_every_reason_and_metric() -> None:
    page = (ROOT / "docs" / "batches.md").read_text(encoding="utf-8")
    telemetry = Telemetry(CollectorRegistry())
    telemetry.flow(lambda: FlowFigures(1, 0, 0, 0.0))
    reasons = {
        *(error.code for error in PAUSING),
        EXHAUSTED,
        DEAD_LETTER,
        REFUSED_CODE,
        FAILED,
        UNAVAILABLE,
        "requested",
    }
    metrics = {family.name for family in telemetry.registry.collect()}
    assert len(metrics) >= 16
    assert {name for name in reasons if f"`{name}`" not in page} == set()
    assert {name for name in metrics if f"`{name}" not in page} == set()


def test_the_page_on_batches_names_every_column_of_the_csv() -> None:
    page = (ROOT / "docs" / "batches.md").read_text(encoding="utf-8")
    rubric = joint_rubric()
    header = [column.name for column in list_table_columns(rubric, BatchOptions(path="both"))]
    aspects = {aspect.id for aspect in rubric.aspects}
    columns = {name for name in header if name.partition(".")[0] not in aspects or name == "relevance.score"}
    assert {name for name in columns if f"`{name}`" not in page} == set()


def test_the_readmes_show_what_the_demo_prints(tmp_path: Path) -> None:
    printed = {line.rstrip() for line in saiten("demo", folder=tmp_path).stdout.splitlines()}
    for suffix, rubric in (("", "ja-dialogue"), (".ja", "ja-dialogue"), (".ko", "ko-dialogue")):
        readme = (ROOT / f"README{suffix}.md").read_text(encoding="utf-8")
        block = readme.split("```text\n")[1].split("```")[0]
        assert block.startswith(f"{rubric}: mean rating per aspect")
        assert [line for line in block.splitlines() if line.rstrip() not in printed] == []


PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (".", "docs", "examples", "helm", "client")
    for path in (ROOT / folder).glob("*.md")
)


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def read_drawing() -> dict[str, str]:
    """What stands behind each path of the drawing in CONTRIBUTING.md, in its order."""
    (block,) = re.findall(r"^```text\n(.*?)^```", CONTRIBUTING, re.DOTALL | re.MULTILINE)
    drawn, above = {}, ""
    for line in block.splitlines():
        name, about = line.split(maxsplit=1) if " " in line.strip() else (line.strip(), "")
        above = above if line.startswith(" ") else name
        drawn[f"{above}{name}" if line.startswith(" ") else name] = about
    return drawn


def test_what_to_read_before_a_change_is_short() -> None:
    assert len(CONTRIBUTING.split()) <= 700


def test_the_drawing_shows_each_folder_in_the_order_of_imports() -> None:
    drawn = [path.removeprefix("app/").rstrip("/") for path in read_drawing() if path.startswith("app/")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (order,) = [one["layers"] for one in contracts if one.get("containers") == ["saiten_server"]]
    assert [name.removesuffix(".py") for name in drawn if name] == order[::-1]


def test_every_path_in_the_drawing_exists() -> None:
    drawing = read_drawing()
    inner = [path + folder for path, about in drawing.items() for folder in re.findall(r"\b[a-z_]+/", about)]
    assert len(inner) >= 10
    assert [path for path in (*drawing, *inner) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("name", "fewest"), [("CONTRIBUTING.md", 25), ("docs/development.md", 25)])
def test_every_path_that_a_developer_is_told_exists(name: str, fewest: int) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    words = {word for code in re.findall(r"`([^`\n]+)`", page) for word in code.split()}
    named = {word for word in words if re.match(r"(app|benchmarks|client|docs|examples|helm|scripts|tests)/", word)}
    if name == "CONTRIBUTING.md":
        # What any capability may have is named without its folder.
        named |= {word for word in words if word.endswith((".py", ".toml", "/"))}
    paths = {word.replace("{ja,ko}", language) for word in named for language in ("ja", "ko")}
    assert len(paths) >= fewest
    assert [path for path in paths if not any((*ROOT.glob(path), *(ROOT / "app").rglob(path)))] == []


def list_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_links_lead_to_files_and_headings() -> None:
    broken = []
    for name in PAGES:
        page = ROOT / name
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target, anchor in re.findall(r"\]\(([^)\s:#]*)(?:#([^)]*))?\)", text):
            found = (page.parent / target).resolve() if target else page
            if not found.exists() or (anchor and anchor not in list_anchors(found)):
                broken.append(f"{name}: {target}#{anchor}")
    assert broken == []


def test_the_rows_of_a_table_have_the_cells_of_its_head() -> None:
    """A row without a head above it, or with fewer cells, is shown as text or under the wrong head."""
    broken = []
    for name in PAGES:
        text = re.sub(r"```.*?```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)
        for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
            rows = table.splitlines()
            cells = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
            if len(rows) < 2 or not re.fullmatch(r"[-| :]+", rows[1]) or len(set(cells)) > 1:
                broken.append(f"{name}: {rows[0]}")
    assert broken == []


def test_every_page_has_its_place_in_the_site() -> None:
    navigation = yaml.safe_load((ROOT / "docs" / "navigation.yaml").read_text(encoding="utf-8"))
    listed = [page for section in navigation["sections"] for page in section["pages"]]
    pages = {path.name for path in (ROOT / "docs").glob("*.md") if "." not in path.stem}
    assert sorted(listed) == sorted(pages - {"index.md"})
    translated = {
        page
        for page in pages
        if all((ROOT / "docs" / page).with_suffix(f".{code}.md").exists() for code in ("ja", "ko"))
    }
    assert set(navigation["in_english"]) == set(listed) - translated
    assert all(set(section["title"]) == {"en", "ja", "ko"} for section in navigation["sections"])


def test_a_translation_leads_to_the_index_that_the_site_makes_of_a_readme(tmp_path: Path) -> None:
    stage = runpy.run_path(str(ROOT / "scripts" / "build_docs.py"))["Stage"]("ja")
    stage.folder = tmp_path
    stage.add(ROOT / "docs" / "openapi.ja.md", "openapi.md")
    assert "(../repository/client/index.html)" in (tmp_path / "openapi.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("docs/")])
def test_a_page_leads_to_its_other_languages(name: str) -> None:
    stem, *own = Path(name).stem.split(".")
    others = {"": "English", ".ja": "日本語", ".ko": "한국어"}
    others.pop(f".{own[0]}" if own else "")
    leads = [
        f"[{title}]({stem}{code}.md)" for code, title in others.items() if (ROOT / f"docs/{stem}{code}.md").exists()
    ]
    third = (ROOT / name).read_text(encoding="utf-8").splitlines()[2]
    assert (third if third.startswith("[") else "") == " · ".join(leads)


@pytest.mark.parametrize("name", [name for name in PAGES if re.search(r"docs/.*\.(ja|ko)\.md", name)])
def test_a_translation_has_the_commands_and_outputs_of_its_page(name: str) -> None:
    def read_blocks(path: Path) -> list[str]:
        blocks = re.findall(r"^```.*?^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        # Comments are in the reader's language, and so is what `rubric check` finds at a place of a file.
        text = re.sub(r"(:\d+: /\S+:) [^\n]*", r"\1", "\0".join(blocks))
        return re.sub(r" +#[^\n]*|^#[^\n]*", "", text, flags=re.MULTILINE).split("\0")

    translation = ROOT / name
    original = translation.with_name(f"{translation.name.partition('.')[0]}.md")
    assert read_blocks(translation) == read_blocks(original)
    # What is translated is linked in the reader's language.
    suffix = translation.suffixes[0]
    links = set(re.findall(r"(?<!\[English)\]\(([a-z-]+)\.md", translation.read_text(encoding="utf-8")))
    assert {link for link in links if (ROOT / "docs" / f"{link}{suffix}.md").exists()} == set()


@pytest.mark.parametrize("code", ["ja", "ko"])
def test_a_readme_leads_to_the_pages_of_its_language(code: str) -> None:
    linked = set(re.findall(r"\]\(docs/([a-z-]+)\.md", (ROOT / f"README.{code}.md").read_text(encoding="utf-8")))
    assert {page for page in linked if (ROOT / "docs" / f"{page}.{code}.md").exists()} == set()


def test_the_page_on_files_of_results_has_the_declared_columns() -> None:
    page = (ROOT / "docs" / "offline-results.md").read_text(encoding="utf-8")
    assert page.endswith(describe_columns())


def test_commands_with_a_body_name_its_type() -> None:
    pages = {name: (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ") for name in PAGES}
    lines = [(name, line) for name, text in pages.items() for line in text.splitlines() if "curl " in line]
    sent = [(name, line) for name, line in lines if re.search(r" (-d|--data-binary) ", line)]
    assert len(sent) >= 10
    assert [one for one in sent if not re.search(r'Content-Type|-H "\$json"', one[1])] == []
