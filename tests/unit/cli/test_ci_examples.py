"""The CI examples: valid for their vendors, with options that there are, and with exit codes taken as they are meant."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from app import __version__
from saiten.commands.gate import command

CI = Path(__file__).resolve().parents[3] / "examples" / "ci"
SCHEMAS = {"github-actions.yml": "vendor.github-workflows", "gitlab-ci.yml": "vendor.gitlab-ci"}


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CI / name).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(("name", "schema"), SCHEMAS.items())
def test_an_example_is_valid(name: str, schema: str) -> None:
    check = [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", schema, str(CI / name)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def list_scripts(name: str) -> list[str]:
    """Every shell text of the example."""
    if name == "github-actions.yml":
        return [step["run"] for step in load(name)["jobs"]["gate"]["steps"] if "run" in step]
    jobs = [job for job in load(name).values() if isinstance(job, dict)]
    return [line for job in jobs for key in ("before_script", "script") for line in job.get(key, [])]


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_example_calls_this_version_with_options_that_there_are(name: str) -> None:
    scripts = "\n".join(list_scripts(name))
    assert f"saiten=={__version__}" in scripts
    calls = re.findall(r"saiten gate ([^|\n]*)", scripts)
    assert len(calls) == 2
    for call in calls:
        parser = command.make_parser(click.Context(command))
        options, rest, _ = parser.parse_args(shlex.split(call))
        assert ("record" in options) != ("markdown" in options)
        assert rest == []


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 1), (2, 0), (3, 3)])
def test_the_github_step_takes_inconclusive_for_a_warning_only(tmp_path: Path, code: int, ends: int) -> None:
    step = next(run for run in list_scripts("github-actions.yml") if "code=$?" in run)
    fake = tmp_path / "saiten"
    fake.write_text(f"#!/bin/sh\n[ {code} -eq 3 ] || echo '### told' > saiten.md\nexit {code}\n")
    fake.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    # As GitHub's runner calls `shell: bash`.
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step]
    done = subprocess.run(shell, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == ends, done.stderr
    assert ("::warning" in done.stdout) == (code == 2)
    assert (tmp_path / "summary").exists() == (code != 3)


def test_the_gitlab_job_allows_inconclusive_only() -> None:
    assert load("gitlab-ci.yml")["saiten-gate"]["allow_failure"] == {"exit_codes": 2}
