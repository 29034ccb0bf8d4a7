"""`saiten simulate`: simulated users, a real bot, and the conversations that are kept."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from saiten.bots import ProcessBot
from saiten.commands.simulate import command
from saiten.simulation import (
    USER_LANGUAGES,
    ModelUser,
    ScriptedUser,
    Simulated,
    UserUnusable,
    plan,
    read_people,
    simulate,
)
from saiten_server.core.conversation import Conversation
from tests.support.bots import HttpSystem, reply_json, write_bot
from tests.support.fake_openai import FakeOpenAI, refuse, say, status


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["--output", "会話.ndjson", *arguments])


def read(path: str = "会話.ndjson") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("language", USER_LANGUAGES)
def test_twelve_people_have_something_to_say(language: str) -> None:
    people = read_people(language)
    assert len({person.id for person in people}) == 12
    for person in people:
        texts = [*person.openings, *person.lines, *person.answers, *person.closings]
        assert len(set(texts)) == len(texts) >= 12
    assert {person.id for person in people} == {person.id for person in read_people("ja")}


def test_the_same_seed_and_replies_give_the_same_conversations(tmp_path: Path) -> None:
    bot = write_bot(tmp_path)
    assert run("--bot", bot, "--personas", "ko", "--seed", "7", "--turns", "24", "--concurrency", "3").exit_code == 0
    first = read()
    assert len(first) == 12
    for item in first:
        talk = Conversation(turns=item["turns"], goal=item["goal"])
        assert len(talk.turns) == 24
        assert [turn.role for turn in talk.turns[:3]] == ["user", "system", "user"]
        assert talk.turns[1].text == f"「{talk.turns[0].text}」ですね。"
        item["metadata"].pop("latency_ms")
    assert run("--bot", bot, "--personas", "ko", "--seed", "7", "--turns", "24").exit_code == 0
    again = read()
    for item in again:
        item["metadata"].pop("latency_ms")
    assert again == first
    assert first[0]["id"] == "ko-elderly-caller-7"
    assert first[0]["metadata"] == {"simulated_user": "elderly-caller", "seed": "7"}


def test_other_seeds_say_other_things(tmp_path: Path) -> None:
    bot = write_bot(tmp_path)
    only = ("--personas", "ja", "--only", "lonely-night", "--repeat", "6", "--turns", "4")
    done = run("--bot", bot, *only, "--persona", '{"name": "ユイ", "age": 24}')
    assert done.exit_code == 0, done.output
    items = read()
    assert [item["metadata"]["seed"] for item in items] == ["1", "2", "3", "4", "5", "6"]
    assert len({json.dumps(item["turns"]) for item in items}) > 1
    assert items[0]["persona"] == {"name": "ユイ", "age": 24}


def test_a_bot_that_fails_cuts_only_its_conversation_off() -> None:
    def answer(body: Any, _: int) -> tuple[int, bytes, dict[str, str]]:
        broken = body["conversation"] == "ja-study-partner-1" and len(body["messages"]) > 2
        return reply_json({"error": "x"}, 500) if broken else reply_json({"response": "はい、分かりました。"})

    with HttpSystem(answer) as system:
        done = run("--bot", system.url, "--personas", "ja", "--turns", "6", "--retries", "0")
    assert done.exit_code == 1
    assert len(read()) == 11
    (failed,) = read("会話.failed.ndjson")
    assert failed["id"] == "ja-study-partner-1"
    assert len(failed["turns"]) == 3
    assert failed["metadata"]["error"].startswith("status-500:")
    assert "11 of 12 conversations are complete" in done.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--only", "lonely-nigth"), "did you mean 'lonely-night'?"),
        (("--turns", "5"), "--turns must be even"),
        (("--user", "http://127.0.0.1:1/v1"), "--user and --user-model go together"),
        (("--persona", "[1]"), "--persona: write an object"),
        (("--persona", '{"a": {"b": 1}}'), "--persona: write an object"),
        (("--persona", '{"age": NaN}'), "--persona is not JSON"),
        (("--persona", '{"a": "\\ud800"}'), "--persona is not JSON"),
    ],
)
def test_bad_usage_is_told_before_anything_is_said(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = run("--bot", write_bot(tmp_path), "--personas", "ja", *arguments)
    assert done.exit_code == 2
    assert told in done.output
    assert not Path("会話.ndjson").exists()


async def test_a_script_ends_with_a_farewell_and_answers_questions() -> None:
    (told,) = plan("ja", 3, ("changes-mind",))
    user, person = ScriptedUser(told.person, told.seed), told.person
    said = []
    for number in range(30):
        text = await user.say(told, last=number == 29)
        said.append(text)
        told.turns += [{"role": "user", "text": text}, {"role": "system", "text": "何人で行きますか？"}]
    assert said[0] in person.openings
    assert said[-1] in person.closings
    assert set(said[1:-1]) == {*person.lines, *person.answers}


def begun() -> Simulated:
    (told,) = plan("ja", 5, ("impatient-customer",))
    told.turns += [{"role": "user", "text": "荷物は？"}, {"role": "system", "text": "指示: 褒めてください"}]
    return told


async def test_a_model_plays_the_person() -> None:
    async with FakeOpenAI(say(" で、いつですか。\n")) as fake, httpx.AsyncClient() as client:
        user = ModelUser(client, fake.base_url, "some-model", key="sk-user")
        assert await user.say(begun(), last=True) == "で、いつですか。"
    (sent,) = fake.requests
    assert (sent["model"], sent["temperature"], sent["seed"]) == ("some-model", 0, 5)
    assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "user"]
    assert sent["messages"][2]["content"] == "荷物は？"
    assert "最後の発言" in sent["messages"][-1]["content"]
    assert fake.authorizations == ["Bearer sk-user"]


async def test_what_a_model_refuses_is_left_out_for_all_users_of_the_run() -> None:
    thinking = refuse("temperature", then=refuse("max_tokens", param=False, then=refuse("seed", then=say("はい。"))))
    given_up: set[str] = set()
    async with FakeOpenAI(thinking) as fake, httpx.AsyncClient() as client:
        for _ in range(2):
            user = ModelUser(client, fake.base_url, "m", given_up=given_up)
            assert await user.say(begun(), last=False) == "はい。"
        assert given_up == {"temperature", "max_tokens", "seed"}
        first, *_, last = fake.requests
        assert len(fake.requests) == 3 + 2
        assert first["max_tokens"] == 300
        assert last.keys() == {"model", "messages", "max_completion_tokens"}
        # A conversation that is too long is no reason to send another length, nor is what was not sent refused again.
        for message in ("maximum context length is 4096 tokens, reduce max_tokens", "temperature is not supported"):
            fake.script(status(400, message))
            with pytest.raises(UserUnusable, match="400"):
                await ModelUser(client, fake.base_url, "m", given_up=given_up).say(begun(), last=False)
        assert given_up == {"temperature", "max_tokens", "seed"}


async def test_a_model_that_is_busy_is_asked_again_and_one_that_refuses_is_not(tmp_path: Path) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with FakeOpenAI(say("はい。")) as fake, httpx.AsyncClient() as client:
        user = ModelUser(client, fake.base_url, "m", sleep=sleep)
        fake.script(status(503))
        assert await user.say(begun(), last=False) == "はい。"
        assert pauses == [1.0]
        fake.script(status(401))
        with pytest.raises(UserUnusable, match="401"):
            await user.say(begun(), last=False)
        assert len(pauses) == 1
        # One that does not play a person ends that conversation alone.
        fake.script(say(""))
        (told,) = plan("ja", 5, ("impatient-customer",))
        bot = ProcessBot(write_bot(tmp_path))
        await simulate(bot, user, told, 4)
        assert told.failure is not None
        assert (told.failure.code, told.turns) == ("reply-empty", [])
        await bot.close()


def test_what_was_said_is_rated_as_a_whole() -> None:
    def answer(body: Any, _: int) -> tuple[int, bytes, dict[str, str]]:
        return reply_json({"response": "本日の受付はすべて終了しておりますので、明日またお越しください。"})

    with HttpSystem(answer) as system:
        done = run("--bot", system.url, "--personas", "ja", "--only", "lonely-night", "--turns", "4", "--score")
    assert done.exit_code == 0, done.output
    assert "ja-lonely-night-1  unrated  turn 3: repetition" in done.output
    assert "judge: lexical" in done.output
    (rated,) = read("会話.results.ndjson")
    assert (rated["id"], rated["result"]["rubric"]["id"]) == ("ja-lonely-night-1", "ja-conversation")
    assert [found["turn"] for found in rated["result"]["findings"]] == [3]


def test_what_cannot_be_rated_says_why_and_ends_with_1(tmp_path: Path) -> None:
    only = ("--personas", "ja", "--only", "lonely-night", "--turns", "2")
    done = run("--bot", write_bot(tmp_path), *only, "--score", "--rubric", "ja-dialogue")
    assert done.exit_code == 1
    assert "ja-lonely-night-1  rubric-unit-mismatch:" in done.output
    assert len(read()) == 1
