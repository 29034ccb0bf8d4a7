"""The rubrics that ship, against the method's table."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import pytest

from app.adapters.rubric_files import RubricFiles, default_folder
from app.domain.rubric import Aspect, Example, Rubric

SOURCE = RubricFiles([default_folder()])
DIALOGUE, COMMENT = SOURCE.get("ja-dialogue"), SOURCE.get("ko-comment")
SHIPPED = [DIALOGUE, COMMENT]


def in_both_languages(rubric: Rubric) -> Iterator[tuple[Aspect, str]]:
    return ((aspect, language) for aspect in rubric.aspects for language in rubric.languages)


def examples(aspect: Aspect, language: str) -> list[Example]:
    return [level.example[language] for level in aspect.levels if level.example]


def script_share(text: str, *scripts: str) -> float:
    """The share of letters that belong to the scripts, by their Unicode names."""
    letters = [character for character in text if character.isalpha()]
    return sum(unicodedata.name(letter).startswith(scripts) for letter in letters) / len(letters)


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


@pytest.mark.parametrize(("rubric", "languages"), [(DIALOGUE, ("ja", "en")), (COMMENT, ("ko", "en"))])
def test_each_is_asked_in_one_call_in_its_own_language_or_english(rubric: Rubric, languages: tuple[str, str]):
    assert (rubric.calls, rubric.source_language, rubric.languages) == ("joint", languages[0], languages)


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
        assert len(set().union(*contexts)) == sum(map(len, contexts))


def test_the_responses_of_a_dialogue_come_from_the_speaker_whose_turn_it_is():
    for aspect, language in in_both_languages(DIALOGUE):
        for example in examples(aspect, language):
            speakers = [utterance.speaker for utterance in example.context]
            assert speakers == ["A", "B"] * (len(speakers) // 2)


@pytest.mark.parametrize(
    ("rubric", "scripts"),
    [(DIALOGUE, ("HIRAGANA", "KATAKANA", "CJK")), (COMMENT, ("HANGUL",))],
    ids=["ja-dialogue", "ko-comment"],
)
def test_every_text_is_in_its_language(rubric: Rubric, scripts: tuple[str, ...]):
    for aspect in rubric.aspects:
        for level in aspect.levels:
            shown = [aspect.name, aspect.question, level.label, level.description]
            texts = {language: [text[language] for text in shown] for language in rubric.languages}
            for language, example in (level.example or {}).items():
                texts[language] += [example.response, *(utterance.text for utterance in example.context)]
            assert all(script_share(text, *scripts) == 1 for text in texts[rubric.source_language])
            assert all(script_share(text, "LATIN") == 1 for text in texts["en"])


@pytest.mark.parametrize("rubric", SHIPPED, ids=lambda rubric: rubric.id)
def test_folding_left_no_space_within_japanese_and_no_line_break_within_an_example(rubric: Rubric):
    for aspect, language in in_both_languages(rubric):
        for example in examples(aspect, language):
            texts = [example.response, *(utterance.text for utterance in example.context)]
            assert not any("\n" in text or "  " in text for text in texts)
            assert language != "ja" or not any(" " in text for text in texts)
