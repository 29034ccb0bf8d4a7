"""敬体 or 常体, and misused honorifics: Japanese by the predicates that end its sentences.

です, ます and ください are polite, other predicates plain. MeCab with unidic-lite reads all Japanese.
"""

from __future__ import annotations

import csv
import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple

from saiten.core.plain_text import cut_mark_runs
from saiten_server.core.speech import Misuse, Register, Sign, combine_signs
from saiten_server.text.passages import Sentence, open_passage, split_sentences, words_of
from saiten_server.text.recent import RecentResults

FIELDS_READ = 8  # Fields of a token that are read, from the first; UniDic has 26
REMEMBERED_TOKENS = 4096  # Tokens that are remembered, in about 3 MB
# One line per token: its surface, its fields and, where the dictionary does not have it, a mark
LINES = r'-O "" -F "%m\\t%H\\n" -U "%m\\t%H\\t?\\n" -E ""'


LONG_RUN = re.compile(r"[^ぁ-ゖ一-鿿 \t\r\n]{500}")
"""Of what a dictionary does not have: at each character MeCab looks through all that follow of the same kind, and lets
no other thread of the process work meanwhile, which took 5 s for 32,000. No one writes so much Japanese without
hiragana, kanji or spaces."""


def cut_long_runs(text: str) -> Iterator[str]:
    """The text in pieces that MeCab reads fast: in one, but for texts that no one writes."""
    start = 0
    for run in LONG_RUN.finditer(text):
        yield text[start : run.end()]
        start = run.end()
    if start < len(text) or not start:
        yield text[start:]


class JapaneseToken(NamedTuple):
    """A token with the UniDic fields that are used. `lemma` is the surface where the dictionary has none, and lacks the
    gloss of some (リゾート-resort)."""

    surface: str
    pos1: str
    pos2: str
    pos3: str
    form: str
    lemma: str
    unknown: bool

    @property
    def is_ending_particle(self) -> bool:
        return self.pos1 == "助詞" and self.pos2 == "終助詞"


class JapaneseTagger:
    """Built at the first text, in about 10 ms. Not thread-safe."""

    @cached_property
    def _tagger(self) -> Any:
        import fugashi
        import unidic_lite

        # The folder is named, because fugashi would otherwise prefer a full UniDic that happens to be installed.
        return fugashi.Tagger(f'-r "{unidic_lite.DICDIR}/mecabrc" -d "{unidic_lite.DICDIR}" {LINES}')

    def split(self, text: str) -> list[JapaneseToken]:
        """The tokens of `text`, punctuation included."""
        # Not fugashi's nodes: to make an object of each token takes as long as the analysis.
        read = text.partition("\0")[0]  # which ends a text for MeCab
        pieces = cut_long_runs(read)
        return [read_token(line) for piece in pieces for line in self._tagger.parse(piece).split("\n") if line]

    def split_surfaces(self, text: str) -> list[str]:
        """The tokens as they are written, without white space."""
        nodes = (node for piece in cut_long_runs(text) for node in self._tagger(piece))
        return [node.surface for node in nodes if not node.surface.isspace()]


@lru_cache(maxsize=REMEMBERED_TOKENS)
def read_token(line: str) -> JapaneseToken:
    """The token of a line. Few words make up most of any text."""
    surface, fields, *unknown = line.split("\t")
    pos1, pos2, pos3, _, _, form, *rest = next(csv.reader([fields]))[:FIELDS_READ]
    lemma = (rest[-1] if rest else None) or surface
    return JapaneseToken(surface, pos1, pos2 or "*", pos3, form or "*", lemma.split("-")[0], bool(unknown))


PUNCTUATION = frozenset({"補助記号", "記号", "空白"})
COMMAS = frozenset("、,")
POLITE_LEMMAS = frozenset({"です", "ます"})
CASUAL = frozenset({"でしょ", "っしょ"})  # Forms of です that are clipped among friends
PREDICATES = frozenset({"動詞", "形容詞", "助動詞"})
# Forms that end a sentence, with those that the dictionary gives to dialect (ええやん) and clipped ends (やらな)
FINITE = ("終止形", "命令形", "意志推量形", "連体形", "語幹", "未然形", "連用形-促音便", "連用形-撥音便")
# What may trail after a finite predicate: the predicate before it tells
LINKS = frozenset(
    {"けど", "けれど", "けれども", "けども", "が", "から", "ので", "のに", "し", "んで", "もん", "もの", "って"}
)
SAID_TO_ONESELF = frozenset({"な", "なあ", "なぁ", "なー", "なぁー"})
# Adjectives that make an exclamation on their own
STANDS_ALONE = words_of("凄い 嬉しい 楽しい 良い 旨い やばい 可愛い 悲しい 寂しい 辛い 面白い 素敵 最高")
# Shows that one listens: そうなんだ within polite speech is no shift
ECHO = re.compile(
    r"(?:あ|ああ|へえ|え)?(?:そう(?:な(?:ん|の))?(?:だ|か)?|そっか?|なるほどね?|本当だ?|ほんとだ?|やった)[かな]{0,2}"
)
# Ends that the dictionary takes for something else
DIALECT = re.compile(
    r"(?:[なや]ん|やで|やねん?|やろ|やんか|やんけ|(?<![いの])へん|ひん|(?<![んちに])ねん|だべ|べさ|やけん|[るうくすたいだん]けん"
    r"|けえ|ばい|と[るっ]?と|(?<![めむ])っちゃ|(?<!い)やな|やわ|やけど|しょや|ずら|[るうくすつむぶぐ]さー?)[よねなでわ]?$"
)
# Polite although the dictionary does not say so: formulas with なさい (a plain order elsewhere), and Kyoto's どす
POLITE_FORMULA = re.compile(
    r"(?:(?:ごめん|御免|おやすみ|お休み|おかえり|お帰り)なさい[ねま]?|(?:どす|[して]おす)[えねなかあ]*)$"
)


def split_clauses(words: Sequence[JapaneseToken]) -> list[list[JapaneseToken]]:
    """The words between commas, without other marks; at least one clause, which may be empty."""
    clauses: list[list[JapaneseToken]] = [[]]
    for word in words:
        if word.surface in COMMAS:
            clauses.append([])
        elif word.pos1 not in PUNCTUATION:
            clauses[-1].append(word)
    return clauses


def read_closed(words: Sequence[JapaneseToken], *, instead: bool) -> Sign | None:
    """What a clause before a comma tells on its own: polite wherever it is so by choice (行きますけど、), plain only
    where a particle finishes it (すごいね、それ), because a plain clause goes before a polite end as well.
    `instead` of a last clause that tells nothing, any predicate does."""
    sign = read_end(words, trails_off=True, asks=False)
    if instead or sign is None or sign is Sign.POLITE:
        return sign
    last = words[-1]
    finished = last.is_ending_particle and last.surface[0] in "ねよわぞぜ"
    return sign if sign is Sign.PLAIN and finished else None


def read_end(words: Sequence[JapaneseToken], *, trails_off: bool, asks: bool) -> Sign | None:
    """The sign of a clause's last predicate; None for a noun, an interjection or an unfinished clause."""
    if not words:
        return None
    text = "".join(word.surface for word in words)
    if POLITE_FORMULA.search(text):
        return Sign.POLITE
    place = len(words) - 1
    while place >= 0 and is_passed_over(words, place):
        place -= 1
    tail = [word.surface for word in words[place + 1 :]]
    sign = read_core(words, place, tail, trails_off=trails_off, asks=asks)
    if sign is None:
        return Sign.PLAIN if len(text) > 2 and DIALECT.search(text) else None
    if sign is Sign.PLAIN and (is_exclamation(words, text) or tail[-2:] == ["の", "で"] or tail[-1:] == ["ので"]):
        return Sign.WEAKLY_PLAIN
    return sign


def is_passed_over(words: Sequence[JapaneseToken], place: int) -> bool:
    """Whether the word only follows what tells: ね, の, けど, and ので and のに, which the tagger takes apart."""
    word = words[place]
    if word.is_ending_particle or word.pos2 == "準体助詞":
        return True
    if place == 0:
        return False
    if word.surface in {"で", "に"} and words[place - 1].pos2 == "準体助詞":
        return True
    return word.surface in LINKS and word.pos2 != "格助詞"


def read_core(
    words: Sequence[JapaneseToken], place: int, tail: Sequence[str], *, trails_off: bool, asks: bool
) -> Sign | None:
    """The sign of the word at `place` with the particles `tail` after it."""
    if place < 0:
        return Sign.WEAKLY_PLAIN if set(tail) & {"よ", "ね", "よね"} else None
    core = words[place]
    if core.surface in {"て", "で", "ば"} and core.pos2 == "接続助詞":
        return read_linked(words, place, tail, trails_off=trails_off, asks=asks)
    if core.surface == "に" and place and words[place - 1].lemma == "様":
        return Sign.POLITE if is_polite(words, place - 2) else None  # 治りますように
    if is_polite(words, place):
        return Sign.WEAKLY_POLITE if core.form.startswith(("仮定形", "連用形")) else Sign.POLITE
    if core.pos1 in PREDICATES or core.pos2 == "形容詞的":
        return read_plain(words, place, tail, asks=asks)
    return None if trails_off and list(tail) == ["か"] else read_noun(words, place, tail, asks=asks)


def is_polite(words: Sequence[JapaneseToken], place: int) -> bool:
    """Whether the auxiliaries that end at `place` hold です or ます, or the word is ください."""
    if place < 0:
        return False
    core = words[place]
    if core.lemma == "下さる" and core.form.startswith("命令形"):
        return True
    if core.surface in CASUAL:
        return False
    while place >= 0 and words[place].pos1 == "助動詞":
        if words[place].lemma in POLITE_LEMMAS:
            return True
        place -= 1
    return False


def read_linked(
    words: Sequence[JapaneseToken], place: int, tail: Sequence[str], *, trails_off: bool, asks: bool
) -> Sign | None:
    """A clause that ends on て or ば: a casual request or proposal, or one that is left open and tells little."""
    if is_polite(words, place - 1):
        return Sign.WEAKLY_POLITE
    if tail and tail[-1][0] in "ねよさ":
        return Sign.PLAIN
    if words[place].surface == "ば":
        return Sign.WEAKLY_PLAIN
    return None if trails_off or asks else Sign.WEAKLY_PLAIN


def read_plain(words: Sequence[JapaneseToken], place: int, tail: Sequence[str], *, asks: bool) -> Sign | None:
    """A predicate without politeness: plain where it is finite or a particle follows."""
    core = words[place]
    if core.surface in CASUAL:
        return Sign.WEAKLY_PLAIN
    if core.surface == "な" and not tail and place and words[place - 1].pos1 == "形状詞":
        return None  # あの有名な… goes on to a noun
    if core.form.startswith(FINITE) or tail:
        return Sign.PLAIN
    if core.form.startswith("仮定形"):
        return Sign.PLAIN if asks or core.surface.endswith("ゃ") else Sign.WEAKLY_PLAIN
    return None


def read_noun(words: Sequence[JapaneseToken], place: int, tail: Sequence[str], *, asks: bool) -> Sign | None:
    """Anything but a predicate: plain with an ending particle (雨か, 秘密よ), with かも, or where it conjectures."""
    core = words[place]
    if core.pos2 == "助動詞語幹" or (core.surface == "ちょうだい" and place):
        return Sign.PLAIN
    if core.surface == "も" and place and words[place - 1].surface == "か":
        return Sign.PLAIN
    if set(tail) - {"の", "ん", "って", "が", "から", "し", "で", "に"}:
        return Sign.PLAIN if core.pos1 != "助詞" else Sign.WEAKLY_PLAIN
    return Sign.WEAKLY_PLAIN if asks and core.pos1 == "形状詞" else None


def is_exclamation(words: Sequence[JapaneseToken], text: str) -> bool:
    """Whether a plain clause is said to oneself: すごい, よかった, いいなあ, そうなんだ."""
    if ECHO.fullmatch(text) or text.endswith(("かな", "かなあ", "かなぁ", "かしら", "っけ")):
        return True
    inflected = words[:-1] if words[-1].surface in SAID_TO_ONESELF else words
    return len(inflected) <= 2 and words[0].lemma in STANDS_ALONE and not inflected[-1].is_ending_particle


# Clear misuses of honorific and humble verbs: subject and verb in one clause, with nothing between that takes another
# subject. Precision comes first: what these patterns do not see is stated in docs/registers.md.

# Clauses without it are not tagged
JA_SUSPICIOUS = re.compile(
    r"(?:[私僕俺]|わたし|わたくし|ぼく|弊社|当社|小社)(?:たち|達|ども|共)?[はがも].{0,60}(?:いらっしゃ|おっしゃ|仰|召し上が|めしあが|なさ|にな)"
    r"|(?:あなた|貴方|お客様|お客さま|皆様|皆さま)[はがも].{0,60}(?:拝[見読聴]|参|まい|申|おり|おる|伺|うかが|いただ|頂|差し上げ|存じ)"
)
JA_SELF = words_of("私 僕 俺 弊社 当社 小社 わたし わたくし ぼく")
JA_OTHER = words_of("あなた 様 さま 貴方")
JA_PLURAL = words_of("たち 達 ども 共")
JA_HONORIFIC = words_of("いらっしゃる 仰る 召し上がる 為さる")
JA_HUMBLE = words_of("参る 申す")
# Elsewhere the addressee may be the topic of what the speaker does: お客様は午後に伺います
JA_HUMBLE_IN_QUESTIONS = words_of("伺う 差し上げる 存ずる 存じる")
JA_HUMBLE_NOUNS = words_of("拝見 拝読 拝聴")
# A verb's stem in お作りになる: お世話になる and お医者になる have none
JA_STEM = re.compile("(?<![笑終舞])(?<=[一-鿿])[いきぎしじちにびみりえけげせてねべめれ]$")
JA_BETWEEN = frozenset({"名詞", "代名詞", "副詞", "接頭辞", "接尾辞", "連体詞"})
JA_PARTICLES = words_of("を に へ で と から まで の")


def find_japanese_misuse(words: Sequence[JapaneseToken]) -> Misuse | None:
    """The first misuse among the tokens of a clause."""
    for place, word in enumerate(words):
        if word.pos1 not in {"動詞", "名詞"} or word.form.startswith("命令形") or not is_final(words, place):
            continue
        if is_honorific(words, place) and has_subject(words, place, JA_SELF):
            return Misuse.OWN
        if is_humble(words, place) and has_subject(words, place, JA_OTHER):
            return Misuse.OTHER
    return None


def is_final(words: Sequence[JapaneseToken], place: int) -> bool:
    """Whether only auxiliaries and ending particles follow: no noun that is described, no clause that goes on."""
    follow = words[place + 1 :]
    if follow and follow[-1].surface in {"て", "で"}:
        return False
    return all(
        word.pos1 == "助動詞" or word.pos2 in {"非自立可能", "終助詞", "準体助詞"} or word.surface in {"て", "で"}
        for word in follow
    )


def is_honorific(words: Sequence[JapaneseToken], place: int) -> bool:
    """Whether the word honours its subject. In a question, a condition or a request the speaker may be another part of
    the clause than its subject, and nothing is said."""
    if words[-1].surface == "か" or any(after.form.startswith(("仮定形", "命令形")) for after in words[place:]):
        return False
    if words[place].lemma in JA_HONORIFIC:
        return True
    if words[place].lemma != "成る" or place < 2 or words[place - 1].surface != "に":
        return False
    noun = words[place - 2]
    return noun.lemma == "御覧" or (place > 2 and words[place - 3].lemma == "御" and bool(JA_STEM.search(noun.surface)))


def is_humble(words: Sequence[JapaneseToken], place: int) -> bool:
    """Whether the word lowers its subject, in a sense that no receiver or giver beside it can change."""
    word, after = words[place], words[place + 1 :]
    asks = words[-1].surface == "か"
    if word.pos1 == "名詞":
        return word.lemma in JA_HUMBLE_NOUNS and bool(after) and after[0].pos1 == "動詞"
    if word.lemma == "居る":  # others than the addressee may be meant: 他のお客様がおります
        return word.surface.startswith("お") and (asks or words[-1].surface == "たら")
    if word.lemma in JA_HUMBLE_IN_QUESTIONS:
        return asks
    if word.lemma != "頂く":
        return word.lemma in JA_HUMBLE
    given = any(said.surface in {"に", "から"} for said in words[:place]) or words[place - 1].pos1 != "助詞"
    return not given and (asks or any(said.surface.startswith(("ください", "下さい")) for said in after))


def has_subject(words: Sequence[JapaneseToken], place: int, subjects: frozenset[str]) -> bool:
    """Whether only objects and adverbs are between the word at `place` and は, が or も after one of `subjects`."""
    at = step_over_link(words, place) - 1
    while at > 0:
        word = words[at]
        if word.surface in {"は", "が", "も"}:
            at -= 2 if words[at - 1].surface in JA_PLURAL else 1
            if words[at].surface in {"様", "さま"} and words[at - 1].surface not in {"客", "皆"}:
                return False
            return words[at].surface in subjects
        if word.pos1 not in JA_BETWEEN and (word.pos1 != "助詞" or word.surface not in JA_PARTICLES):
            return False
        at -= 1
    return False


def step_over_link(words: Sequence[JapaneseToken], place: int) -> int:
    """The place of 待っ in 待っていらっしゃる and of で after a noun in 田中でいらっしゃる; else `place`."""
    if words[place].lemma != "いらっしゃる" or place < 2:
        return place
    link, before = words[place - 1], words[place - 2]
    if link.surface in {"て", "で"} and link.pos1 == "助詞" and before.pos1 == "動詞":
        return place - 2
    return place - 1 if link.surface == "で" and link.pos1 == "助動詞" and before.pos1 == "名詞" else place


REACH = 240  # Code points of a sentence in which its last letter is looked for, before marks and laughs
TAIL = 48  # Code points of a sentence that are tagged: its end tells, and the tagger's time grows with the length
STAND_IN = "物"  # Takes a quotation's place: a noun, as a quotation is
LAUGHS = re.compile(r"(?:(?<![A-Za-z])w{1,99}|笑|泣|汗|草|藁)$")
LENGTHENED = re.compile(r"(?<=[ぁ-ゖ])[ーっッぁぃぅぇぉァィゥェォ]{1,99}$")
SPACES = re.compile(r"(?<![!-~])\s+(?![!-~])")  # Spaces between Japanese words part phrases as commas do
# Marks before a particle: they belong to a title (ホントだった!?のコーナー) and end no sentence
WITHIN_TITLE = re.compile(r"[!?]{1,4}(?=の(?![んどみり])|を|という|って|とか|とは)")
# Polite ends in katakana (了解デス), which the dictionary takes for names; クリスマス is none
IN_KATAKANA = re.compile(
    r"(?:(?<![ァ-ヺー])デス|デス(?=[カネヨ])|デシタ|デショウ|(?<=[ぁ-ゖ])マス|ゴザイマス|マシタ|マセン|マショウ|クダサイ)[カネヨナー]*$"
)
TO_HIRAGANA = {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ") + 1)}

STRONG = frozenset({Sign.POLITE, Sign.PLAIN})


class JapaneseRegister:
    """Reads registers and misuses. Thread-safe: the tagger is locked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tagger = JapaneseTagger()
        self._signs = RecentResults[tuple[Sign, ...]]()

    def split(self, text: str) -> list[JapaneseToken]:
        """The tokens of `text`, punctuation included."""
        with self._lock:
            return self._tagger.split(text)

    def read(self, text: str) -> Register:
        """The register of a text's beginning (`open_passage`)."""
        return combine_signs(self.read_signs(text))

    def read_signs(self, text: str) -> Iterator[Sign]:
        """The signs of the sentences at a text's beginning (`open_passage`)."""
        normal = unicodedata.normalize("NFKC", cut_mark_runs(open_passage(text)))
        sentences = split_sentences(WITHIN_TITLE.sub("", normal), STAND_IN)
        return chain.from_iterable(map(self.read_sentence, sentences))

    def find_misuse(self, text: str) -> Misuse | None:
        """The first clear misuse of an honorific or humble verb at the beginning of a text."""
        normal = unicodedata.normalize("NFKC", cut_mark_runs(open_passage(text)))
        for sentence in split_sentences(normal, STAND_IN):
            for clause in re.split("[、,]", sentence.text[-REACH:]):
                if JA_SUSPICIOUS.search(clause) and (found := find_japanese_misuse(self.split(clause + "。")[:-1])):
                    return found
        return None

    def read_sentence(self, sentence: Sentence) -> tuple[Sign, ...]:
        """The signs of a sentence in NFKC: from its last clause, and from any clause before a comma that could stand
        alone. They are remembered, for up to half of what a system says in its conversations recurs."""
        return self._signs.recall(hash(sentence), lambda: tuple(self._read_sentence(sentence)))

    def _read_sentence(self, sentence: Sentence) -> Iterator[Sign]:
        text = SPACES.sub("、", trim(sentence.text[-REACH:]))[-TAIL:]
        text = IN_KATAKANA.sub(lambda match: match[0].translate(TO_HIRAGANA), text)
        if not text:
            return
        # The tagger reads か and な at an end otherwise than before a full stop, and knows the latter better.
        *earlier, last = split_clauses(self.split(text + "。"))
        sign = read_end(last, trails_off=sentence.trails_off, asks=sentence.asks)
        if sign is not None:
            yield sign
        for clause in reversed(earlier):
            closed = read_closed(clause, instead=sign not in STRONG)
            if closed is not None:
                yield closed
                sign = sign if sign in STRONG else closed


def trim(text: str) -> str:
    """`text` without marks, laughs and drawn-out vowels at its end."""
    before = ""
    while text != before:
        before = text
        while text and not text[-1].isalnum():
            text = text[:-1]
        text = LENGTHENED.sub("", LAUGHS.sub("", text))
    return text
