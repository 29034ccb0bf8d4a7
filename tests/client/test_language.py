"""The language of the client's commands: nothing is missing in a catalogue, and a run in Japanese and Korean."""

import ast
import asyncio
import json
import re
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType

import httpx
import pytest
from rich.cells import cell_len

from saiten import Connection
from saiten.commands.folding import fold
from saiten.core import language
from saiten.core.language import find_language, tell, use_language
from tests.support.command import saiten
from tests.support.serving import serving

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "client" / "saiten"


def load_script() -> ModuleType:
    spec = util.spec_from_file_location("catalogues", ROOT / "scripts" / "catalogues.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CATALOGUES = load_script()


@pytest.fixture
def english(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Takes the language of this process back."""
    monkeypatch.setenv("LANGUAGE", "en")
    yield
    use_language("en")


@pytest.mark.parametrize("chosen", ["ja", "ko"])
def test_every_message_is_translated_with_its_values(chosen: str) -> None:
    assert [fault for domain in CATALOGUES.FOLDERS for fault in CATALOGUES.check(chosen, domain)] == []


SAYING = {
    "BadParameter": 0,
    "SettingsInvalid": 0,
    "NotFound": 0,
    "InvalidItems": 0,
    "UnreadableInput": 0,
    "UsageError": 0,
    "SaitenError": 0,
    "BotUnusable": 0,
    "BotFailed": 1,
    "CacheUnusable": 0,
    "ServiceUnreachable": 0,
    "AnswerInvalid": 0,
    "ServerMissing": 0,
    "PrivateServiceFailed": 0,
    "Skipped": 0,
    "Unread": 0,
    "leave": 1,
    "skip": 1,
    "say": 1,
    "echo": 0,
}
"""What shows its argument to a person."""


def find_untold(path: Path) -> Iterator[str]:
    """Places where a text with words in it is shown without being told through `tell`."""
    for node in ast.walk(CATALOGUES.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in SAYING or len(node.args) <= SAYING[name]:
            continue
        shown = node.args[SAYING[name]]
        parts = shown.values if isinstance(shown, ast.JoinedStr) else [shown]
        written = "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
        if re.search("[a-z]{2}", re.sub("--[a-z-]+|saiten: ", "", written)):
            yield f"{path.name}:{node.lineno}: {written}"


def test_no_message_of_the_commands_passes_the_catalogues_by() -> None:
    paths = [CLIENT / f"{name}.py" for name in ("connection", "private", "bots", "reply_cache")]
    paths += CLIENT.glob("formats/*.py")
    paths += [
        CLIENT / "commands" / f"{name}.py"
        for name in ("score", "batch", "gate", "gating", "ratings", "convert", "items", "init", "collect", "assertions")
    ]
    paths += [CLIENT / "commands" / f"{name}.py" for name in ("files", "results", "runs", "service", "gate_settings")]
    paths += [path for path in (ROOT / "app" / "cli").glob("*.py") if path.stem != "__init__"]
    assert [place for path in paths for place in find_untold(path)] == []


def test_commands_of_the_server_speak_the_language_too(tmp_path: Path) -> None:
    def say(*arguments: str, locale: str = "ja_JP.UTF-8") -> CompletedProcess[str]:
        return saiten(*arguments, folder=tmp_path, LC_ALL=locale, SAITEN_LANGUAGE="", COLUMNS="80")

    begun = say("rubric", "new", "my-bot", "--language", "ja")
    assert begun.stdout.splitlines()[1] == "次の手順: saiten rubric check my-bot.yaml"
    helped = say("analyze", "corrected", "--help").stdout
    assert max(map(cell_len, helped.splitlines())) <= 80
    assert "人が全体をどう評価するかを推定します" in helped
    refused = say("rubric", "show", "no-such", locale="ko_KR.UTF-8")
    assert "루브릭" in refused.stderr, "what the service refuses is told by its own catalogue"


def test_japanese_folds_between_characters_and_korean_between_words() -> None:
    folded = ["応答は、日", "本語「で", "す」。", "ボットは", "--plain を"]
    assert fold("応答は、日本語「です」。ボットは --plain を", 10) == folded
    assert fold("한국어는 낱말 사이에서\n나눕니다", 12) == ["한국어는", "낱말", "사이에서", "나눕니다"]
    assert fold("", 10) == [""]


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, "en"),
        ({"LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LANG": "ja_JP.UTF-8", "LC_MESSAGES": "ko_KR.eucKR"}, "ko"),
        ({"LANG": "ja_JP.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "ja_JP.UTF-8", "LC_ALL": ""}, "ja"),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": "de_DE", "SAITEN_LANGUAGE": "ja"}, "ja"),
        ({"LANG": "ja_JP.UTF-8", "SAITEN_LANGUAGE": "en"}, "en"),
        ({"SAITEN_LANGUAGE": "ko-KR"}, "ko"),
        ({"LANG": "javanese"}, "en"),
    ],
)
def test_the_first_variable_that_says_something_decides(environment: dict[str, str], found: str) -> None:
    assert find_language(environment) == found


def test_values_are_not_read_as_messages(english: None) -> None:
    use_language("ja")
    assert tell("{path}: there is no such folder", path="{0}{x}") == "{0}{x}: フォルダーがありません"
    use_language("en")
    assert tell("{path}: there is no such folder", path="x") == "x: there is no such folder"


async def test_the_service_is_asked_for_the_same_language(tmp_path: Path, english: None) -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("accept-language"))
        return httpx.Response(200, json={})

    for chosen in ("en", "ko"):
        use_language(chosen)
        async with Connection("http://h", transport=httpx.MockTransport(answer)) as connection:
            await connection.info()
    assert asked == [None, "ko, en;q=0.5"]
    assert language.language == "ko"


async def run(*arguments: str, folder: Path, locale: str) -> CompletedProcess[str]:
    """Runs `saiten …`, while the service in this process goes on answering."""
    return await asyncio.to_thread(lambda: saiten(*arguments, folder=folder, LC_ALL=locale, SAITEN_LANGUAGE=""))


RUNS = {
    "ja_JP.UTF-8": (
        "、CP932 (Shift_JIS)（自動判定）、カンマ区切り; 列名から判断",
        "観点ごとの平均評点",
        "1 件: 採点済み 1",
        "使い方:",
    ),
    "ko_KR.UTF-8": (
        ", CP932 (Shift_JIS)(자동 감지), 구분 기호 쉼표; 열 이름으로 판단",
        "평가 항목별 평균 평점",
        "1건: 채점 1",
        "사용법:",
    ),
}


@pytest.mark.parametrize("locale", RUNS)
async def test_a_run_from_end_to_end(tmp_path: Path, locale: str) -> None:
    decided, means, states, usage = RUNS[locale]
    (tmp_path / "chat.csv").write_bytes("番号,質問,回答\r\n1,元気ですか？,はい\r\n".encode("cp932"))
    async with serving(tmp_path) as client:
        url = str(client.base_url)
        options = ("score", "chat.csv", "--url", url)
        done = await run(*options, "--format", "table", folder=tmp_path, locale=locale)
        lines = await run(*options, folder=tmp_path, locale=locale)
    assert (done.returncode, decided in done.stderr) == (0, True), done.stderr
    assert (means in done.stdout, states in done.stdout) == (True, True), done.stdout
    assert json.loads(lines.stdout)["status"] == "scored", "names of fields and codes are the same in every language"
    wrong = await run("gate", "--baselin", "x", folder=tmp_path, locale=locale)
    assert (wrong.returncode, wrong.stderr.startswith(usage), "'--baseline'" in wrong.stderr) == (3, True, True)
