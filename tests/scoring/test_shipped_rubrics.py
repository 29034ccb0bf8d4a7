"""The rubrics that ship, against the method's table."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.errors import RubricNotSupported
from saiten_server.core.evaluation import EvaluationRequest, JudgeOptions
from saiten_server.core.rubric import Aspect, Example, Rubric, compose
from saiten_server.judging.prompt import build_prefix
from saiten_server.providers.lexical.judge import LexicalJudge
from saiten_server.providers.ports import JudgingTask
from saiten_server.scoring.rubrics.files import RubricFiles, YAMLDocument, default_folder, read_yaml_file, rubric_paths

SOURCE = RubricFiles([default_folder()])
DIALOGUE, COMMENT, ANSWER = SOURCE.get("ja-dialogue"), SOURCE.get("ko-comment"), SOURCE.get("lfqa")
CHAT = SOURCE.get("ko-dialogue")
SHIPPED = [DIALOGUE, COMMENT, CHAT, ANSWER]
PAGE = (Path(__file__).parents[2] / "docs" / "rubrics.md").read_text(encoding="utf-8")


def in_both_languages(rubric: Rubric) -> Iterator[tuple[Aspect, str]]:
    return ((aspect, language) for aspect in rubric.aspects for language in rubric.languages)


def examples(aspect: Aspect, language: str) -> list[Example]:
    return [level.example[language] for level in aspect.levels if level.example]


def all_examples(aspect: Aspect, language: str) -> list[Example]:
    """The levels' examples and the worked one."""
    return [*examples(aspect, language), *([aspect.one_shot[language]] if aspect.one_shot else [])]


def texts_of(example: Example) -> list[str]:
    return [example.response, *(utterance.text for utterance in example.context)]


def script_share(text: str, *scripts: str) -> float:
    """The share of letters that belong to the scripts, by their Unicode names."""
    letters = [character for character in text if character.isalpha()]
    return sum(unicodedata.name(letter).startswith(scripts) for letter in letters) / len(letters)


@pytest.mark.parametrize("path", rubric_paths(default_folder()), ids=lambda path: path.name)
def test_libyaml_reads_what_the_parser_for_operators_rubrics_reads(path: Path):
    shipped, strict = read_yaml_file(path), YAMLDocument(path.read_text(encoding="utf-8"))
    assert (shipped.data, shipped.faults) == (strict.data, [])
    assert vars(shipped) == vars(strict)  # with the lines of all parts


def test_ja_dialogue_has_its_six_aspects_on_their_scales():
    assert [(aspect.id, aspect.name["ja"], aspect.scale) for aspect in DIALOGUE.aspects] == [
        ("naturalness", "自然さ", (1, 3)),
        ("coherence", "文脈的整合性", (0, 1)),
        ("interestingness", "興味深さ", (1, 3)),
        ("relevance", "話題の関連性", (1, 3)),
        ("consistency", "首尾一貫性", (0, 1)),
        ("overall", "総合的な品質", (1, 5)),
    ]
    assert DIALOGUE.blended_aspects == ("relevance",)
    assert DIALOGUE.composites == ()


def test_ko_comment_has_its_three_aspects_and_ssa():
    assert [(aspect.id, aspect.name["ko"], aspect.scale) for aspect in COMMENT.aspects] == [
        ("sensibleness", "합리성", (0, 1)),
        ("specificity", "구체성", (0, 1)),
        ("sympathy", "공감성", (0, 1)),
    ]
    assert COMMENT.blended_aspects == ()
    assert [(composite.id, composite.aspects) for composite in COMMENT.composites] == [
        ("ssa", ("sensibleness", "specificity"))
    ]


def test_ko_dialogue_has_the_six_aspects_of_ja_dialogue_and_specificity():
    assert [(aspect.id, aspect.name["ko"], aspect.scale) for aspect in CHAT.aspects] == [
        ("naturalness", "자연스러움", (1, 3)),
        ("coherence", "문맥 일치", (0, 1)),
        ("interestingness", "흥미", (1, 3)),
        ("relevance", "화제 관련성", (1, 3)),
        ("consistency", "일관성", (0, 1)),
        ("specificity", "구체성", (0, 1)),
        ("overall", "종합 품질", (1, 5)),
    ]
    assert CHAT.blended_aspects == DIALOGUE.blended_aspects
    assert [(composite.id, composite.aspects) for composite in CHAT.composites] == [
        ("ssa", ("coherence", "specificity"))
    ]


@pytest.mark.parametrize("language", CHAT.languages)
async def test_the_lexical_judge_rates_every_aspect_of_ko_dialogue_and_says_that_it_is_a_baseline(language: str):
    context = (Utterance(speaker="A", text="어제 뭐 했어요?"), Utterance(speaker="B", text="동생이랑 야구장에 갔어요."))
    found = []
    for response in ("동생분이랑 야구장에 가셨군요. 어느 팀을 응원하세요?", "그렇군요."):
        dialogue = Dialogue(context=context, response=response)
        judgement = await LexicalJudge().judge(JudgingTask(CHAT, language, dialogue, JudgeOptions(explain=True)))
        assert list(judgement.verdicts) == [aspect.id for aspect in CHAT.aspects]
        assert [warning.code for warning in judgement.warnings] == ["baseline-judge"]
        for aspect in CHAT.aspects:
            assert judgement.verdicts[aspect.id].samples[0] in aspect.values
        found.append(judgement.verdicts)
    if language == "ko":
        assert [verdicts["specificity"].samples for verdicts in found] == [(1,), (0,)]


def test_lfqa_has_its_four_aspects_and_mate():
    assert [(aspect.id, aspect.name["ja"], aspect.scale) for aspect in ANSWER.aspects] == [
        ("formality", "文体", (-1, 1)),
        ("amount_info", "情報量", (-1, 1)),
        ("factuality", "正確さ", (0, 3)),
        ("acceptability", "許容度", (0, 3)),
    ]
    assert ANSWER.blended_aspects == ()
    assert [composite.id for composite in ANSWER.composites] == ["mate"]


@pytest.mark.parametrize(
    ("formality", "amount_info", "factuality", "mate"),
    [
        # 3 + 2.048·(3 − 3)/3 − 0.739·|0| − 0.335·|0|
        (0, 0, 3, 3.0),
        # 3 + 2.048·(2 − 3)/3 − 0.739·|−1| = 3 − 0.682666… − 0.739
        (0, -1, 2, 1.578333333),
        # 3 − 0.739·|1| = too much costs what too little does
        (0, 1, 3, 2.261),
        # 3 − 0.335·|−1|, and so |1|
        (-1, 0, 3, 2.665),
        (1, 0, 3, 2.665),
        # 3 + 2.048·(0 − 3)/3 − 0.739·|1| − 0.335·|−1| = 3 − 3.122: the worst answer
        (-1, 1, 0, -0.122),
    ],
)
def test_mate_takes_off_what_an_answer_lacks(formality: int, amount_info: int, factuality: int, mate: float):
    for acceptability in range(4):
        ratings = dict(
            zip(("formality", "amount_info", "factuality"), (formality, amount_info, factuality), strict=True)
        )
        # What is asked directly has no part in what is composed.
        composed = compose(ANSWER, {**ratings, "acceptability": acceptability})
        assert composed == {"mate": pytest.approx(mate, abs=1e-9)}
    for missing in ratings:
        assert compose(ANSWER, {**ratings, missing: None}) == {"mate": None}


def test_mate_is_at_its_best_where_acceptability_is():
    """And only there: 3 at formality 0, amount_info 0 and factuality 3."""
    scales = {aspect.id: aspect.values for aspect in ANSWER.aspects if aspect.id != "acceptability"}
    grid = [dict(zip(scales, values, strict=True)) for values in product(*scales.values())]
    best = ANSWER.aspect("acceptability").scale[1]
    composed = [compose(ANSWER, {**ratings})["mate"] or 0.0 for ratings in grid]
    assert max(composed) == best
    assert [ratings for ratings, mate in zip(grid, composed, strict=True) if mate > best - 0.3] == [
        {"formality": 0, "amount_info": 0, "factuality": 3}
    ]


@pytest.mark.parametrize(
    ("rubric", "languages", "calls", "references"),
    [
        (DIALOGUE, ("ja", "en"), "joint", False),
        (COMMENT, ("ko", "en"), "joint", False),
        (CHAT, ("ko", "en"), "joint", False),
        (ANSWER, ("ja", "en"), "independent", True),
    ],
    ids=lambda value: getattr(value, "id", None),
)
def test_each_is_asked_in_its_own_language_or_english(
    rubric: Rubric, languages: tuple[str, str], calls: str, references: bool
):
    assert (rubric.source_language, rubric.languages) == (languages[0], languages)
    assert (rubric.calls, rubric.references) == (calls, references)


@pytest.mark.parametrize("rubric", SHIPPED, ids=lambda rubric: rubric.id)
def test_every_level_but_those_of_overall_has_an_example_in_each_language(rubric: Rubric):
    for aspect, language in in_both_languages(rubric):
        assert len(examples(aspect, language)) == (0 if aspect.id == "overall" else len(aspect.levels))


@pytest.mark.parametrize("rubric", SHIPPED, ids=lambda rubric: rubric.id)
def test_the_examples_of_an_aspect_share_their_context_and_differ_in_the_response(rubric: Rubric):
    for aspect, language in in_both_languages(rubric):
        shown = examples(aspect, language)
        assert len({example.context for example in shown}) <= 1, aspect.id
        assert len({example.response for example in shown}) == len(shown), aspect.id


@pytest.mark.parametrize("rubric", SHIPPED, ids=lambda rubric: rubric.id)
def test_no_two_aspects_share_an_example(rubric: Rubric):
    for language in rubric.languages:
        contexts = [{example.context for example in examples(aspect, language)} for aspect in rubric.aspects]
        contexts += [{aspect.one_shot[language].context} for aspect in rubric.aspects if aspect.one_shot]
        assert len(set().union(*contexts)) == sum(map(len, contexts))


def test_only_what_is_asked_in_calls_of_its_own_has_worked_examples():
    for rubric in SHIPPED:
        shown = {frozenset(aspect.one_shot or {}) for aspect in rubric.aspects}
        assert shown == {frozenset(rubric.languages if rubric.calls == "independent" else ())}


def test_the_worked_examples_of_lfqa_show_no_ideal_rating_and_the_same_one_in_each_language():
    """Judges overrate answers (Kamoda et al.): a worked example at the ideal would invite that."""
    ideal = {"formality": 0, "amount_info": 0, "factuality": 3, "acceptability": 3}
    for aspect in ANSWER.aspects:
        assert aspect.one_shot
        ratings = {worked.rating for worked in aspect.one_shot.values()}
        assert len(ratings) == 1
        assert ratings != {ideal[aspect.id]}


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("language", ANSWER.languages)
def test_each_call_of_lfqa_shows_the_one_worked_reply_of_its_aspect(language: str, structured: bool):
    for aspect in ANSWER.aspects:
        assert aspect.one_shot
        prefix = build_prefix(ANSWER, language, (aspect,), explain=False, structured=structured)
        rating = aspect.one_shot[language].rating
        reply = f'{{"{aspect.id}":{rating}}}' if structured else f"{aspect.name[language]}: 「{rating}」"
        assert prefix.system.endswith(f"\n{reply}")


def test_the_responses_to_a_question_answer_one_utterance():
    for aspect, language in in_both_languages(ANSWER):
        for example in all_examples(aspect, language):
            assert [said.speaker for said in example.context] == [{"ja": "質問", "en": "Question"}[language]]


@pytest.mark.parametrize(
    ("language", "words"), [("ja", ("参考文", "唯一", "誤り")), ("en", ("References", "only correct", "wrong"))]
)
def test_lfqa_says_that_references_are_neither_the_only_answer_nor_always_right(language: str, words: tuple[str, ...]):
    assert all(word in ANSWER.task[language] for word in words)


def test_the_example_on_the_page_is_a_request_for_lfqa():
    (found,) = re.findall(r'^```json\n(\{"rubric": "lfqa".*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    request = EvaluationRequest.model_validate_json(found)
    assert (request.rubric, request.judge.samples) == ("lfqa", 3)


@pytest.mark.parametrize(
    ("ratings", "words"),
    [
        ({"formality": 0, "amount_info": -1, "factuality": 2}, "3 + 2.048 · (−1/3) − 0.739 = {mate:.3f}"),
        ({"formality": 0, "amount_info": -1, "factuality": 3}, "keeps a mate of {mate:.3f}"),
        ({"formality": 1, "amount_info": 1, "factuality": 0}, "the worst {mate:.3f}"),
    ],
)
def test_mate_comes_to_what_the_page_says(ratings: dict[str, float], words: str):
    assert words.format(mate=compose(ANSWER, ratings)["mate"]).replace("-", "−") in " ".join(PAGE.split())


@pytest.mark.parametrize("language", ANSWER.languages)
async def test_the_lexical_judge_does_not_pretend_to_rate_answers(language: str):
    dialogue = Dialogue(context=(Utterance(speaker="質問", text="風は、なぜ吹くのですか？"),), response="知りません。")
    with pytest.raises(
        RubricNotSupported, match=r"cannot rate formality, amount_info, factuality, acceptability of .*lfqa"
    ):
        await LexicalJudge().judge(JudgingTask(ANSWER, language, dialogue, JudgeOptions()))


@pytest.mark.parametrize("rubric", [DIALOGUE, CHAT], ids=lambda rubric: rubric.id)
def test_the_responses_of_a_dialogue_come_from_the_speaker_whose_turn_it_is(rubric: Rubric):
    for aspect, language in in_both_languages(rubric):
        for example in examples(aspect, language):
            speakers = [utterance.speaker for utterance in example.context]
            assert speakers == ["A", "B"] * (len(speakers) // 2)


@pytest.mark.parametrize(
    ("rubric", "scripts"),
    [
        (DIALOGUE, ("HIRAGANA", "KATAKANA", "CJK")),
        (COMMENT, ("HANGUL",)),
        (CHAT, ("HANGUL",)),
        (ANSWER, ("HIRAGANA", "KATAKANA", "CJK")),
    ],
    ids=["ja-dialogue", "ko-comment", "ko-dialogue", "lfqa"],
)
def test_every_text_is_in_its_language(rubric: Rubric, scripts: tuple[str, ...]):
    for aspect, language in in_both_languages(rubric):
        expected = ("LATIN",) if language == "en" else scripts
        texts = [aspect.name[language], aspect.question[language]]
        for level in aspect.levels:
            texts += [level.label[language], level.description[language]]
        texts += [text for example in all_examples(aspect, language) for text in texts_of(example)]
        texts += [aspect.one_shot[language].reason] if aspect.one_shot else []
        assert [text for text in texts if script_share(text, *expected) < 1] == []


@pytest.mark.parametrize("rubric", SHIPPED, ids=lambda rubric: rubric.id)
def test_folding_left_no_space_within_japanese_and_no_line_break_within_an_example(rubric: Rubric):
    for aspect, language in in_both_languages(rubric):
        for example in all_examples(aspect, language):
            texts = texts_of(example)
            assert not any("\n" in text or "  " in text for text in texts)
            assert language != "ja" or not any(" " in text for text in texts)
