"""The page on rubrics stays true: its example loads, its output is real."""

import re
from pathlib import Path

import pytest

from saiten_server.core.rubric import compose
from saiten_server.scoring.rubrics.files import RubricFiles, check_rubric, default_folder, read_rubric_file

PAGE = (Path(__file__).parents[2] / "docs" / "rubrics.md").read_text(encoding="utf-8")


def block(language: str, title: str) -> str:
    """The one fenced block of the page with that language and title."""
    (found,) = re.findall(rf'^```{language} title="{re.escape(title)}"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def write(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(block("yaml", name), encoding="utf-8")
    return path


def test_the_example_loads_beside_the_shipped_rubrics(tmp_path: Path):
    assert check_rubric(write(tmp_path, "ja-support.yaml")) == []
    assert "ja-support" in [rubric.id for rubric in RubricFiles([default_folder(), tmp_path]).list()]


def test_the_composite_comes_to_what_the_page_says(tmp_path: Path):
    rubric = read_rubric_file(write(tmp_path, "ja-support.yaml"))
    # 0.5 · 1/2 + 0.5 · 1
    assert compose(rubric, {"politeness": 1, "resolution": 1}) == {"quality": 0.75}
    assert "0.5 · 1/2 + 0.5 · 1 = 0.75" in PAGE


def test_the_output_is_what_the_checker_says(tmp_path: Path):
    path = write(tmp_path, "tone.yaml")
    reports = "".join(fault.report(path.name) + "\n" for fault in check_rubric(path))
    assert reports == block("text", "tone.yaml")


@pytest.mark.parametrize("link", re.findall(r"\]\((\.\./[^)]+)\)", PAGE))
def test_links_lead_somewhere(link: str):
    assert (Path(__file__).parents[2] / "docs" / link).is_file()
