"""Explains an estimate: names its strongest features in a sentence of the rubric's language."""

from __future__ import annotations

from app.providers.lexical.features import Features
from app.providers.lexical.ratings import CoherenceWeights

Sign = tuple[float, dict[str, str]]  # The feature's least value to be named, and its clause by language

FAULTS: dict[str, Sign] = {
    "wordless": (0.5, {"ja": "言葉が含まれていない", "ko": "말이 들어 있지 않다", "en": "it holds no words"}),
    "echoes_verbatim": (
        0.5,
        {
            "ja": "直前の発話をそのまま繰り返している",
            "ko": "바로 앞 발화를 그대로 되풀이한다",
            "en": "it echoes the last utterance word for word",
        },
    ),
    "repeats_verbatim": (
        0.5,
        {
            "ja": "自分の以前の発話をそのまま繰り返している",
            "ko": "자신의 이전 발화를 그대로 되풀이한다",
            "en": "it repeats an earlier utterance of its own word for word",
        },
    ),
    "redundant": (
        0.2,
        {
            "ja": "同じ語句が何度も繰り返されている",
            "ko": "같은 말이 여러 번 반복된다",
            "en": "the same words come again and again",
        },
    ),
    "foreign": (
        0.5,
        {"ja": "日本語以外の文字が多い", "ko": "한글이 아닌 글자가 많다", "en": "many letters are not English"},
    ),
    "describes_itself": (
        0.5,
        {
            "ja": "質問に答えず自分の返答を説明している",
            "ko": "질문에 답하지 않고 자기 답변을 설명한다",
            "en": "it talks about itself as a response",
        },
    ),
    "repeats_itself": (
        0.1,
        {
            "ja": "自分の以前の発話とよく似ている",
            "ko": "자신의 이전 발화와 매우 비슷하다",
            "en": "it is close to an earlier utterance of its own",
        },
    ),
    "broken": (0.5, {"ja": "文が途中で終わっている", "ko": "문장이 중간에 끊겼다", "en": "it breaks off mid-sentence"}),
    "oddities": (
        0.3,
        {"ja": "語のつながりが不自然である", "ko": "말의 연결이 어색하다", "en": "some words do not go together"},
    ),
    "unanswered": (
        0.5,
        {
            "ja": "前の質問に答えていない",
            "ko": "앞의 질문에 답하지 않았다",
            "en": "it leaves the question before it open",
        },
    ),
    "unanswered_kind": (
        0.5,
        {
            "ja": "質問が求める種類の情報がない",
            "ko": "질문이 요구하는 종류의 정보가 없다",
            "en": "it lacks the kind of information asked for",
        },
    ),
    "unanswered_yes_no": (
        0.5,
        {
            "ja": "はい・いいえで答えられる質問に答えていない",
            "ko": "예, 아니요로 답할 질문에 답하지 않았다",
            "en": "it does not take up a yes-or-no question",
        },
    ),
    "reverses": (
        0.5,
        {
            "ja": "自分の以前の発話と肯定・否定が逆である",
            "ko": "자신의 이전 발화와 긍정과 부정이 뒤바뀌었다",
            "en": "it turns round what it said before",
        },
    ),
    "misses_feeling": (
        0.5,
        {
            "ja": "相手の気持ちと合わない感情を述べている",
            "ko": "상대의 감정과 맞지 않는 감정을 말한다",
            "en": "it shows another feeling than the one it answers",
        },
    ),
    "stock_comfort": (
        0.5,
        {"ja": "決まり文句の励ましである", "ko": "상투적인 위로이다", "en": "its comfort is a stock phrase"},
    ),
    "leaves_topic": (
        0.2,
        {
            "ja": "これまでの話題から離れている",
            "ko": "지금까지의 화제에서 벗어났다",
            "en": "it leaves the topic of the dialogue",
        },
    ),
    "shares_nothing": (
        0.5,
        {
            "ja": "前の発話と共通する内容語がない",
            "ko": "앞 발화와 공통되는 내용어가 없다",
            "en": "it shares no content word with the last utterance",
        },
    ),
    "strange_names": (
        0.5,
        {
            "ja": "文脈にない固有名詞が出てくる",
            "ko": "문맥에 없는 고유 명사가 나온다",
            "en": "it brings in names that were not mentioned",
        },
    ),
    "dwells": (
        0.2,
        {
            "ja": "自分の話題の言葉を繰り返すだけである",
            "ko": "자기 화제의 말만 되풀이한다",
            "en": "it only goes over its own earlier words",
        },
    ),
    "ignores_for_own_topic": (
        0.2,
        {
            "ja": "相手の発話を受けずに自分の話題を続けている",
            "ko": "상대의 말을 받지 않고 자기 화제만 이어 간다",
            "en": "it keeps to its own topic and passes over its partner's",
        },
    ),
    "switches_politeness": (
        0.5,
        {
            "ja": "それまでと文体の丁寧さが違う",
            "ko": "이전과 높임말 쓰임이 다르다",
            "en": "its politeness differs from before",
        },
    ),
    "unknown": (
        0.2,
        {"ja": "辞書にない語が多い", "ko": "깨진 글자가 많다", "en": "many of its words are unknown"},
    ),
    "generic": (
        0.5,
        {
            "ja": "どんな話にも使える相づちだけである",
            "ko": "어떤 말에도 쓸 수 있는 맞장구뿐이다",
            "en": "it would follow any utterance",
        },
    ),
}
MERITS: dict[str, Sign] = {
    "answers": (
        0.5,
        {"ja": "前の質問に答えている", "ko": "앞의 질문에 답했다", "en": "it answers the question before it"},
    ),
    "meets_feeling": (
        0.5,
        {"ja": "相手の気持ちに触れている", "ko": "상대의 감정을 짚었다", "en": "it names the feeling shown"},
    ),
    "shares_last": (
        0.2,
        {
            "ja": "前の発話の内容語を受けている",
            "ko": "앞 발화의 내용어를 이어받았다",
            "en": "it takes up words of the last utterance",
        },
    ),
    "shares_characters": (
        0.2,
        {
            "ja": "前の発話と表現が重なっている",
            "ko": "앞 발화와 표현이 겹친다",
            "en": "its wording follows the last utterance",
        },
    ),
    "shares_context": (
        0.2,
        {"ja": "文脈の話題を保っている", "ko": "문맥의 화제를 이어 간다", "en": "it keeps the topic of the dialogue"},
    ),
    "acknowledges": (
        0.5,
        {"ja": "相手の発話を受け止めている", "ko": "상대의 말을 받아 준다", "en": "it acknowledges what was said"},
    ),
    "agrees_briefly": (
        0.3,
        {"ja": "相手の発話に同意している", "ko": "상대의 말에 맞장구친다", "en": "it agrees with what was said"},
    ),
    "invites": (
        0.5,
        {
            "ja": "質問で話を先へ進めている",
            "ko": "질문으로 이야기를 이어 간다",
            "en": "it carries the talk on with a question",
        },
    ),
    "content_words": (
        1.3,
        {"ja": "具体的な語が多い", "ko": "구체적인 말이 많다", "en": "it is rich in content words"},
    ),
}
NOTHING = {
    "ja": "特に目立つ手がかりはない",
    "ko": "눈에 띄는 단서가 없다",
    "en": "no feature stands out",
}


MOST_NAMED = 2
NOTICEABLE = 0.005  # Contributions below half a hundredth of the scale are not worth a sentence
REPETITION = ("wordless", "echoes_verbatim", "repeats_verbatim", "redundant", "foreign", "repeats_itself")
TOPIC = ("describes_itself", "unanswered", "leaves_topic", "shares_nothing")
CONCERNS: dict[str, tuple[str, ...]] = {
    "naturalness": ("wordless", "redundant", "foreign", "broken", "oddities", "unknown", "switches_politeness"),
    "coherence": (*REPETITION, *TOPIC, "answers", "meets_feeling", "shares_last", "shares_context", "agrees_briefly"),
    "interestingness": (*REPETITION, "generic", "describes_itself", "content_words", "invites"),
    "relevance": (
        "wordless", "redundant", "foreign", *TOPIC, "answers", "shares_last", "shares_context",
    ),
    "consistency": (
        "wordless", "echoes_verbatim", "repeats_verbatim", "reverses", "repeats_itself", "switches_politeness",
        "leaves_topic",
    ),
    "sensibleness": (*REPETITION, *TOPIC, "broken", "oddities", "answers", "shares_last", "shares_context"),
    "specificity": (
        *REPETITION, "generic", "stock_comfort", "describes_itself", "leaves_topic", "shares_nothing", "shares_last",
        "shares_context", "content_words",
    ),
    "sympathy": (
        *REPETITION, "misses_feeling", "stock_comfort", "describes_itself", "meets_feeling", "shares_last",
        "agrees_briefly",
    ),
}  # fmt: skip
CONCERNS["overall"] = (*REPETITION, *TOPIC, "broken", "generic", "answers", "shares_last", "shares_context")


def explain_aspect(aspect: str, unit: float, features: Features, language: str, weights: CoherenceWeights) -> str:
    """One sentence on the strongest features: faults first where the estimate is in the lower half, else merits."""
    if aspect == "coherence" and language == "ja":
        faults, merits = fitted_features(features, weights)
    else:
        faults = [name for name in CONCERNS[aspect] if stands_out(name, features, FAULTS)]
        merits = [name for name in CONCERNS[aspect] if stands_out(name, features, MERITS)]
    named = [*faults, *merits] if unit < 0.5 else [*merits, *faults]
    return join_sentence([(FAULTS | MERITS)[name][1][language] for name in named[:MOST_NAMED]], language)


def stands_out(name: str, features: Features, table: dict[str, Sign]) -> bool:
    """Whether the table names this feature and its value is large enough to be said."""
    return name in table and features[name] >= table[name][0]


def fitted_features(features: Features, weights: CoherenceWeights) -> tuple[list[str], list[str]]:
    """Faults and merits by what they added to the fitted estimate, strongest first; ceilings come before all."""
    capped = [name for name in REPETITION[:5] if stands_out(name, features, FAULTS)]
    added = sorted(((feature.contribution(features), feature.name) for feature in weights.features), key=abs_first)
    faults = [name for value, name in added if value <= -NOTICEABLE and stands_out(name, features, FAULTS)]
    merits = [name for value, name in added if value >= NOTICEABLE and stands_out(name, features, MERITS)]
    return [*capped, *(name for name in faults if name not in capped)], merits


def abs_first(added: tuple[float, str]) -> tuple[float, str]:
    """Sorts by size, whichever the direction; by name where sizes are equal."""
    return -abs(added[0]), added[1]


def join_sentence(parts: list[str], language: str) -> str:
    """The parts as one sentence with the language's own punctuation."""
    if not parts:
        parts = [NOTHING[language]]
    if language == "en":
        sentence = "; ".join(parts)
        return sentence[0].upper() + sentence[1:] + "."
    return "、".join(parts) + "。" if language == "ja" else ", ".join(parts) + "."
