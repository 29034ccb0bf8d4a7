"""Small rubrics and dialogues for tests: the shapes of the real ones, none of their wording."""

from typing import Any

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.rubric import Rubric


def both(japanese: str, english: str) -> dict[str, str]:
    return {"ja": japanese, "en": english}


def level(value: int, *, example: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {
        "value": value,
        "label": both(f"段{value}", f"step {value}"),
        "description": both(f"段{value}にあたる応答。", f"A response at step {value}."),
    }
    if example:
        found["example"] = {
            language: {
                "context": [{"speaker": "A", "text": text}],
                "response": f"{text} ({value})",
            }
            for language, text in both("駅まで歩きましょうか。", "Shall we walk to the station?").items()
        }
    return found


def aspect(aspect_id: str, name: dict[str, str], low: int, high: int, **more: Any) -> dict[str, Any]:
    return {
        "id": aspect_id,
        "name": name,
        "question": both(f"{name['ja']}はどうか。", f"How is its {name['en'].lower()}?"),
        "levels": [level(value, example=aspect_id != "overall") for value in range(low, high + 1)],
        **more,
    }


def one_shot(rating: int) -> dict[str, Any]:
    return {
        language: {
            "context": [{"speaker": "Q", "text": question}],
            "response": answer,
            "rating": rating,
            "reason": reason,
        }
        for language, question, answer, reason in (
            ("ja", "虹はなぜ曲がって見えますか。", "水滴の中で光が折れるからです。", "要点だけを述べている。"),
            ("en", "Why is a rainbow bent?", "Because drops bend the light.", "It keeps to the point."),
        )
    }


def joint_rubric() -> Rubric:
    """Japanese and English; scales 1–3, 0–1, −1–1 and 1–5; all aspects in one call."""
    return Rubric.model_validate(
        {
            "id": "test-dialogue",
            "version": 1,
            "source_language": "ja",
            "title": both("対話の試験", "A test of dialogue"),
            "task": both("対話の応答を評価してください。", "Rate the response of a dialogue."),
            "aspects": [
                aspect("naturalness", both("自然さ", "Naturalness"), 1, 3),
                aspect("coherence", both("文脈的整合性", "Coherence"), 0, 1),
                aspect("formality", both("言葉づかい", "Formality"), -1, 1),
                aspect("relevance", both("話題の関連性", "Relevance"), 1, 3, blended=True),
                aspect("overall", both("総合的な品質", "Overall quality"), 1, 5),
            ],
        }
    )


def independent_rubric() -> Rubric:
    """One call an aspect, each with a worked example."""
    return Rubric.model_validate(
        {
            "id": "test-answers",
            "version": 1,
            "source_language": "ja",
            "calls": "independent",
            "title": both("回答の試験", "A test of answers"),
            "task": both("質問への回答を評価してください。", "Rate the answer to a question."),
            "aspects": [
                aspect("formality", both("言葉づかい", "Formality"), -1, 1, one_shot=one_shot(0)),
                aspect("amount", both("情報量", "Amount"), -1, 1, one_shot=one_shot(-1)),
                aspect("factuality", both("正確さ", "Factuality"), 0, 3, one_shot=one_shot(3)),
            ],
        }
    )


def make_dialogue(response: str = "いいですね。駅前の店に寄ってもいいですか。") -> Dialogue:
    context = (
        Utterance(speaker="A", text="雨がやみましたね。"),
        Utterance(speaker="B", text="では、駅まで歩きましょうか。"),
    )
    return Dialogue(context=context, response=response)
