"""Reads Korean without a dictionary: character n-grams, and particles and sentence endings by their spelling."""

from __future__ import annotations

import re
from collections.abc import Sequence

from saiten_server.providers.lexical.features import Profile, kinds_in, letters_of, make_profile, normalise
from saiten_server.text.passages import words_of

# Two words count as the same where the first two syllables of their stems agree: 떡볶이를 and 떡볶이도 do
STEM_SYLLABLES = 2
SUFFIXES = tuple(
    sorted(
        words_of(
            "에서는 에서도 에게서 으로는 으로도 이라고 이라는 이에요 예요 입니다 습니다 습니까 었어요 았어요 "
            "였어요 했어요 했습니다 었습니다 았습니다 겠어요 겠습니다 었는데 았는데 했는데 었지 았지 했지 "
            "었다 았다 했다 었어 았어 했어 하고 하는 하다 해요 합니다 한다 하면 해서 려고 는데 으면 어서 "
            "아서 어요 아요 에서 에게 한테 까지 부터 보다 처럼 마다 으로 이랑 이나 이도 은 는 이 가 을 를 에 "
            "의 와 과 도 만 로 랑 나 고 다 지 해 네 요"
        ),
        key=lambda suffix: (-len(suffix), suffix),
    )
)
EMPTY_WORDS = words_of(
    "그 이 저 것 거 수 때 더 좀 잘 안 못 또 다 왜 뭐 나 너 내 네 제 우리 정말 진짜 너무 아주 그냥 오늘 지금 "
    "그래 그렇 그런 이런 저런 하 되 있 없 같 그리 그래서 그러 하지 그게 이게 무슨 무엇 어디 언제 누구 누가 "
    "어떻 어떤 어때 얼마 있어 없어 했 합니 해요 돼 돼요 아 네 응"
)
WANTED = {
    "place": re.compile(r"어디"),
    "time": re.compile(r"(언제|몇 ?시|며칠)"),
    "person": re.compile(r"(누구|누가)"),
    "reason": re.compile(r"(^|\s)왜"),
    "number": re.compile(r"(얼마|몇)"),
    "thing": re.compile(r"(뭐|뭘|무엇|무슨|어떤)"),
    "choice": re.compile(r"(어느|둘 중|중에)"),
    "manner": re.compile(r"(어떻게|어때|어땠)"),
}
OFFERED = {
    "place": re.compile(r"\w(에서|역|쪽|근처|동네|시장|공원|학교|회사|집에|앞에)"),
    "time": re.compile(
        r"(\d|오늘|내일|모레|어제|그제|아침|점심|저녁|새벽|주말|[월화수목금토일]요일|[한두세네] ?시|아까|방금)"
    ),
    "person": re.compile(r"(씨|님|친구|엄마|아빠|언니|오빠|누나|형|동생|선생|혼자|제가|내가)"),
    "number": re.compile(r"(\d|[한두세네열] ?(개|명|번|잔|마리|시간|달)|[천만] ?원)"),
    "reason": re.compile(r"(때문|라서|해서|어서|아서|니까|거든)"),
}
POLITE = re.compile(r"(요|니다|니까|세요|시오|죠|지요)$")
PLAIN_ENDING = re.compile(r"[어아해야지다네군냐니자까래게걸데봐줘써워와려]$")
ASKING = re.compile(r"(나요|까요|습니까|ㅂ니까|인가요|은가요|는가요|을까|을래|냐|니까\?)$")
ENDING_SENTENCE = re.compile(r"[.!?~…\n]+")
AFFIRMING = re.compile(r"(네|예|응|어|아니|그럼|그래|맞아|당연)")
NEGATED = re.compile(r"(^|\s)(안|못)\s|지\s?(않|못)|없")
GREETING = re.compile(r"(안녕|반가|반갑|잘 자|잘자|주무세요|좋은 아침|수고)")
GENERIC = re.compile(
    r"(네|예|응|아|어|오|와|우와|음|그래|그래요|그렇군요?|그렇구나|그렇네요?|그러게요?|맞아요?|정말요?|진짜요?|그랬군요|그랬구나|알겠어요|알겠습니다"
    r"|좋아요?|좋네요?|좋겠다|좋겠네요|힘내|힘내요|힘내세요|화이팅|파이팅|고마워요?|감사합니다|다잘될거예요|ㅋ|ㅎ|ㅠ|ㅜ)+"
)
BROKEN = re.compile(r"([가-힣](을|를|에게|에서|으로|와|의)|그리고|그래서|하지만|때문에)$")
ODD = re.compile(r"(을를|를을|은는|는은|이가는|가를|를가|을가)(\s|$)|(^|\s)(\S{2,})\s+\3(\s|$)")
FEELINGS = {
    "sad": re.compile(
        r"(힘들|힘드|슬프|슬퍼|슬펐|우울|속상|외로|외롭|아프|아파|아팠|피곤|지쳤|지친|지쳐|걱정|불안|화가|화나|화났|짜증|눈물|울었|무서|무섭"
        r"|실망|서운|답답|스트레스|후회|안타깝|고생|안 ?좋|좋지 ?않|떨어졌|혼났|망했|ㅠ|ㅜ|잠을 잘 못)"
    ),
    "glad": re.compile(
        r"(기쁘|기뻐|기뻤|행복|즐거|즐겁|신나|신났|뿌듯|설레|설렜|재미있|재밌|고마|감사|합격|다행|맛있|축하|최고"
        r"|(?<!안 )(?<!안)좋(았|아|은|다|네|겠))"
    ),
}
CONSOLING = re.compile(r"(힘내|화이팅|파이팅|괜찮아질|다 ?잘 ?될|기운 ?내)")
ITSELF = re.compile(r"(이|본|제|저의 이) ?(답변|응답|대답|답글|댓글)(은|는)")
# Other than laughs and tears: what a broken encoding or a slipped keyboard leaves
LONE_JAMO = re.compile("(?![ㅋㅎㅠㅜㅇㄴㄷ])[\u3131-\u318e]")
HANGUL_LETTER = re.compile(r"[\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb]")


class KoreanReader:
    """Holds nothing: any number of threads may read."""

    dictionary = "none"

    def read(self, text: str) -> Profile:
        # NFC, because NFKC turns ㅋㅋ and ㅠㅠ into conjoining jamo.
        normal = normalise(text, "NFC")
        letters = letters_of(normal)
        words = split_words(normal)
        sentences = split_sentences(normal)
        generic = bool(GENERIC.fullmatch(letters))
        content = () if generic else tuple(stem for word in words if (stem := stem_of(word)) not in EMPTY_WORDS)
        asks = "?" in normal or "？" in normal or any(ASKING.search(sentence) for sentence in sentences)
        short = frozenset({"thing", "manner"}) if content and len(words) <= 4 else frozenset[str]()
        return make_profile(
            letters,
            HANGUL_LETTER,
            tokens=len(words),
            content=content,
            predicates=frozenset(content),
            asks=asks,
            wanted=kinds_in(normal, WANTED) if asks else frozenset(),
            offered=frozenset() if asks else kinds_in(normal, OFFERED) | short,
            affirms=bool(AFFIRMING.match(letters)),
            negated=bool(NEGATED.search(normal)),
            polite=is_polite(sentences),
            greets=bool(GREETING.search(normal)),
            generic=generic,
            agrees=bool(sentences)
            and sentences[-1].endswith(("네요", "군요", "구나", "겠다", "네", "죠"))
            and not asks,
            broken=bool(sentences) and bool(BROKEN.search(sentences[-1])),
            oddities=sum(1 for _ in ODD.finditer(normal)),
            unknown_share=len(LONE_JAMO.findall(letters)) / max(1, len(letters)),
            feelings=kinds_in(normal, FEELINGS),
            consoles=bool(CONSOLING.search(normal)),
            describes_itself=bool(ITSELF.search(normal)),
        )


def split_words(text: str) -> list[str]:
    """The text at spaces, each part without punctuation, in lower case; parts without a letter are left out."""
    return [letters for part in text.split() if (letters := letters_of(part))]


def split_sentences(text: str) -> list[str]:
    """The parts between sentence marks, without marks, laughs and tears at their ends."""
    parts = (re.sub(r"[\sㅋㅎㅠㅜ\W]+$", "", part).strip() for part in ENDING_SENTENCE.split(text))
    return [part for part in parts if part]


def stem_of(word: str) -> str:
    """The first two syllables of the word without its particle or ending: 프린터가 → 프린, 먹었어요 → 먹."""
    for suffix in SUFFIXES:
        if word.endswith(suffix) and len(word) > len(suffix):
            return word[: -len(suffix)][:STEM_SYLLABLES]
    return word[:STEM_SYLLABLES]


def is_polite(sentences: Sequence[str]) -> bool | None:
    """Whether most sentences end politely (-요, -니다); None where no ending tells."""
    polite = sum(1 for sentence in sentences if POLITE.search(sentence))
    plain = sum(1 for sentence in sentences if not POLITE.search(sentence) and PLAIN_ENDING.search(sentence))
    return None if polite == plain == 0 else polite >= plain
