"""`saiten collect`: a real bot asked for its responses, and what is kept of them."""

import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from saiten.bots import BotReply
from saiten.commands.collect import command
from saiten.core.errors import SaitenError
from saiten.reply_cache import CacheUnusable, ReplyCache
from tests.support.bots import HttpSystem, reply_json, write_bot
from tests.support.command import saiten, started
from tests.support.waiting import LIMIT_SECONDS


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def collect(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["--output", "回答.ndjson", *arguments])


def write_csv(folder: Path, *questions: str, name: str = "文脈.csv", encoding: str = "utf-8") -> str:
    lines = ["番号,質問", *(f"q{number},{text}" for number, text in enumerate(questions))]
    (folder / name).write_bytes("\r\n".join(lines).encode(encoding))
    return name


def read(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def test_order_latency_and_errors(tmp_path: Path) -> None:
    dataset = write_csv(tmp_path, "こんにちは", "die", "元気ですか", "empty", encoding="cp932")
    done = collect("--dataset", dataset, "--bot", write_bot(tmp_path), "--concurrency", "3")
    assert done.exit_code == 1, done.output
    first, second = read("回答.ndjson")
    assert (first["id"], second["id"]) == ("q0", "q2")
    assert first["context"] == [{"speaker": "user", "text": "こんにちは"}]
    assert first["response"] == "「こんにちは」ですね。"
    assert int(first["metadata"]["latency_ms"]) >= 0
    failed = read("回答.failed.ndjson")
    assert [(item["id"], item["metadata"]["error"].partition(":")[0]) for item in failed] == [
        ("q1", "ended"),
        ("q3", "reply-empty"),
    ]
    assert "response" not in failed[0]
    assert "2 of 4 items answered" in done.output
    assert "next: saiten score '回答.ndjson'" in done.output.replace("score 回答.ndjson", "score '回答.ndjson'")
    # Once all are answered the old failures are gone.
    assert collect("--dataset", write_csv(tmp_path, "はい"), "--bot", write_bot(tmp_path)).exit_code == 0
    assert not Path("回答.failed.ndjson").exists()


def answer(body: Any, times: int) -> tuple[int, bytes, dict[str, str]]:
    if body["q"] == "壊れる" and times == 1:
        return reply_json({}, 404)
    return reply_json({"said": {"text": f"{body['q']}？"}})


def test_a_later_run_asks_only_for_what_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_TOKEN", "hidden-token")
    dataset = write_csv(tmp_path, "一", "壊れる", "三")
    options = ["--template", '{"q": "{{last}}"}', "--reply", "said.text", "--cache", "cache.db"]
    with HttpSystem(answer) as system:
        asked = ["--dataset", dataset, "--bot", system.url, *options, "--header", "Authorization=Bearer BOT_TOKEN"]
        assert collect(*asked).exit_code == 1
        before = read("回答.ndjson")
        done = collect(*asked)
        assert done.exit_code == 0, done.output
        assert len(system.asked) == 4
        # The same reply with the latency that was measured; another template is another question.
        after = read("回答.ndjson")
        assert [after[0], after[2]] == before
        assert [item["id"] for item in after] == ["q0", "q1", "q2"]
        assert collect(*asked, "--template", '{"q": "{{last}}", "new": 1}').exit_code == 1
        assert len(system.asked) == 7
    assert {headers["Authorization"] for headers in system.headers} == {"Bearer hidden-token"}
    assert b"hidden-token" not in Path("cache.db").read_bytes() + Path("回答.ndjson").read_bytes()
    assert "hidden-token" not in done.output


def test_two_runs_at_the_same_time_share_a_cache(tmp_path: Path) -> None:
    one, other = ReplyCache("cache.db"), ReplyCache("cache.db")
    for number in range(50):
        one.keep(bytes([number]), BotReply("一", 1.0))
        other.keep(bytes([number]), BotReply("他", 2.0))
    assert one.find([bytes([number]) for number in range(60)]) == {bytes([n]): BotReply("他", 2.0) for n in range(50)}
    one.close()
    other.close()


def test_a_file_that_is_no_cache_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect("mine.db") as mine:
        mine.execute("CREATE TABLE mine (x)")
    mine.close()
    before = Path("mine.db").read_bytes()
    Path("text").write_text("no database, but long enough to be taken for one" * 9, encoding="utf-8")
    for name in ("mine.db", "text", "no-folder/cache"):
        with pytest.raises(CacheUnusable):
            ReplyCache(name)
    assert Path("mine.db").read_bytes() == before


USAGE = {
    "no dataset": (["--dataset", "none.csv", "--bot", "BOT"], "none.csv: No such file"),
    "no command": (["--dataset", "文脈.csv", "--bot", "no-such-command-of-anyone"], "there is no command"),
    "no host": (["--dataset", "文脈.csv", "--bot", "http://"], "write it like http://"),
    "no port": (["--dataset", "文脈.csv", "--bot", "http://127.0.0.1:99999/"], "write it like http://"),
    "no scheme of ours": (["--dataset", "文脈.csv", "--bot", "ftp://u:p@h/"], "write it like http://"),
    "no variable": (
        ["--dataset", "文脈.csv", "--bot", "http://h", "--header", "X=UNSET_HERE"],
        "UNSET_HERE is not set",
    ),
    "a secret": (["--dataset", "文脈.csv", "--bot", "http://h", "--header", "X: secret-value"], "write NAME=VARIABLE"),
    "a password": (["--dataset", "文脈.csv", "--bot", "http://u:p@h"], "as a header from the environment"),
    "no JSON": (["--dataset", "文脈.csv", "--bot", "BOT", "--template", "{"], "--template is not JSON"),
    "no folder": (["--dataset", "文脈.csv", "--bot", "BOT", "--output", "no/x"], "there is no such folder"),
    "itself": (["--dataset", "文脈.csv", "--bot", "BOT", "--output", "文脈.csv"], "would replace the dataset"),
    "no column": (["--dataset", "odd.csv", "--bot", "BOT"], "no column is known"),
    "plain": (["--dataset", "文脈.csv", "--bot", "http://h", "--plain"], "--plain goes with a command"),
    "a header": (["--dataset", "文脈.csv", "--bot", "BOT", "--header", "X=HOME"], "--header goes with a URL"),
    "no score": (["--dataset", "文脈.csv", "--bot", "BOT", "--rubric", "x"], "go with --score"),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE.values(), ids=USAGE)
def test_usage(tmp_path: Path, arguments: list[str], message: str) -> None:
    write_csv(tmp_path, "はい")
    (tmp_path / "odd.csv").write_text("foo,bar\n1,2\n", encoding="utf-8")
    done = collect(*[write_bot(tmp_path) if one == "BOT" else one for one in arguments])
    assert (done.exit_code, message in done.output) == (2, True), done.output
    assert not Path("回答.ndjson").exists()


def test_a_bot_that_answers_nothing_at_all_ends_the_run(tmp_path: Path) -> None:
    dataset = write_csv(tmp_path, *["die"] * 40)
    done = collect("--dataset", dataset, "--bot", write_bot(tmp_path, "import sys\nsys.exit(3)\n"))
    assert isinstance(done.exception, SaitenError)  # told with exit 3
    assert "none of the first 20 items: the process ended with exit code 3" in done.exception.detail
    assert len(read("回答.failed.ndjson")) == 20


def test_an_interruption_keeps_what_was_collected(tmp_path: Path) -> None:
    dataset = write_csv(tmp_path, "一", "二", "hang", "四")
    os.mkfifo(tmp_path / "reached")
    options = ["--output", "回答.ndjson", "--bot", write_bot(tmp_path), "--cache", "cache.db"]
    with started("collect", "--dataset", dataset, *options, folder=tmp_path, stderr=subprocess.PIPE) as process:
        (tmp_path / "reached").read_bytes()  # once the bot has the third item
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 130, errors.decode()
    assert [item["id"] for item in read("回答.ndjson")] == ["q0", "q1"]
    assert "2 of 4 items answered" in errors.decode()
    assert "2 were not asked" in errors.decode()


def test_contexts_that_have_old_responses_lose_them(tmp_path: Path) -> None:
    dialogue = [{"role": "user", "content": "や"}, {"role": "assistant", "content": "どうも"}]
    rows: list[dict[str, Any]] = [
        {"messages": dialogue},
        {"context": [{"speaker": "A", "text": "あ"}, {"speaker": "B", "text": "い"}], "response": "古い"},
        {"context": [{"speaker": "A", "text": "あ"}, {"speaker": "B", "text": "い"}]},
        {"質問": "う", "metadata": {f"k{number}": "v" for number in range(16)}},
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = collect("--dataset", "x.jsonl", "--bot", write_bot(tmp_path))
    assert done.exit_code == 0, done.output
    found = read("回答.ndjson")
    assert [item["response"] for item in found] == [f"「{said}」ですね。" for said in ("や", "い", "い", "う")]
    assert [len(item["context"]) for item in found] == [1, 2, 2, 1]
    assert "1 items have 16 metadata already" in done.output


def test_collected_items_are_scored(tmp_path: Path) -> None:
    dataset = write_csv(tmp_path, "週末はどうでしたか", "元気ですか")
    (tmp_path / "saiten.toml").write_text('[[assertions]]\nnot_contains = "ですね"\nitems = ["q1"]\n', encoding="utf-8")
    done = saiten(
        *("collect", "--dataset", dataset, "--output", "o.ndjson", "--bot", write_bot(tmp_path), "--score"),
        *("--format", "ndjson", "--results", "r.json", "--with-texts"),
        folder=tmp_path,
    )
    results = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert [(one["item"], "response" in one) for one in results] == [("q0", True), ("q1", True)]
    assert [json.loads(line)["item"] for line in done.stdout.splitlines()] == ["q0", "q1"], done.stderr
    assert done.returncode == 1
    assert "✗ assertion: not_contains 'ですね': 1 of 1 responses do not hold: q1" in done.stderr
