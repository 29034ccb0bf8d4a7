"""Rubrics with the aspects and scales of the shipped ones, and no more text than the model demands."""

from saiten_server.core.rubric import Aspect, Level, Rubric

JA_SCALES = {
    "naturalness": (1, 3),
    "coherence": (0, 1),
    "interestingness": (1, 3),
    "relevance": (1, 3),
    "consistency": (0, 1),
    "overall": (1, 5),
}
KO_SCALES = {"sensibleness": (0, 1), "specificity": (0, 1), "sympathy": (0, 1)}


def build_rubric(rubric_id: str, language: str, scales: dict[str, tuple[int, int]]) -> Rubric:
    def localized(text: str) -> dict[str, str]:
        return {language: text, "en": text}

    aspects = tuple(
        Aspect(
            id=aspect,
            name=localized(aspect),
            question=localized(f"{aspect}?"),
            levels=tuple(
                Level(value=value, label=localized(str(value)), description=localized(str(value)))
                for value in range(lowest, highest + 1)
            ),
        )
        for aspect, (lowest, highest) in scales.items()
    )
    return Rubric(
        id=rubric_id,
        version=1,
        source_language=language,
        title=localized(rubric_id),
        task=localized("rate"),
        aspects=aspects,
    )


def build_ja_rubric() -> Rubric:
    return build_rubric("ja-dialogue", "ja", JA_SCALES)


def build_ko_rubric() -> Rubric:
    return build_rubric("ko-comment", "ko", KO_SCALES)
