"""`saiten analyze metrics`: what it reads, refuses and prints."""

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from saiten.commands.files import InvalidItems
from saiten_server.analyses.reference_metrics import FIGURES
from saiten_server.cli.analyze_metrics import NO_ENCODER, choose_encoder, command, read_metric_items
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.redaction import DROPPED
from saiten_server.platform.settings import Settings
from saiten_server.providers.bertscore.encoder import BertScoreEncoder
from tests.support.command import saiten
from tests.support.tiny_lm import save_gpt2

needs_torch = pytest.mark.skipif(
    any(find_spec(package) is None for package in ("torch", "transformers", "bert_score")),
    reason="the bertscore extra is not installed",
)
needs_rouge = pytest.mark.skipif(find_spec("rouge_score") is None, reason="the metrics extra is not installed")

ITEMS: list[dict[str, object]] = [
    {"system": "bot-a", "item": "1", "question": "Why?", "response": "It rains.", "reference": "It rains today."},
    {"system": "bot-b", "item": "1", "question": "Why?", "response": "No idea at all.", "reference": "It rains today."},
    {"system": "bot-a", "item": "2", "question": "When?", "response": "At noon, I think."},
]
RATED = [{**item, "ratings": {"acceptability": n, "formality": 0}} for n, item in enumerate(ITEMS)]


def ndjson(*items: object) -> bytes:
    return b"\n".join(json.dumps(item, ensure_ascii=False).encode() for item in items)


def metrics(*arguments: str, folder: Path, stdin: bytes, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `saiten analyze metrics`."""
    return saiten("analyze", "metrics", *arguments, folder=folder, stdin=stdin, SAITEN_ENCODER="", **variables)


def metrics_with_torch(*arguments: str, folder: Path, stdin: bytes, monkeypatch: pytest.MonkeyPatch) -> Result:
    """The same in this process, which imports PyTorch once for all tests: that takes a busy machine a minute."""
    # One thread: more of them only get in each other's way on a model this small, and beside other test processes.
    monkeypatch.setenv("SAITEN_ENCODER_THREADS", "1")
    monkeypatch.chdir(folder)
    return CliRunner().invoke(command, [*arguments], input=stdin)


@needs_rouge
def test_the_table_says_what_is_missing_and_why(tmp_path: Path) -> None:
    done = metrics("-", "--language", "en", folder=tmp_path, stdin=ndjson(*RATED))
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.strip()}
    # Lengths 2 and 4 of bot-a; ROUGE-1 of `it rains` against `it rains today` is 2 · (1 · 2/3) / (5/3) = 0.8.
    assert rows["bot-a"][:4] == ["bot-a", "2", "3.0", "0.800"]
    assert rows["all"][:3] == ["all", "3", "3.3"]
    assert "no R-1, R-2, R-L, BS F1 for 1 of 3: the item has no reference" in done.stdout
    assert "no PPL A, QA, RQA for 3 of 3: no language model was named (--lm)" in done.stdout
    assert "with formality: all human values are equal" in done.stdout
    assert "correlation of PPL" not in done.stdout
    assert "rouge: rouge-score-" in done.stdout


@needs_rouge
def test_json_is_the_report(tmp_path: Path) -> None:
    done = metrics("-", "--language", "ko", "--seed", "5", "--json", folder=tmp_path, stdin=json.dumps(RATED).encode())
    report = json.loads(done.stdout)
    assert (report["language"], report["seed"], report["items"]) == ("ko", 5, 3)
    assert [one["system"] for one in report["systems"]] == ["bot-a", "bot-b"]
    assert list(report["overall"]) == list(FIGURES)
    # Lengths 2, 4, 4 with ratings 0, 1, 2: (-4/3, 2/3, 2/3) and (-1, 0, 1) give 2 / √(8/3 · 2) = 0.866.
    assert report["correlations"]["acceptability"]["len"]["pearson"] == pytest.approx(0.8660254)
    assert report["correlations"]["acceptability"]["rouge1"]["undefined"]["pearson"].startswith("fewer than 3")
    assert report["unavailable"]["bertscore"]["the item has no reference"] == 1


@pytest.mark.parametrize("form", ["--json", "--items"])
def test_json_steers_no_terminal(tmp_path: Path, form: str) -> None:
    # U+009B begins a terminal's commands, and JSON need not escape it.
    item = {"response": "猫", "system": "\x9b31mbot"}
    done = metrics("-", "--language", "ko", form, folder=tmp_path, stdin=ndjson(item))
    assert (done.returncode, done.stderr) == (0, "")
    assert '"system": "\\u009b31mbot"' in done.stdout
    assert "\x9b" not in done.stdout


@needs_torch
@needs_rouge
def test_items_with_a_language_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_gpt2(tmp_path / "lm")
    arguments = ("-", "--language", "en", "--lm", str(tmp_path / "lm"), "--items")
    done = metrics_with_torch(*arguments, folder=tmp_path, stdin=ndjson(*ITEMS), monkeypatch=monkeypatch)
    assert (done.exit_code, done.stderr) == (0, "")
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert first["perplexity_a"] > 1
    assert len({first["perplexity_a"], first["perplexity_qa"], first["perplexity_rqa"]}) == 3
    assert set(second["unavailable"]) == {"bertscore"}
    assert third["rouge1"] is None


@needs_torch
def test_tools_that_were_named_and_are_absent_are_said_and_show_in_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = ("--lm", "/nowhere/model", "--encoder", "/nowhere/encoder")
    arguments = ("-", "--language", "ja", *named, "--items")
    done = metrics_with_torch(*arguments, folder=tmp_path, stdin=ndjson(*ITEMS), monkeypatch=monkeypatch)
    assert done.exit_code == 1
    reasons = {
        "--encoder": "the encoder's folder encoder does not exist",
        "--lm": "the language model's folder model does not exist",
    }
    said = [f"saiten: {option} measured nothing: {why}" for option, why in reasons.items()]
    assert done.stderr.splitlines() == said
    first, _, third = (json.loads(line)["unavailable"] for line in done.stdout.splitlines())
    assert (first["bertscore"], first["perplexity_qa"]) == tuple(reasons.values())
    assert third["bertscore"] == "the item has no reference"


@needs_torch
def test_an_encoder_without_references_did_not_fall_short(tmp_path: Path) -> None:
    bare = ndjson({"response": "猫"})
    done = metrics("-", "--language", "ja", "--encoder", "/nowhere/m", folder=tmp_path, stdin=bare)
    assert (done.returncode, done.stderr) == (0, "")


MISTAKES = {
    "bad line": (ndjson(ITEMS[0]) + b'\n{"response":', "standard input:2: the document is not valid JSON"),
    "twice the same key": (b'{"response": "a", "response": "b"}', "standard input:1: an object holds the same key"),
    "no number": (b'{"response": "a", "ratings": {"x": NaN}}', "standard input:1: NaN is not a JSON number"),
    "no response": (ndjson(ITEMS[0], {"system": "a"}), "standard input:2: /response: is missing"),
    "text for a number": (
        ndjson({**ITEMS[0], "ratings": {"x": "3"}}),
        "standard input:1: /ratings/x: must be a number",
    ),
    "unknown field": (ndjson({**ITEMS[0], "refrence": "a"}), "standard input:1: /refrence: is not a field"),
    "question beside context": (
        ndjson({**ITEMS[0], "context": [{"speaker": "A", "text": "a"}]}),
        "standard input:1: /question: may not stand beside `context`",
    ),
    "repeated item": (b"\n" + ndjson(*ITEMS, ITEMS[1]), "standard input:5: /item: is that of standard input:3 again"),
    "repeated in an array": (
        json.dumps([ITEMS[0], ITEMS[0]]).encode(),
        "standard input: item 2: /item: is that of standard input: item 1 again",
    ),
    "dropped": (
        ndjson({**ITEMS[0], "response": DROPPED}),
        "standard input:1: /response: was dropped, hashed or erased",
    ),
    "not an object": (b'"a"', "standard input:1: the item: an item is a JSON object with a response"),
    "nothing": (b"\n\n", "standard input: no items"),
}


@pytest.mark.parametrize(("stdin", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_broken_input_is_refused_whole_with_its_line(tmp_path: Path, stdin: bytes, words: str) -> None:
    path = tmp_path / "items"
    path.write_bytes(stdin)
    with pytest.raises(InvalidItems) as caught:
        read_metric_items(str(path), DEFAULT_LIMITS)
    assert words in caught.value.message.replace(str(path), "standard input")
    assert caught.value.exit_code == 2


def test_several_faults_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "items"
    path.write_bytes(ndjson(*[{"response": ""}] * 7))
    with pytest.raises(InvalidItems) as caught:
        read_metric_items(str(path), DEFAULT_LIMITS)
    assert len(caught.value.message.splitlines()) == 6
    assert caught.value.message.endswith("… and 2 more")


def test_bad_input_and_bad_usage_exit_with_two(tmp_path: Path) -> None:
    done = metrics("-", "--language", "ja", folder=tmp_path, stdin=b"{")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("saiten: standard input:1: ")
    for arguments in (["-"], ["-", "--language", "ja", "--json", "--items"], ["-", "--language", "fr"]):
        assert CliRunner().invoke(command, arguments, input="{}").exit_code == 2


async def test_the_option_goes_before_the_settings_and_without_either_nothing_is_downloaded() -> None:
    assert choose_encoder(Settings(), "ja", None) == NO_ENCODER
    assert choose_encoder(Settings(encoder_ko="x"), "ja", None) == NO_ENCODER
    assert choose_encoder(Settings(encoder="off"), "ja", None) == "the encoder is switched off (SAITEN_ENCODER=off)"
    for settings, named in ((Settings(encoder_ja="x"), None), (Settings(encoder="off", encoder_ja="x"), "y")):
        found = choose_encoder(settings, "ja", named)
        assert isinstance(found, BertScoreEncoder)
        await found.close()
