"""The patterns by which facts are read, compiled with the word lists and the gazetteer of conversation_words.json, and
numbers that are written in digits, Han characters or Korean words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from saiten_server.text.recent import RecentResults

LONGEST_QUOTE = 60
SPACE = re.compile(r"\s+")


@cache
def load() -> Any:
    """The file: lists are texts with a comma between the words, in which a space of Korean may be written or not."""
    return json.loads((files("saiten_server") / "text/conversation_words.json").read_text(encoding="utf-8"))


@cache
def words_in(listed: str) -> tuple[str, ...]:
    """The words of a list, longest first."""
    return tuple(sorted(filter(None, map(str.strip, listed.split(","))), key=lambda word: (-len(word), word)))


def any_of(listed: str) -> str:
    """A pattern without groups for any word of a list. Words with one beginning share it, so that few are tried."""
    endings: dict[str, list[str]] = {}
    for word in words_in(listed):
        endings.setdefault(re.escape(word[0]), []).append(re.escape(word[1:]).replace(r"\ ", r"\s?"))
    shared = (begin + (f"(?:{'|'.join(ends)})" if any(ends) else "") for begin, ends in endings.items())
    return f"(?:{'|'.join(shared)})"


def begins_one(listed: str) -> str:
    """A look-ahead for the beginning of any word of a list. Before `any_of` in a pattern it saves trying word after
    word in places where none begins."""
    return "(?=[" + "".join(sorted({re.escape(word[0]) for word in words_in(listed)})) + "])"


@dataclass(frozen=True)
class Exemptions:
    """The patterns of one language that decide when a rule does not apply."""

    formulas: re.Pattern[str]
    about_register: re.Pattern[str]
    about_language: re.Pattern[str]
    ask_again: re.Pattern[str]
    composition: re.Pattern[str]

    def is_formula(self, sentence: str) -> bool:
        """Whether nothing but greetings, thanks and the like is said."""
        letters = "".join(filter(str.isalnum, sentence))
        return len(self.formulas.sub("", letters)) <= 2


@cache
def words_for(language: str) -> Exemptions:
    """The patterns of ja or ko."""
    lists = load()[language]
    return Exemptions(**{name: re.compile(any_of(lists[name])) for name in Exemptions.__dataclass_fields__})


def quote(text: str) -> str:
    """The beginning of a text on one line, in quotation marks."""
    line = SPACE.sub(" ", text.strip())
    return f"「{line}」" if len(line) <= LONGEST_QUOTE else f"「{line[:LONGEST_QUOTE]}…」"


# How one takes up what the other said of themselves: 札幌のご出身なんですね
ECHO = {
    "ja": re.compile(
        r"(?:んですね|のですね|んだね|んですか|でしたね|ですよね|でしょう(?:ね"
        r"|か)?|のね|ましょう|そうですね|ますよね)[。！!]?$"
    ),
    "ko": re.compile(
        r"(?:군요|구나|으?시네요|셨네요|으?시죠|이죠|시군요|셨군요|나 봐요|시겠네요"
        r"|시겠어요|셨겠어요|시겠습니다|셨겠네요)[.!]?$"
    ),
}
NEGATED = {
    "ja": re.compile(r"(?:じゃ|では)(?:ない|なく|ありません|ございません)"),
    "ko": re.compile(r"아니(?:에요|고|라|야|지만|었|며|예요)|아닙니다"),
}


class Lists:
    """The patterns of one language, from the word lists."""

    def __init__(self, language: str) -> None:
        data = load()
        lists = data[language]
        self.language = language
        self.places = places_of(language)
        listed = ", ".join(self.places)
        self.place = "(" + any_of(listed)[3:]
        place = begins_one(listed) + self.place
        self.persons = re.compile(person_pattern(language, lists["persons"]))
        bare = any_of(lists["self"])
        self.own = re.compile(bare if language == "ja" else rf"(?<![가-힣]){bare}")
        names = (
            "past",
            "unreal",
            "corrections",
            "only_child",
            "unmarried",
            "qualifiers",
            "days",
            "facilities",
            "open",
            "confirm",
            "fiction",
            "married",
        )
        self.words = {name: re.compile(any_of(lists[name])) for name in names}
        self.jobs = job_patterns(language)
        claims = "|".join(pattern.pattern for pattern in self.jobs.values())
        begins = begins_one(",".join(f"{job['words']},{job['cues']}" for job in data["jobs"].values()))
        self.job = re.compile(f"{begins}(?:{claims})")
        self.job_words = {group: re.compile(any_of(job["words"])) for group, job in data["jobs"].items()}
        self.compatible = {frozenset(pair.split()) for pair in data["compatible_jobs"].split(",")}
        species = {word: kind for kind, listed in data["pets"].items() for word in words_in(listed)}
        self.species = species
        self.kept = (
            "("
            + any_of(
                ", ".join(word for word in species if is_script(word, language) and (language == "ja" or len(word) > 1))
            )[3:]
        )
        self.siblings, self.spouse = any_of(lists["siblings"]), any_of(lists["spouse"])
        self.abroad = any_of(lists["abroad"])
        self.likes, self.dislikes = any_of(lists["likes"]), any_of(lists["dislikes"])
        self.liked = re.compile(f"{self.likes}|{self.dislikes}")
        self.short = frozenset(words_in(lists["short_topics"]))
        self.generic = frozenset(words_in(lists["generic"]))
        self.generic_names = tuple(words_in(lists["generic_names"]))
        self.patterns = {
            name: re.compile(
                pattern.replace("<place>", place)
                .replace("<pet>", self.kept)
                .replace("<sibling>", self.siblings)
                .replace("<spouse>", self.spouse)
                .replace("<abroad>", self.abroad)
                .replace("<own>", bare)
            )
            for name, pattern in PATTERNS[language].items()
        }
        named = (*self.places, *species, *(f"{job['words']},{job['cues']}" for job in data["jobs"].values()))
        named += tuple(lists[name] for name in NAMED)
        self._names = re.compile(any_of(",".join(named))).search
        self._naming = [self.patterns[name].search for name in NAMING_CLAIMS]
        self._naming += [self.job.search, *(self.words[name].search for name in NAMING_WORDS)]
        told = [self.liked, VISITED[language], *(self.patterns[name] for name in CLAIMS)]
        self._claims = [pattern.search for pattern in told]
        self._may_claim = RecentResults[bool]()

    def may_claim(self, sentence: str) -> bool:
        """Whether a pattern of any fact fits the sentence, which few do: in others the readers of facts have nothing to
        read. Most patterns have a listed word, and all words are looked for at once."""
        return self._may_claim.recall(hash(sentence), lambda: self._has_claim(sentence))

    def _has_claim(self, sentence: str) -> bool:
        return any(search(sentence) for search in self._claims) or (
            self._names(sentence) is not None and any(search(sentence) for search in self._naming)
        )


NAMED = ("siblings", "spouse", "only_child", "unmarried", "abroad")
NAMING_CLAIMS = ("home", "residence", "been", "never", "pet", "not_kept", "sibling", "spouse")
NAMING_WORDS = ("only_child", "unmarried")
CLAIMS = ("age", "decade", "no_pet", "until", "price", "own_name")
UNITS = ("reference", "weekday", "people", "date", "time")
UNIT_NAMES = re.compile("[番曜名人日時번요명분일시]")  # Of which each unit's pattern has one
NUMBER_JA = "([0-9]{1,7}|[〇一二三四五六七八九十百千万]{1,9})"
NUMBER_KO = "([0-9]{1,7}|[가-힣]{1,8}?)"
PATTERNS: Mapping[str, Mapping[str, str]] = {
    "ja": {
        "home": r"<place>(?:県|市|府|都|区|町)?(?:の|は)?[^、。はがもとに]{0,8}(?:出身"
        r"|生まれ|育ち|育った|育って|で育|っ子)|(?:出身|故郷|ふるさと|地元|実家"
        r"|生まれ)(?:は|の|である|が|も)?、?(?:[^、。]{0,4})<place>|<place>(?:の"
        r"|に)(?:ある)?実家|<place>が(?:地元|故郷|ふるさと)",
        "residence": r"<place>(?:市|区)?(?:の[^、。]{1,6})?(?:に|で)[^、。]{0,6}(?:住んで(?:い(?!まし"
        r"|た)|る|ま|お)|暮らして(?:い(?!まし|た)|る|ま|お))",
        "age": NUMBER_JA
        + (
            r"(?:歳|才)(?=です|だ|に(?:なり|なっ)|なの|なん|で(?:す|、|し)|、|の[^とこ頃時娘息子お]"
            r"|！|$)"
        ),
        "decade": NUMBER_JA + r"代(?=の|です|だ|後半|前半|半ば|なの|なん|に)",
        "asks_age": r"何歳|おいくつ|お幾つ|年齢|歳は|いくつ(?:なん|です|な|？)|お年|お歳",
        "pet": r"<pet>(?:の[^、。]{1,8}|[^、。はが]{0,6})?(?:を|も|が|は|と)?[^、。]{0,8}?飼って(?:い(?!まし"
        r"|た|らっ|ません|ない)|る|ま(?!せん)|お(?!ら))|(?:うち|我が家|わが家"
        r"|自宅)の<pet>|<pet>(?:の[^、。]{1,8})?と(?:二人|一緒|ふたり)?(?:に"
        r"|で)?(?:暮らし|住んで)",
        "no_pet": r"(?:ペット|動物)[^。]{0,12}(?:飼って(?:いません|いない|ない|おりません)"
        r"|飼えません|飼えない|いません|いない)|何も飼って(?:い|な)",
        "not_kept": r"<pet>(?:は|も|なんて)[^。、]{0,4}飼って(?:いません|おりません|い?な[いく])",
        "sibling": r"(?<![おご])(?:<own>(?:たち)?(?:に|は|の|なんか|と)?[^。]{0,10}?)<sibling>(?!さん"
        r"|様|さま|君|くん|弟子)(?:が|と|は|も|に|の|から|、)|(?<![おご\w])<sibling>(?!さん"
        r"|様|さま|弟子|弟)(?:が|と|は|も|に|の|から)",
        "spouse": r"(?<![おごｦ-ﾟ])<spouse>(?!さん|様|さま|婦)(?:が|と|は|も|に|の|から)",
        "never": r"(?:<abroad>(?:旅行)?|日本|<place>)(?:に|へ|を|から|には|へは|の外)?(?:は"
        r"|まで)?[^。]{0,14}?(?:行った|出た|訪れた|離れた|渡った|した|来た)こと(?:が"
        r"|は|も|って)?(?:、?一度も|まだ|全然)?、?(?:ない|なく|なくて|ありません"
        r"|ございません)",
        "been": r"<place>(?:市|島)?(?:の[^、。]{1,8})?(?:に|へ|で|まで)[^、。]{0,14}?(?:行きました"
        r"|行った(?!こと(?:が|は|も)?(?:ない|あり?ませ|一度))|行ってきま|訪れ(?:まし"
        r"|た)|留学し(?:てい)?(?:まし|た)|旅行し(?:まし|た)|住んでい(?:まし"
        r"|た)|暮らし(?:てい)?(?:まし|た)|働いてい(?:まし|た)|過ごし(?:まし"
        r"|た)|滞在し)|<place>(?:留学|旅行)(?:で|の(?:とき|時)|中)",
        "until": r"(午前|午後|朝|昼|夕方|夜|深夜|夜中)?の?" + NUMBER_JA + r"時(半)?(?:まで|に閉|で閉|閉店|に終|で終)",
        "price": r"([一-龠々ァ-ヶー]{2,12})(?:は|が|も|なら|だと)、?[^、。0-9一-十百千万]{0,8}([0-9]{1,3}(?:,[0"
        r"-9]{3})+|[0-9]{2,7}|[一二三四五六七八九十百千万]{1,8})円",
        "own_name": r"(?:^|[、。]|私は|僕は|俺は|わたしは|名前は)([一-龠々ァ-ヶーぁ-ん]{2,8}?)と(?:申し(?:ます"
        r"|ております)|言います|いいます)",
        "gives_name": r"名前は([一-龠々ァ-ヶーぁ-ん]{1,8}?)(?:です|と(?:いい|言い|申)|だよ"
        r"|で、)|(?:^|[、。！？\s]|私は|僕は|俺は)([一-龠々ァ-ヶーぁ-ん]{1,8}?)と(?:いい"
        r"|言い|申し)ます|^([一-龠々]{1,4}|[ァ-ヶー]{2,8})(?:です|と申)",
        "calls": r"(?:^|[。、！？!?\s]|では|それでは|じゃあ)([一-龠々]{1,5}|[ァ-ヶー]{2,8})(?:様"
        r"|さん|さま)(?=[、。！？!?,.]|$)",
        "reference": r"番号(?:は|が|の|、|：|:)?\s?([0-9]{3,12})|([0-9]{3,12})番",
        "weekday": r"([月火水木金土日])曜",
        "people": NUMBER_JA + r"(?:名様|名|人(?!前|気|目|用|間|分))",
        "date": NUMBER_JA + r"日(?!間|目|後|以内|前|本|程|々)",
        "time": r"(?:午前|午後|夜の?|朝の?)?" + NUMBER_JA + r"時(?!間)",
    },
    "ko": {
        "home": r"<place>(?:시|도|군|광역시)?(?:에서|서|이|가|은|는)?(?: [가-힣]{1,3})?\s?(?:나고\s?자"
        r"|태어나|태어났|자랐|자란|자라서|자라났|출신|토박이|이\s?고향|가\s?고향"
        r"|고향)|고향(?:인|이|은|는|,)?\s?(?:바로\s)?<place>",
        "residence": r"<place>(?:시)?에(?:서)?\s(?:[가-힣]{1,4}\s){0,2}?(?:살고\s있|살아요"
        r"|살아(?![가-힣])|삽니다|산다)",
        "age": r"(?<![가-힣0-9])([0-9]{1,3}|[가-힣]{1,6}?)\s?(?:살|세)(?=이에요|예요"
        r"|입니다|이야|인데|이고|이라|이니|이거든|이지|밖에|$)|(?:^|[\s,])((?:스물"
        r"|서른|마흔|쉰|예순|일흔)[가-힣]{0,2}?)(?=이에요|예요|입니다|이야|이거든)",
        "decade": r"(?<![가-힣0-9])([0-9]{2}|[일이삼사오육칠팔구]?십)\s?대(?=\s?초|\s?중"
        r"|\s?후|예요|입니다|이에요|야|가\s됐|가\s되)",
        "asks_age": r"몇\s?살|나이|연세|연령|몇\s?세",
        "pet": r"(?<![가-힣])<pet>(?:를|을|하고|랑|이랑|와|과|도)?\s(?:[가-힣]+\s){0,3}?(?:키우(?:고(?!\s?싶)"
        r"|는\s데|면서|지만|거든|다\s?보|니까|ㅂ)|키워(?!\s?보)|키웁|키운(?!다면)"
        r"|기르고(?!\s?싶)|길러|기릅|살아요|살고|삽니다|살아(?![가-힣])|산책시키러)|우리\s(?:집\s)?<pet>",
        "no_pet": r"(?:동물|애완|반려|아무것도)[^.]{0,14}(?:안\s키|못\s키|키우지|없)",
        "not_kept": r"(?<![가-힣])<pet>(?:는|은|를|을|도)?\s(?:(?:안|못)\s키(?!웠)|키우지\s?(?:는\s)?(?:않(?!았)|못))",
        "sibling": r"(?<![가-힣])(?<!동네 )(?<!아는 )(?<!친한 )(?<!옆집 )<sibling>(?:이랑"
        r"|이|가|은|는|도|랑|하고|과|와|한테|에게|네|의|을|를)?(?=\s|,|$)",
        "spouse": r"(?<![가-힣])<spouse>(?:이랑|이|가|은|는|도|랑|하고|과|와|한테|에게"
        r"|의)?(?=\s|,|$)",
        "never": r"(?:<abroad>|한국|<place>)(?:에|을|를|으로|로|에는|에도|여행을|에서)?[^.]{0,18}?"
        r"(?:(?:안|못)\s가\s?봤|적(?:이|은|도)?\s?(?:한\s?번도\s?|전혀\s?|아직\s?)?없)",
        "been": r"<place>(?:도|시)?(?:에서|에|으로|로|을|를)?(?:는|도)?\s[^.]{0,14}?(?:다녀왔"
        r"|다녀온|갔을|갔었|갔다|갔는|갔어|갔습|가\s?봤|가\s본\s적(?:이|도)?\s있"
        r"|공부했|유학했|여행했|살았|살\s때|일했|지냈)",
        "until": r"(오전|오후|아침|낮|저녁|밤|새벽)?\s?"
        + NUMBER_KO
        + r"\s?시(?:\s?(반))?\s?(?:까지|에\s(?:문을\s)?닫|에\s?마감|에\s?끝)",
        "price": r"([가-힣]{2,8})(?:은|는|이|가)\s[^.0-9]{0,6}?([0-9]{1,3}(?:,[0-9]{3})+"
        r"|[0-9]{2,7}|[일이삼사오육칠팔구십백천만]{1,8})\s?원",
        "own_name": r"(?:저는|나는|이름은|난)\s([가-힣]{2,4}?)(?:이?라고\s(?:합니다|해요"
        r"|해|불러))|제?\s?이름은\s([가-힣]{2,4}?)(?:이에요|예요|입니다|이야"
        r"|야)",
        "gives_name": r"이름은\s([가-힣]{2,4}?)(?:이?라고|이에요|예요|입니다|이고|이야|야)"
        r"|(?:저는|전|나는|난)\s([가-힣]{2,4}?)이?라고\s?(?:해|합|하)|^([가-힣]{3})(?:입니다"
        r"|이라고|라고)",
        "calls": r"(?:^|[,.!?\s])([가-힣]{2,4})\s(?:고객님|환자님|회원님|씨|님)(?=[,.!?\s]"
        r"|$|의|은|는|께|도)",
        "reference": r"번호(?:는|가|,|:)?\s?([0-9]{3,12})|([0-9]{3,12})번",
        "weekday": r"([월화수목금토일])요일",
        "people": r"(?<![가-힣0-9])([0-9]{1,3}|[한두세네]|다섯|여섯|일곱|여덟|아홉|열)\s?(?:명"
        r"|분(?=[이으을\s]?(?:로|이|\s자리|\s예약|으로)))",
        "date": r"(?<![가-힣0-9])([0-9]{1,2}|[일이삼사오육칠팔구십]{1,4}?)일(?=\s|로"
        r"|에|이|입|자|$|,)",
        "time": r"(?<![가-힣0-9])([0-9]{1,2}|[한두세네]|다섯|여섯|일곱|여덟|아홉|열한"
        r"|열두|열)\s?시(?!간|작|키|험|장|도|기|선|스|설)",
    },
}
KEPT_TITLE = {
    "ja": r"(?:です|でして|でし[たて]|をして(?:い|る|ま|お)|をやって|として(?:働"
    r"|勤)|だ(?:よ|から|けど|し|ね)|なん|なので|の仕事を|をしながら|で、)",
    "ko": r"(?:이에요|예요|입니다|이야|야|인데|이라|라서|로\s일|으로\s일|\s일을"
    r"|이거든|거든|으로\s근무|로\s근무|이고|생활)",
}
# A noun with は or 은 right before a fact, which then is that noun's
TOPIC = {
    "ja": re.compile(r"([^、。\sはがも]{1,10})[はが]$"),
    "ko": re.compile(r"(?:^|\s)([가-힣]{1,8})[은는이가]\s$"),
}
NO_TOPIC = re.compile(r"^(?:実|今|元|元々|もともと|本当|正確に|実際|生まれ|出身|地元|故郷|사실|원래|고향|지금|본래)$")
# What is open until an hour
OPENS = {
    "ja": re.compile(r"([一-龠々ァ-ヶー]{2,12})(?:は|が|も|でしたら|なら)"),
    "ko": re.compile(r"(?<![가-힣])([가-힣]{2,10})[은는](?=\s|$)"),
}
STILL = re.compile(
    r"(?:昔|以前|前|子どものころ|子どもの頃|子供の頃|小さい頃|小さいころ|幼い頃|もともと)から|(?:예전|옛날|어릴\s?때|어렸을\s?때)부터"
)
ASKED_FAMILY = re.compile("兄弟|姉妹|형제|자매")
# A visit without a place, with the denial as a group
VISITED = {
    "ja": re.compile(
        r"(?:行った|訪れた)こと(?:が|は|も)?(?:、?一度も|まだ)?(ない|なく|ありません"
        r"|ございません)|(?:行きました|行ってきました|訪れました|(?:行った|訪れた)ことがあ"
        r"|住んでいました|留学しました)"
    ),
    "ko": re.compile(
        r"가\s?본\s적(?:이|은|도)?\s?(?:한\s번도\s?|아직\s?)?(없)|(?:다녀왔"
        r"|가\s?봤|갔었|가\s?본\s적(?:이|도)?\s있|살았)"
    ),
}
TOGETHER = re.compile(r"[가-힣]?(?:랑|하고|과|와)(?![가-힣])|.と(?!い[うっ])")
PART_TIME = re.compile(r"バイト|パート|알바|아르바이트")


def is_script(word: str, language: str) -> bool:
    """Whether the word is written in the language's own script."""
    return ("\uac00" <= word[0] <= "\ud7a3") == (language == "ko")


def person_pattern(language: str, listed: str) -> str:
    """Words for others than the speaker; in Korean where the word stands alone: many are syllables."""
    if language == "ja":
        return any_of(listed)
    name = r"[가-힣]{2,4} ?(?:씨|님)(?:은|는|이|가|도|의)?(?![가-힣])"
    particles = "(?:이랑|께서|에게|한테|하고|네|은|는|이|가|의|도|과|와|랑|을|를)?"
    return rf"(?<![가-힣]){any_of(listed)}(?:들)?{particles}(?![가-힣])|{name}"


def places_of(language: str) -> dict[str, frozenset[str]]:
    """Each place with itself and what it lies in."""
    found: dict[str, frozenset[str]] = {}

    def walk(part: Mapping[str, Any], around: frozenset[str]) -> None:
        for name, inner in part.items():
            found[name] = around | {name}
            if isinstance(inner, str):
                found.update({place: found[name] | {place} for place in words_in(inner)})
            else:
                walk(inner, found[name])

    data = load()["places"]
    home = "日本" if language == "ja" else "한국"
    walk({home: data[home]}, frozenset())
    walk({name: inner for name, inner in data["countries"].items() if is_script(name, language)}, frozenset())
    return found


def job_patterns(language: str) -> dict[str, re.Pattern[str]]:
    """For each group of jobs what claims one: a title with a copula, or a workplace."""
    patterns = {}
    for group, job in load()["jobs"].items():
        title = any_of(job["words"]) + KEPT_TITLE[language]
        patterns[group] = re.compile(f"{title}|{any_of(job['cues'])}" if job["cues"] else title)
    return patterns


@cache
def lists_for(language: str) -> Lists:
    """The patterns of ja or ko, compiled once."""
    return Lists(language)


DIGIT_VALUES = {
    **{digit: value for value, digit in enumerate("〇一二三四五六七八九")},
    **dict(zip("영일이삼사오육칠팔구", range(10), strict=True)),
}
POWERS = {"十": 10, "百": 100, "千": 1000, "십": 10, "백": 100, "천": 1000}
MYRIADS = frozenset("万만")
TENS = {
    "스물": 20,
    "스무": 20,
    "서른": 30,
    "마흔": 40,
    "쉰": 50,
    "예순": 60,
    "일흔": 70,
    "여든": 80,
    "아흔": 90,
    "열": 10,
}
ONES = {
    "하나": 1,
    "한": 1,
    "둘": 2,
    "두": 2,
    "셋": 3,
    "세": 3,
    "넷": 4,
    "네": 4,
    "다섯": 5,
    "여섯": 6,
    "일곱": 7,
    "여덟": 8,
    "아홉": 9,
}


def read_written_number(text: str) -> int | None:
    """The number below 10**8 that `text` writes as a whole (24, 二十四, 이십사, 스물네); None for anything else."""
    text = text.replace(" ", "")
    if text.isascii():
        return int(text) if text.isdigit() and len(text) < 10 else None
    native = read_native(text)
    return read_chinese(text) if native is None else native


def read_native(text: str) -> int | None:
    """A native Korean number from 1 to 99."""
    for word, tens in TENS.items():
        if text.startswith(word):
            rest = text[len(word) :]
            return tens + ONES[rest] if rest in ONES else None if rest else tens
    return ONES.get(text)


def read_chinese(text: str) -> int | None:
    """A number in Han characters or Sino-Korean words."""
    total, part, digit = 0, 0, None
    for character in text:
        if character in DIGIT_VALUES:
            digit = (digit or 0) * 10 + DIGIT_VALUES[character]
        elif character in POWERS:
            part += POWERS[character] * (1 if digit is None else digit)
            digit = None
        elif character in MYRIADS and not total:
            total, part, digit = 10_000 * ((part + (digit or 0)) or 1), 0, None
        else:
            return None
    return total + part + (digit or 0) if text else None
