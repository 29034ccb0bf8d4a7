"""Explains an estimate: names its strongest features in a sentence of the rubric's language."""

from __future__ import annotations

from app.providers.lexical.features import Features
from app.providers.lexical.ratings import CoherenceWeights
from app.text.passages import words_of

PLAIN_FAULTS = words_of(
    "wordless echoes_verbatim repeats_verbatim foreign describes_itself broken unanswered unanswered_kind "
    "unanswered_yes_no reverses misses_feeling stock_comfort shares_nothing strange_names switches_politeness generic"
)
WEAK_FAULTS = words_of("redundant leaves_topic dwells ignores_for_own_topic unknown")
FAULTS = {
    **dict.fromkeys(PLAIN_FAULTS, 0.5),
    **dict.fromkeys(WEAK_FAULTS, 0.2),
    "oddities": 0.3,
    "repeats_itself": 0.1,
}
# What speaks against a response and for it: the feature's least value to be named
MERITS = {
    **dict.fromkeys(words_of("answers meets_feeling acknowledges invites"), 0.5),
    **dict.fromkeys(words_of("shares_last shares_characters shares_context"), 0.2),
    "agrees_briefly": 0.3,
    "content_words": 1.3,
}
CLAUSES = {
    "ja": {
        "wordless": "言葉が含まれていない",
        "echoes_verbatim": "直前の発話をそのまま繰り返している",
        "repeats_verbatim": "自分の以前の発話をそのまま繰り返している",
        "redundant": "同じ語句が何度も繰り返されている",
        "foreign": "日本語以外の文字が多い",
        "describes_itself": "質問に答えず自分の返答を説明している",
        "repeats_itself": "自分の以前の発話とよく似ている",
        "broken": "文が途中で終わっている",
        "oddities": "語のつながりが不自然である",
        "unanswered": "前の質問に答えていない",
        "unanswered_kind": "質問が求める種類の情報がない",
        "unanswered_yes_no": "はい・いいえで答えられる質問に答えていない",
        "reverses": "自分の以前の発話と肯定・否定が逆である",
        "misses_feeling": "相手の気持ちと合わない感情を述べている",
        "stock_comfort": "決まり文句の励ましである",
        "leaves_topic": "これまでの話題から離れている",
        "shares_nothing": "前の発話と共通する内容語がない",
        "strange_names": "文脈にない固有名詞が出てくる",
        "dwells": "自分の話題の言葉を繰り返すだけである",
        "ignores_for_own_topic": "相手の発話を受けずに自分の話題を続けている",
        "switches_politeness": "それまでと文体の丁寧さが違う",
        "unknown": "辞書にない語が多い",
        "generic": "どんな話にも使える相づちだけである",
        "answers": "前の質問に答えている",
        "meets_feeling": "相手の気持ちに触れている",
        "shares_last": "前の発話の内容語を受けている",
        "shares_characters": "前の発話と表現が重なっている",
        "shares_context": "文脈の話題を保っている",
        "acknowledges": "相手の発話を受け止めている",
        "agrees_briefly": "相手の発話に同意している",
        "invites": "質問で話を先へ進めている",
        "content_words": "具体的な語が多い",
    },
    "ko": {
        "wordless": "말이 들어 있지 않다",
        "echoes_verbatim": "바로 앞 발화를 그대로 되풀이한다",
        "repeats_verbatim": "자신의 이전 발화를 그대로 되풀이한다",
        "redundant": "같은 말이 여러 번 반복된다",
        "foreign": "한글이 아닌 글자가 많다",
        "describes_itself": "질문에 답하지 않고 자기 답변을 설명한다",
        "repeats_itself": "자신의 이전 발화와 매우 비슷하다",
        "broken": "문장이 중간에 끊겼다",
        "oddities": "말의 연결이 어색하다",
        "unanswered": "앞의 질문에 답하지 않았다",
        "unanswered_kind": "질문이 요구하는 종류의 정보가 없다",
        "unanswered_yes_no": "예, 아니요로 답할 질문에 답하지 않았다",
        "reverses": "자신의 이전 발화와 긍정과 부정이 뒤바뀌었다",
        "misses_feeling": "상대의 감정과 맞지 않는 감정을 말한다",
        "stock_comfort": "상투적인 위로이다",
        "leaves_topic": "지금까지의 화제에서 벗어났다",
        "shares_nothing": "앞 발화와 공통되는 내용어가 없다",
        "strange_names": "문맥에 없는 고유 명사가 나온다",
        "dwells": "자기 화제의 말만 되풀이한다",
        "ignores_for_own_topic": "상대의 말을 받지 않고 자기 화제만 이어 간다",
        "switches_politeness": "이전과 높임말 쓰임이 다르다",
        "unknown": "깨진 글자가 많다",
        "generic": "어떤 말에도 쓸 수 있는 맞장구뿐이다",
        "answers": "앞의 질문에 답했다",
        "meets_feeling": "상대의 감정을 짚었다",
        "shares_last": "앞 발화의 내용어를 이어받았다",
        "shares_characters": "앞 발화와 표현이 겹친다",
        "shares_context": "문맥의 화제를 이어 간다",
        "acknowledges": "상대의 말을 받아 준다",
        "agrees_briefly": "상대의 말에 맞장구친다",
        "invites": "질문으로 이야기를 이어 간다",
        "content_words": "구체적인 말이 많다",
    },
    "en": {
        "wordless": "it holds no words",
        "echoes_verbatim": "it echoes the last utterance word for word",
        "repeats_verbatim": "it repeats an earlier utterance of its own word for word",
        "redundant": "the same words come again and again",
        "foreign": "many letters are not English",
        "describes_itself": "it talks about itself as a response",
        "repeats_itself": "it is close to an earlier utterance of its own",
        "broken": "it breaks off mid-sentence",
        "oddities": "some words do not go together",
        "unanswered": "it leaves the question before it open",
        "unanswered_kind": "it lacks the kind of information asked for",
        "unanswered_yes_no": "it does not take up a yes-or-no question",
        "reverses": "it turns round what it said before",
        "misses_feeling": "it shows another feeling than the one it answers",
        "stock_comfort": "its comfort is a stock phrase",
        "leaves_topic": "it leaves the topic of the dialogue",
        "shares_nothing": "it shares no content word with the last utterance",
        "strange_names": "it brings in names that were not mentioned",
        "dwells": "it only goes over its own earlier words",
        "ignores_for_own_topic": "it keeps to its own topic and passes over its partner's",
        "switches_politeness": "its politeness differs from before",
        "unknown": "many of its words are unknown",
        "generic": "it would follow any utterance",
        "answers": "it answers the question before it",
        "meets_feeling": "it names the feeling shown",
        "shares_last": "it takes up words of the last utterance",
        "shares_characters": "its wording follows the last utterance",
        "shares_context": "it keeps the topic of the dialogue",
        "acknowledges": "it acknowledges what was said",
        "agrees_briefly": "it agrees with what was said",
        "invites": "it carries the talk on with a question",
        "content_words": "it is rich in content words",
    },
}
NOTHING = {"ja": "特に目立つ手がかりはない", "ko": "눈에 띄는 단서가 없다", "en": "no feature stands out"}

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
    return join_sentence([CLAUSES[language][name] for name in named[:MOST_NAMED]], language)


def stands_out(name: str, features: Features, table: dict[str, float]) -> bool:
    """Whether the table names this feature and its value is large enough to be said."""
    return name in table and features[name] >= table[name]


def fitted_features(features: Features, weights: CoherenceWeights) -> tuple[list[str], list[str]]:
    """Faults and merits by what they added to the fitted estimate, strongest first; ceilings come before all."""
    capped = [name for name in REPETITION[:5] if stands_out(name, features, FAULTS)]
    added = [(feature.contribution(features), feature.name) for feature in weights.features]
    added.sort(key=lambda pair: (-abs(pair[0]), pair[1]))
    faults = [name for value, name in added if value <= -NOTICEABLE and stands_out(name, features, FAULTS)]
    merits = [name for value, name in added if value >= NOTICEABLE and stands_out(name, features, MERITS)]
    return [*capped, *(name for name in faults if name not in capped)], merits


def join_sentence(parts: list[str], language: str) -> str:
    """The parts as one sentence with the language's own punctuation."""
    if not parts:
        parts = [NOTHING[language]]
    if language == "en":
        sentence = "; ".join(parts)
        return sentence[0].upper() + sentence[1:] + "."
    return "、".join(parts) + "。" if language == "ja" else ", ".join(parts) + "."
