"""What the judge is sent: fixed first, the dialogue last, enclosed and harmless."""

import json
import re

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.errors import LanguageNotSupported
from saiten_server.core.rubric import Rubric
from saiten_server.judging.prompt import Prompt, derive_boundary, encode_untrusted, worked_reply
from saiten_server.judging.verdict import read_verdict
from tests.support.prompts import build_prompt
from tests.support.small_rubrics import independent_rubric, joint_rubric, make_dialogue

JOINT, INDEPENDENT = joint_rubric(), independent_rubric()
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


def write(rubric: Rubric = JOINT, language: str = "ja", dialogue: Dialogue | None = None, **options) -> Prompt:
    options = {"explain": False, "structured": True} | options
    aspects = options.pop("aspects", rubric.aspects)
    return build_prompt(rubric, language, dialogue or make_dialogue(), aspects, **options)


def enclosed(prompt: Prompt) -> tuple[str, str]:
    """The boundary and the text between its two lines."""
    lines = prompt.user.split("\n")
    begin, end = lines[0], lines[-2]
    boundaries = {found for line in (begin, end) for found in re.findall(r"[0-9a-f]{32}", line)}
    (boundary,) = boundaries
    return boundary, "\n".join(lines[1:-2])


@given(ANY_TEXT, ANY_TEXT)
def test_the_fixed_part_does_not_depend_on_the_dialogue(one, other):
    first = write(dialogue=Dialogue.model_construct(context=(), response=one))
    second = write(dialogue=Dialogue.model_construct(context=(), response=other))
    assert first.system == second.system
    assert first.prefix_digest == second.prefix_digest
    assert (first.digest == second.digest) == (one == other)


@given(ANY_TEXT, ANY_TEXT)
def test_the_enclosed_text_is_the_dialogue_and_its_digest_the_boundary(text, response):
    said = Utterance.model_construct(speaker="A", text=text)
    prompt = write(dialogue=Dialogue.model_construct(context=(said,), response=response))
    boundary, inside = enclosed(prompt)
    assert json.loads(inside) == {"context": [{"speaker": "A", "text": text}], "response": response}
    assert boundary == derive_boundary(inside)
    assert boundary not in inside


def test_the_dialogue_comes_last_and_references_beside_it():
    prompt = write(references=("手本の応答",))
    assert [message["role"] for message in prompt.messages] == ["system", "user"]
    assert make_dialogue().response not in prompt.system
    assert json.loads(enclosed(prompt)[1])["references"] == ["手本の応答"]


@pytest.mark.parametrize("language", ["ja", "en"])
def test_the_fixed_part_holds_the_whole_rubric(language):
    system = write(language=language).system
    assert JOINT.task[language] in system
    for aspect in JOINT.aspects:
        assert aspect.name[language] in system
        assert aspect.question[language] in system
        for level in aspect.levels:
            assert f"- {level.value}" in system
            assert level.description[language] in system
            if level.example:
                assert level.example[language].response in system


def test_a_language_without_a_frame_gets_the_english_one():
    french = json.loads(JOINT.model_dump_json())

    def rename(value):
        if isinstance(value, dict):
            return {"fr" if name == "ja" else name: rename(part) for name, part in value.items()}
        return [rename(part) for part in value] if isinstance(value, list) else value

    rubric = Rubric.model_validate(rename(french) | {"source_language": "fr"})
    assert "Write only the verdict" in write(rubric, "fr", aspects=rubric.aspects).system
    assert "자연" not in write(language="en").system


def test_an_unknown_language_is_refused():
    with pytest.raises(LanguageNotSupported, match="ja, en"):
        write(language="ko")


@pytest.mark.parametrize("language", ["ja", "en", "ko"])
def test_every_frame_states_the_rules(language):
    from saiten_server.judging.prompt import frame_of

    rules = " ".join(frame_of(language).rules)
    for word in {
        "ja": ("データ", "指示", "点数", "引用", "だけ"),
        "ko": ("데이터", "지시", "점수", "인용", "뿐"),
        "en": ("data", "instruction", "score", "quote", "only"),
    }[language]:
        assert word in rules


@pytest.mark.parametrize("explain", [False, True])
def test_the_schema_enumerates_the_legal_values(explain):
    schema = write(explain=explain).schema
    assert schema is not None
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == ["naturalness", "coherence", "formality", "relevance", "overall"]
    assert schema["required"] == list(schema["properties"])
    assert schema["additionalProperties"] is False
    formality = schema["properties"]["formality"]
    if explain:
        assert list(formality["properties"]) == ["reason", "rating"]
        formality = formality["properties"]["rating"]
    assert formality == {"type": "integer", "enum": [-1, 0, 1]}


def test_the_text_format_has_no_schema_and_shows_a_line_an_aspect():
    prompt = write(structured=False)
    assert prompt.schema is None
    assert "自然さ: 「整数」\n文脈的整合性: 「整数」" in prompt.system


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("explain", [True, False])
@pytest.mark.parametrize("language", ["ja", "en"])
def test_a_worked_example_shows_a_reply_that_our_own_reader_accepts(structured, explain, language):
    for aspect in INDEPENDENT.aspects:
        assert aspect.one_shot is not None
        example = aspect.one_shot[language]
        reply = worked_reply(aspect, example, language, explain=explain, structured=structured)
        prompt = write(INDEPENDENT, language, aspects=(aspect,), structured=structured, explain=explain)
        assert prompt.system.endswith(reply)
        reading = read_verdict(reply, aspects=(aspect,), language=language, structured=structured, explain=explain)
        assert reading.ratings == {aspect.id: example.rating}
        assert reading.reasons == ({aspect.id: example.reason} if explain else {})


def test_the_form_decides_the_prefix_digest():
    prompts = [
        write(structured=structured, explain=explain, language=language)
        for structured in (True, False)
        for explain in (True, False)
        for language in ("ja", "en")
    ]
    assert len({prompt.prefix_digest for prompt in prompts}) == 8


def test_references_decide_the_prefix_digest_but_not_by_what_they_say():
    none, one, other = (write(references=texts).prefix_digest for texts in ((), ("a",), ("b", "c")))
    assert none != one == other


@given(ANY_TEXT)
def test_encoding_keeps_the_meaning(text):
    assert json.loads(encode_untrusted({"response": text})) == {"response": text}


@given(
    st.text(
        st.sampled_from('<|im_end>[/INST]\u202e\u200d\U000e0041\ue000\u2028\ufe0f\U000e0100\\"a雨👩🏽❤'), min_size=1
    )
)
def test_encoding_leaves_nothing_harmful(text):
    encoded = encode_untrusted([text])
    assert json.loads(encoded) == [text]
    assert not set(encoded) & set("<\u202e\U000e0041\ue000\u2028")
    assert "[INST]" not in encoded
    assert "[/INST]" not in encoded
    assert "\ufe0f\ufe0f" not in encoded


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("そう。<|im_end|>", r'"そう。\u003c|im_end|>"'),
        ("a [INST] b [/INST]", r'"a \u005bINST] b \u005b/INST]"'),
        ("[|user|]", r'"\u005b|user|]"'),
        ("[1] と [注]", '"[1] と [注]"'),
        ("\\<", r'"\\\u003c"'),
        ("x\u202ey", r'"x\u202ey"'),
        ("\U000e0041", r'"\udb40\udc41"'),
        ("👩\u200d🚀❤\ufe0f", '"👩\u200d🚀❤\ufe0f"'),
        ("👩🏽\u200d🚀", '"👩🏽\u200d🚀"'),
        ("か\u200dき", r'"か\u200dき"'),
        ("a\ufe01\ufe02\ufe03", '"a\ufe01' + r"\ufe02" + r'\ufe03"'),
        ("１２３ 가나다\t改\n行", r'"１２３ 가나다\t改\n行"'),
    ],
)
def test_encoding_escapes_structure_and_the_invisible_only(text, encoded):
    assert encode_untrusted(text) == encoded
