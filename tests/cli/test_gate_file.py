"""`saiten.toml`: every mistake in it is named with its place, and the command line comes before it."""

import json
from pathlib import Path
from typing import Any

import click
import pytest

from saiten import Connection
from saiten.commands.files import InvalidItems
from saiten.commands.gate import GateCommand, print_verdict
from saiten.commands.gate_settings import GateSettings, check_settings, make_settings, read_gate_file, read_rules
from tests.support.gates import FAILED, answer, make_report
from tests.support.serving import serving

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "saiten.toml"


def write(folder: Path, text: str) -> str:
    (folder / "saiten.toml").write_text(text, encoding="utf-8")
    return str(folder / "saiten.toml")


def read(path: str | None, **options: Any) -> GateSettings:
    return make_settings(read_gate_file(path), options, "saiten.toml")


def test_without_a_file_there_are_only_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read(None) == GateSettings()


def test_the_file_in_the_working_directory_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "[gate]\nalpha = 0.01\n")
    assert read(None).alpha == 0.01


def test_options_come_before_the_file_and_replace_its_rules(tmp_path: Path) -> None:
    path = write(tmp_path, '[gate]\nname = "main"\nalpha = 0.01\n[[gate.rules]]\naspect = "overall"\nmax_drop = 1\n')
    assert read(path).rules == [{"aspect": "overall", "max_drop": 1}]
    settings = read(path, alpha=0.1, rules=read_rules(("relevance=2",), ("relevance=0.5", "ssa=0"), ("any=2",)))
    assert (settings.alpha, settings.name) == (0.1, "main")
    assert settings.rules == [
        {"aspect": "relevance", "min_mean": 2.0, "max_drop": 0.5},
        {"aspect": "ssa", "max_drop": 0.0},
        {"finding": "any", "max_rise": 2.0},
    ]


def test_the_example_names_every_key(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert {rule["aspect"] for rule in read(str(EXAMPLE)).rules} == {"overall", "relevance", "consistency"}
    assert [
        field.alias or name for name, field in GateSettings.model_fields.items() if (field.alias or name) not in text
    ] == []
    keys = [line.removeprefix("# ") if " = " in line else line for line in text.splitlines()]
    settings = read(write(tmp_path, "\n".join(keys)))
    assert (settings.url, settings.budget_usd) == ("https://saiten.example.org", 5.0)
    defaults = ("relevance", "test", "allow_signature_mismatch", "min_coverage", "alpha", "path", "rubric")
    assert [getattr(settings, name) for name in defaults] == [getattr(GateSettings(), name) for name in defaults]


BROKEN = {
    "syntax": ("[gate]\nalpha = = 3\n", "Invalid value (at line 2, column 9)"),
    "no table": ("", "there is no table [gate]"),
    "another table": ("gate = 3\n", "there is no table [gate]"),
    "outside": ("alpha = 0.1\n[gate]\n", "alpha: is outside the table [gate]"),
    "unknown": ("[gate]\nmax_drops = 3\n", "gate.max_drops: is not a field that is known here"),
    "misspelt": (
        "[gate]\nmin-coverage = 1\n",
        "gate.min-coverage: is not a field that is known here; did you mean 'min_coverage'",
    ),
    "wrong type": ('[gate]\nalpha = "0.05"\n', "gate.alpha: must be a number"),
    "a date": ("[gate]\nname = 2026-11-21\n", "gate.name: must be a text"),
    "not finite": ("[gate]\nmin_coverage = nan\n", "gate.min_coverage: "),
}


@pytest.mark.parametrize(("text", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_pointed_at(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InvalidItems) as caught:
        make_settings(read_gate_file(path), {}, path)
    assert caught.value.message.startswith(f"{path}: ")
    assert words in caught.value.message
    assert len(caught.value.message.splitlines()) == 1


SERVICE = {
    "an empty rule": ('[gate]\n[[gate.rules]]\naspect = "overall"\n', "gate.rules.0: needs min_mean or max_drop"),
    "a rule of none": ("[gate]\n[[gate.rules]]\nmax_drop = 1\n", "gate.rules.0: needs aspect, finding or measure"),
    "a negative drop": ('[gate]\n[[gate.rules]]\naspect = "a"\nmax_drop = -1\n', "gate.rules.0.max_drop: should be"),
    "a judge's option": ("[gate.judge]\nsamples = 99\n", "gate.judge.samples: "),
}


async def check(service: Connection, path: str, **options: Any) -> str:
    """What is wrong with the settings by the service's word."""
    table = {} if options else read_gate_file(path)
    with pytest.raises(InvalidItems) as caught:
        await check_settings(service, make_settings(table, options, path), options, path, rubrics=None)
    return caught.value.message


async def test_what_the_service_refuses_is_pointed_at_in_the_file(tmp_path: Path) -> None:
    async with serving(tmp_path) as client, Connection(str(client.base_url)) as service:
        for text, words in SERVICE.values():
            path = write(tmp_path, text)
            told = await check(service, path)
            assert told.startswith(f"{path}: ")
            assert words in told


async def test_an_option_that_the_service_refuses_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    async with serving(tmp_path) as client, Connection(str(client.base_url)) as service:
        for options, words in REFUSED.values():
            assert (await check(service, "saiten.toml", **options)).startswith(words)


def test_many_faults_are_counted_and_not_all_listed(tmp_path: Path) -> None:
    path = write(tmp_path, "[gate]\n" + "".join(f"key{number} = 0\n" for number in range(7)))
    with pytest.raises(InvalidItems) as caught:
        make_settings(read_gate_file(path), {}, path)
    assert len(caught.value.message.splitlines()) == 6
    assert caught.value.message.endswith("\n… and 2 more")


def test_a_run_that_is_only_recorded_has_passed_no_gate(capsys: pytest.CaptureFixture[str]) -> None:
    report = answer(make_report([5.0] * 12))
    print_verdict(report.model_dump(mode="json"), report, as_json=False, recorded=True)
    assert capsys.readouterr().out.splitlines()[0] == "baseline recorded"


def test_json_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    # U+009B begins a terminal's commands, and JSON need not escape it.
    report = answer(make_report(FAILED, candidate="\x9b31mnew"))
    print_verdict(report.model_dump(mode="json"), report, as_json=True, recorded=False)
    printed = capsys.readouterr().out
    assert "\x9b" not in printed
    assert json.loads(printed)["comparison"]["candidate"] == "\x9b31mnew"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"[gate]\nname = '\xff'\n")
    for path, words in (("none.toml", "No such file"), (".", "Is a directory"), ("latin.toml", "not UTF-8 (byte 15)")):
        with pytest.raises(InvalidItems, match=words.replace("(", r"\(").replace(")", r"\)")):
            read_gate_file(str(tmp_path / path))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "alpha": ({"alpha": 2.0}, "--alpha: should be less than 0.5"),
    "budget": ({"budget_usd": -1.0}, "--budget: "),
    "rule": ({"rules": [{"aspect": "", "max_drop": 1.0}]}, "--max-drop or --min-mean of '': "),
    "rise": ({"rules": [{"finding": "", "max_rise": 1.0}]}, "--max-rise of '': "),
}

OPTIONS = {
    "timeout": ({"timeout_seconds": 0.0}, "--timeout: "),
    "rise": ({"rules": [{"finding": "a", "max_rise": float("nan")}]}, "--max-rise of 'a': "),
    "number": ({"rules": [{"aspect": "a", "min_mean": float("nan")}]}, "--max-drop or --min-mean of 'a': "),
}


@pytest.mark.parametrize(("options", "words"), OPTIONS.values(), ids=OPTIONS.keys())
def test_a_wrong_option_is_not_blamed_on_the_file(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidItems) as caught:
        make_settings({}, options, "saiten.toml")
    assert caught.value.message.startswith(words)


@pytest.mark.parametrize("written", ["overall", "overall=", "overall=low", "=", ""])
def test_a_rule_that_is_none(written: str) -> None:
    with pytest.raises(InvalidItems, match=r"--max-drop: write it like overall=0\.1"):
        read_rules((), (written,))
    with pytest.raises(InvalidItems, match=r"--max-rise: write it like register-shift=2"):
        read_rules((), (), (written,))


def test_a_defect_is_no_failed_gate(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oops")

    with pytest.raises(click.ClickException) as raised:
        GateCommand("gate", callback=broken).main([], standalone_mode=False)
    assert raised.value.exit_code == 3
    assert "a defect of Saiten (ZeroDivisionError)" in raised.value.message
    assert "Traceback" in capsys.readouterr().err
