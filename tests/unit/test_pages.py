"""Pages that are written from the code say what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from app.domain.evaluation import UnratedReason
from app.web.problems import STATUSES
from tests.support.command import saiten

ROOT = Path(__file__).resolve().parents[2]


def test_the_settings_page_is_up_to_date() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "write_settings_page.py"), "--check"]
    done = subprocess.run(check, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 0, "run `make pages`"


def test_the_page_on_scores_names_every_code() -> None:
    page = (ROOT / "docs" / "scores.md").read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py"))
    of_errors = {kind.code for kind in STATUSES}
    of_warnings = set(re.findall(r'Warned\(\s*code="([a-z-]+)"', source))
    of_reasons = set(get_args(UnratedReason))
    refused = set(re.findall(r'Refused\(\s*\d+,\s*"([a-z-]+)"', source))
    assert len(of_warnings) >= 4
    assert "`suspected-injection`" in page
    assert len(refused) >= 8
    missing = {code for code in of_errors | of_warnings | of_reasons | refused if f"`{code}`" not in page}
    assert missing == set()


def test_the_readme_shows_what_the_demo_prints(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.split("```text\n")[1].split("```")[0]
    printed = {line.rstrip() for line in saiten("demo", folder=tmp_path).stdout.splitlines()}
    assert [line for line in block.splitlines() if line.rstrip() not in printed] == []


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
