"""The CI examples: valid for their vendors, with options that there are, and with exit codes taken as they are meant."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from saiten.commands.gate import command
from saiten_server import __version__
from tests.support.command import saiten

CI = Path(__file__).resolve().parents[2] / "examples" / "ci"
SCHEMAS = {
    "github-actions.yml": "vendor.github-workflows",
    "action/action.yml": "vendor.github-actions",
    "gitlab-ci.yml": "vendor.gitlab-ci",
}
CALLING = ("action/action.yml", "gitlab-ci.yml")
NO_BASELINE = {
    "latest": "saiten: baseline latest:bot: there is no completed batch of that name",
    "file": "saiten: baseline.ndjson: No such file or directory; `saiten gate --record` makes one",
}


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
    if name == "action/action.yml":
        return [step["run"] for step in load(name)["runs"]["steps"] if "run" in step]
    jobs = [job for job in load(name).values() if isinstance(job, dict)]
    return [line for job in jobs for key in ("before_script", "script") for line in job.get(key, [])]


@pytest.mark.parametrize("name", CALLING)
def test_an_example_calls_this_version_with_options_that_there_are(name: str) -> None:
    text = (CI / name).read_text(encoding="utf-8")
    assert __version__ in text
    scripts = "\n".join(list_scripts(name)).replace("\\\n", " ")
    named = set(
        re.findall(r"(?<![\w-])--[a-z-]+", "\n".join(re.findall(r"(?:saiten gate|options\+=)([^|\n]*)", scripts)))
    )
    assert named >= {"--url", "--name", "--baseline", "--junit", "--markdown", "--record"}
    assert named <= {option for parameter in command.params for option in parameter.opts}


def test_the_workflow_uses_the_action_with_inputs_that_there_are() -> None:
    inputs = load("action/action.yml")["inputs"]
    steps = [step for step in load("github-actions.yml")["jobs"]["gate"]["steps"] if "saiten" in step.get("uses", "")]
    assert len(steps) == 2
    assert {name for step in steps for name in step.get("with", {})} <= inputs.keys()
    used = set(re.findall(r"inputs\.(\w+)", (CI / "action" / "action.yml").read_text(encoding="utf-8")))
    assert used == inputs.keys()


def run_script(
    script: str, folder: Path, code: int, says: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """The script with a `saiten` that says this on standard error, keeps its arguments, and ends with the code."""
    fake = folder / "saiten"
    told = f"[ {code} -eq 3 ] || echo '### told' > saiten.md"
    fake.write_text(f'#!/bin/sh\necho "$SAITEN_JUDGE $*" > called\ncat said >&2\n{told}\nexit {code}\n')
    fake.chmod(0o755)
    (folder / "said").write_text(says)
    files = {name: str(folder / name.lower()) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    empty = dict.fromkeys(("URL", "CANDIDATE", "BASELINE", "NAME", "RECORD"), "")
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        **empty,
        "COMMIT": "1a2b3c4d5e6f7890",
        "INCONCLUSIVE": "warning",
        **files,
        **variables,
    }
    # As GitHub's runner calls `shell: bash`.
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(shell, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def gate_step() -> str:
    return next(run for run in list_scripts("action/action.yml") if "code=$?" in run)


@pytest.mark.parametrize("says", ["", *NO_BASELINE.values()], ids=["", *NO_BASELINE])
@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 1), (2, 0), (3, 3)])
def test_the_action_takes_inconclusive_and_a_missing_baseline_for_no_error(
    tmp_path: Path, code: int, ends: int, says: str
) -> None:
    missing = code == 3 and says != ""
    done = run_script(gate_step(), tmp_path, code, says)
    assert done.returncode == (0 if missing else ends), done.stderr
    assert ("::warning" in done.stdout) == (code == 2)
    assert ("::notice" in done.stdout) == missing
    verdict = "no-baseline" if missing else ["pass", "fail", "inconclusive", "not-run"][code]
    assert (tmp_path / "github_output").read_text() == f"verdict={verdict}\n"
    summary = tmp_path / "github_step_summary"
    assert summary.exists() == (code != 3 or missing)
    assert not missing or "no baseline yet" in summary.read_text()


def test_the_action_passes_its_inputs_on(tmp_path: Path) -> None:
    done = run_script(gate_step(), tmp_path, 2, URL="http://h", CANDIDATE="a b.ndjson", INCONCLUSIVE="error")
    assert done.returncode == 2
    called = (tmp_path / "called").read_text().strip()
    build = "--metadata build=1a2b3c4d5e6f"
    assert called == f"gate {build} --url http://h --candidate a b.ndjson --junit saiten.xml --markdown saiten.md"
    assert run_script(gate_step(), tmp_path, 0, RECORD="b.ndjson", NAME="main").returncode == 0
    assert (tmp_path / "called").read_text().strip() == f"openai gate {build} --name main --record b.ndjson"
    assert (tmp_path / "github_output").read_text() == "verdict=inconclusive\nverdict=recorded\n"
    assert run_script(gate_step(), tmp_path, 1, RECORD="b.ndjson").returncode == 1


@pytest.mark.parametrize("baseline", ["latest:bot", "baseline.ndjson"])
def test_the_gate_says_what_the_action_takes_for_a_missing_baseline(tmp_path: Path, baseline: str) -> None:
    items = str(CI.parent / "branch.ndjson")
    done = saiten("gate", "--judge", "lexical", "--candidate", items, "--baseline", baseline, folder=tmp_path)
    assert done.returncode == 3
    assert run_script(gate_step(), tmp_path, 3, done.stderr).returncode == 0


@pytest.mark.parametrize(("code", "says", "ends"), [(1, "", 1), (3, "", 3), (3, NO_BASELINE["latest"], 0)])
def test_the_gitlab_job_explains_a_missing_baseline(tmp_path: Path, code: int, says: str, ends: int) -> None:
    script = next(line for line in list_scripts("gitlab-ci.yml") if "code=$?" in line)
    done = run_script(script, tmp_path, code, says)
    assert done.returncode == ends, done.stderr
    assert (tmp_path / "saiten.md").exists() == (ends != 3)


def test_the_gitlab_job_allows_inconclusive_only() -> None:
    assert load("gitlab-ci.yml")["saiten-gate"]["allow_failure"] == {"exit_codes": 2}
